package sandbox

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// EventType is the kind of an Event.
type EventType string

// The event types. Only notices come before EventStart. EventResult is the last.
const (
	EventStart  EventType = "start"
	EventStdout EventType = "stdout"
	EventStderr EventType = "stderr"
	EventNotice EventType = "notice"
	EventView   EventType = "view"   // with LiveView: the end of the output, as Data
	EventScreen EventType = "screen" // with LiveView and a terminal
	EventResult EventType = "result"
)

// Event is one moment of a running command.
type Event struct {
	Type   EventType
	Seq    uint64 // counts from 1 without gaps
	Time   time.Time
	Data   []byte  // of stdout, stderr, notice and view
	Binary bool    // of stdout, stderr: not text so far; of notice: about binary output
	Start  *Start  // of start
	Screen *Shot   // of screen
	Result *Result // of result
	Waits  bool    // of notice: it says what the command waits for

	LeftOut  int64  // of notice: bytes that the result leaves out; of stdout, stderr: bytes that are no longer kept
	Encoding string // of Data: see Output
	Size     int    // of stdout, stderr: bytes as the command wrote them, before Encoding changed them
}

// Start is the command that starts, named as in its result.
type Start struct {
	ID          string        `json:"id"`
	Command     string        `json:"command"`
	Dir         string        `json:"dir"`
	Description string        `json:"description,omitempty"`
	Session     string        `json:"session"`
	Container   ContainerInfo `json:"container"`
	TTY         *TerminalSize `json:"tty,omitempty"`
}

// eventJSON is an event. A result comes last, and is written apart.
type eventJSON struct {
	Type     EventType   `json:"type"`
	Seq      uint64      `json:"seq"`
	Time     time.Time   `json:"ts"`
	Data     *string     `json:"data,omitempty"`
	Encoding string      `json:"encoding,omitempty"`
	Binary   bool        `json:"binary,omitempty"`
	Waits    bool        `json:"waits,omitempty"`
	LeftOut  int64       `json:"left_out_bytes,omitempty"`
	Start    *Start      `json:"start,omitempty"`
	Screen   *Shot       `json:"screen,omitempty"`
	Result   *resultJSON `json:"result,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (e Event) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	err := e.WriteJSON(&b)
	return b.Bytes(), err
}

// UnmarshalJSON reads what WriteJSON writes.
func (e *Event) UnmarshalJSON(text []byte) error {
	var line eventJSON
	err := json.Unmarshal(text, &line)
	*e = Event{Type: line.Type, Seq: line.Seq, Time: line.Time, Binary: line.Binary, Waits: line.Waits, LeftOut: line.LeftOut, Start: line.Start, Screen: line.Screen}
	if err == nil && line.Result != nil {
		e.Result = new(Result)
		err = line.Result.read(e.Result)
	}
	if err == nil && line.Data != nil {
		var o Output
		o, err = decoded(*line.Data, line.Encoding)
		e.Data = o.Head
	}
	if line.Encoding != "base64" {
		e.Encoding = line.Encoding
	}
	return err
}

// WriteJSON writes the line of `--format ndjson`, without its end. Data is a
// string where it is text; where it is not, "encoding" says base64.
func (e Event) WriteJSON(w io.Writer) error {
	line := eventJSON{Type: e.Type, Seq: e.Seq, Time: e.Time, Binary: e.Binary, Waits: e.Waits, LeftOut: e.LeftOut, Start: e.Start, Screen: e.Screen, Encoding: e.Encoding}
	if e.Data != nil {
		data, o := string(e.Data), Output{Head: e.Data}
		if e.Encoding == "" && (e.Binary && e.Type != EventNotice || !o.IsText()) {
			data, line.Encoding = base64.StdEncoding.EncodeToString(e.Data), "base64"
		}
		line.Data = &data
	}
	text, err := JSON(line)
	if err != nil || e.Result == nil {
		_, failed := w.Write(text)
		return errors.Join(err, failed)
	}
	if _, err := fmt.Fprintf(w, `%s,"result":`, text[:len(text)-1]); err != nil {
		return err
	}
	if err := e.Result.WriteJSON(w); err != nil {
		return err
	}
	_, err = io.WriteString(w, "}")
	return err
}
