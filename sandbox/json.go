package sandbox

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// resultHead and resultTail are a result's JSON around its two streams, which
// are too large to be held a second time.
type resultHead struct {
	ID          string `json:"id"`
	Command     string `json:"command"`
	Dir         string `json:"dir"`
	Shell       string `json:"shell"`
	Description string `json:"description,omitempty"`
	Profile     string `json:"profile"`
	Session     string `json:"session"`
	User        string `json:"user"`                // UID:GID; "" if unknown
	UserName    string `json:"user_name,omitempty"` // as requested, if by name
	Lost        string `json:"session_lost,omitempty"`
	Status      Status `json:"status"`
	Cause       Cause  `json:"cause"`
	Message     string `json:"message"`
	ExitCode    int    `json:"exit_code"`
	Signal      string `json:"signal"`
	Method      string `json:"method"`
}

type resultTail struct {
	Error  *Error    `json:"error,omitempty"`
	Policy *Judgment `json:"policy,omitempty"`
	streamsJSON
	View      *Views          `json:"view,omitempty"`
	Screen    *Shot           `json:"screen,omitempty"`
	Files     []CollectedFile `json:"files,omitempty"`
	Summary   string          `json:"summary,omitempty"`
	Masked    int             `json:"masked,omitempty"`
	Lingering []Process       `json:"lingering"`
	Evidence  Evidence        `json:"evidence"`
	Resources Resources       `json:"resources"`
	Timing    timingJSON      `json:"timing"`
	Container ContainerInfo   `json:"container"`
}

// streamsJSON describes both streams.
type streamsJSON struct {
	Streams        Streams `json:"streams,omitempty"`
	StdoutEncoding string  `json:"stdout_encoding"`
	StderrEncoding string  `json:"stderr_encoding"`
	StdoutBytes    int64   `json:"stdout_bytes"`
	StderrBytes    int64   `json:"stderr_bytes"`
	BytesTotal     int64   `json:"bytes_total"`
	StdoutLines    int64   `json:"stdout_lines"`
	StderrLines    int64   `json:"stderr_lines"`
	StdoutSHA256   string  `json:"stdout_sha256"`
	StderrSHA256   string  `json:"stderr_sha256"`
	StdoutGap      *gap    `json:"stdout_gap,omitempty"`
	StderrGap      *gap    `json:"stderr_gap,omitempty"`
	Truncated      bool    `json:"truncated"`
	DroppedBytes   int64   `json:"dropped_bytes"`
	Binary         bool    `json:"binary"`
}

// gap says where bytes of a stream were dropped.
type gap struct {
	Offset int   `json:"offset"` // counts the stream's decoded bytes
	Bytes  int64 `json:"bytes"`
}

type timingJSON struct {
	Queued      float64 `json:"queued_ms"`
	Start       float64 `json:"start_ms"`
	FirstOutput float64 `json:"first_output_ms"`
	Total       float64 `json:"total_ms"`
}

// MarshalJSON implements json.Marshaler. For large outputs prefer WriteJSON.
func (r Result) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	err := r.WriteJSON(&b)
	return b.Bytes(), err
}

// WriteJSON writes the result as one JSON object without a line end. A stream
// that is valid UTF-8 without NULs, or was made so, is a string, any other is base64.
func (r Result) WriteJSON(w io.Writer) error {
	out := bufio.NewWriter(w)
	head, err := JSON(resultHead{r.ID, r.Command, r.Dir, r.Shell, r.Description, r.Profile, r.Session, r.User.Numbers(), r.User.Name, r.SessionLost, r.Status, r.Cause, r.Message, r.ExitCode, r.Signal, r.Method})
	if err != nil {
		return err
	}
	tail, err := JSON(r.tail())
	if err != nil {
		return err
	}
	out.Write(head[:len(head)-1])
	if r.Streams == "" || r.Streams == StreamsFull {
		out.WriteString(`,"stdout":"`)
		r.Stdout.writeJSON(out)
		out.WriteString(`","stderr":"`)
		r.Stderr.writeJSON(out)
		out.WriteByte('"')
	}
	out.WriteByte(',')
	out.Write(tail[1:])
	return out.Flush() // bufio keeps the first error
}

func (r Result) tail() resultTail {
	dropped := r.Stdout.Dropped + r.Stderr.Dropped
	return resultTail{
		Error: r.Error, Policy: r.Policy,
		streamsJSON: streamsJSON{
			Streams: r.Streams, StdoutEncoding: r.Stdout.encoding(), StderrEncoding: r.Stderr.encoding(),
			StdoutBytes: r.Stdout.Total, StderrBytes: r.Stderr.Total, BytesTotal: r.Stdout.Total + r.Stderr.Total,
			StdoutLines: r.Stdout.Lines, StderrLines: r.Stderr.Lines,
			StdoutSHA256: r.Stdout.SHA256, StderrSHA256: r.Stderr.SHA256,
			StdoutGap: r.Stdout.gap(), StderrGap: r.Stderr.gap(),
			Truncated: dropped > 0, DroppedBytes: dropped,
			Binary: !r.Stdout.IsText() || !r.Stderr.IsText(),
		},
		View: r.Views, Screen: r.Screen, Files: r.Files, Summary: r.Summary, Masked: r.Masked,
		Lingering: append([]Process{}, r.Lingering...), Evidence: r.Evidence, Resources: r.Resources,
		Timing:    timingJSON{ms(r.Timing.Queued), ms(r.Timing.Start), ms(r.Timing.FirstOutput), ms(r.Timing.Total)},
		Container: r.Container,
	}
}

// fileJSON is a file's JSON.
type fileJSON struct {
	bareFile
	Mode     string `json:"mode"` // octal
	Content  string `json:"content"`
	Encoding string `json:"encoding"`
}

type bareFile CollectedFile

// MarshalJSON implements json.Marshaler. Content is a string as a stream is.
func (f CollectedFile) MarshalJSON() ([]byte, error) {
	j := fileJSON{bareFile(f), fmt.Sprintf("%04o", f.Mode.Perm()), string(f.Content), Output{Head: f.Content}.encoding()}
	if j.Encoding == "base64" {
		j.Content = base64.StdEncoding.EncodeToString(f.Content)
	}
	return JSON(j)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (f *CollectedFile) UnmarshalJSON(text []byte) error {
	var j fileJSON
	err := json.Unmarshal(text, &j)
	content, failed := decoded(j.Content, j.Encoding)
	*f = CollectedFile(j.bareFile)
	f.Content = content.Head
	_, wrong := fmt.Sscanf(j.Mode, "%o", &f.Mode)
	return errors.Join(err, failed, wrong)
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func (o Output) gap() *gap {
	if o.Dropped == 0 {
		return nil
	}
	return &gap{len(o.Head), o.Dropped}
}

// IsText reports whether it is UTF-8 without a NUL byte.
func (o Output) IsText() bool {
	for _, part := range [][]byte{o.Head, o.Tail} {
		if !utf8.Valid(part) || bytes.IndexByte(part, 0) >= 0 {
			return false
		}
	}
	return true
}

func (o Output) encoding() string {
	switch {
	case o.Encoding != "":
		return o.Encoding
	case o.IsText():
		return "utf-8"
	}
	return "base64"
}

// blockSize is how much of a stream is turned into JSON at once.
const blockSize = 64 << 10

func (o Output) writeJSON(w *bufio.Writer) {
	if o.encoding() == "base64" {
		encoder := base64.NewEncoder(base64.StdEncoding, w)
		encoder.Write(o.Head)
		encoder.Write(o.Tail)
		encoder.Close()
		return
	}
	for _, part := range [][]byte{o.Head, o.Tail} {
		for len(part) > 0 {
			n := min(len(part), blockSize)
			for n < len(part) && !utf8.RuneStart(part[n]) { // it is UTF-8
				n--
			}
			quoted, _ := JSON(string(part[:n])) // a string always marshals
			w.Write(quoted[1 : len(quoted)-1])
			part = part[n:]
		}
	}
}

// JSON is json.Marshal that leaves <, > and & readable, and escapes everything that a
// terminal would interpret: people read JSON, too.
func JSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return escapeUnseen(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), err
}

// escapeUnseen escapes DEL, C1 and what Unicode counts as formatting, such as
// bidi overrides: encoding/json escapes only ASCII's control characters.
// In JSON text all of these can occur only in strings.
func escapeUnseen(text []byte) []byte {
	if !slices.ContainsFunc(text, func(b byte) bool { return b >= 0x7F }) {
		return text // the usual case
	}
	out := make([]byte, 0, len(text)+64)
	for _, r := range string(text) {
		if r < 0x7F || !unicode.IsControl(r) && !unicode.Is(unicode.Cf, r) {
			out = utf8.AppendRune(out, r)
			continue
		}
		for _, u := range utf16.AppendRune(nil, r) {
			out = fmt.Appendf(out, "\\u%04x", u)
		}
	}
	return out
}
