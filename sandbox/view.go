package sandbox

import (
	"cmp"
	"io"
	"iter"
)

// Viewer turns output into what a person or a model reads: text that is bounded,
// UTF-8 and safe to display.
type Viewer interface {
	// View reads chunks to their end. Total counts all output, including what
	// is missing in the chunks.
	View(v View, chunks iter.Seq[Chunk], total Total) Text
	// NewScreen is an empty screen with the scrollback of v.
	NewScreen(v View, size TerminalSize) Screen
	// Charset is the usual name of a charset that has several, such as utf-16le
	// for ucs-2. It returns unknown names unchanged.
	Charset(name string) string
}

// ViewMode says which views a result has.
type ViewMode string

// The view modes. The empty mode is the profile's.
const (
	ViewNone     ViewMode = "none"
	ViewSeparate ViewMode = "separate" // one of stdout and one of stderr
	ViewMerged   ViewMode = "merged"   // one of both, in order of arrival
)

// View bounds a text for a reader. A zero field means the profile's; each
// bound keeps one half of its size at the beginning and one at the end.
type View struct {
	Mode      ViewMode
	Bytes     int64  // of UTF-8 text
	Lines     int64  // a line that is cut counts as one
	LineChars int64  // of one line
	Charset   string // what text is encoded in, as IANA names it; "" to detect it
	TailOnly  bool   // keep only the end

	Scrollback, ScrollbackBytes int64 // of a screen: lines that scrolled off its top, and bytes of their text
}

// Text is a view of one output.
type Text struct {
	Text         string `json:"text"`          // with a mark where something is left out
	OmittedBytes int64  `json:"omitted_bytes"` // as the command wrote them
	OmittedLines int64  `json:"omitted_lines"` // not shown at all
	Charset      string `json:"charset"`       // the source's charset; "utf-8" if it was not transcoded
	Binary       bool   `json:"binary"`        // not text: Text says how many bytes there are
}

// Views are a result's views, depending on its mode.
type Views struct {
	Stdout *Text `json:"stdout,omitempty"`
	Stderr *Text `json:"stderr,omitempty"`
	Merged *Text `json:"merged,omitempty"`
}

// Total counts the whole output.
type Total struct {
	Bytes int64
	Lines int64 // line ends
}

// Chunk is a piece of a command's output.
type Chunk struct {
	Stream Stream // the stream it belongs to
	Offset int64  // of its first byte, as its reader counts
	Missed int64  // bytes before Offset that the reader did not get: they are no longer kept
	Data   []byte // valid until the next chunk is read
}

// Stream names a command's output.
type Stream string

// The streams. The empty stream is invalid.
const (
	Stdout Stream = "stdout"
	Stderr Stream = "stderr"
	Merged Stream = "merged" // both, in order of arrival
)

// TerminalSize is a terminal's, in characters; 0 is 80 and 24.
type TerminalSize struct {
	Columns int `json:"columns"`
	Rows    int `json:"rows"`
}

// Screen is a terminal's screen: what a person would see. Writing to it never fails.
// It is not safe for concurrent use.
type Screen interface {
	io.Writer
	Resize(size TerminalSize)
	Shot(scrollback bool) Shot // with what scrolled off, or without
}

// Shot is a screen at one moment, beginning with the lines that scrolled off its top.
type Shot struct {
	Columns int      `json:"columns"`
	Rows    int      `json:"rows"`
	Text    string   `json:"text"`  // lines without trailing blanks
	Lines   [][]Span `json:"lines"` // the same, with attributes
}

// Span is a part of a line with the same attributes. A color is "" for the
// terminal's own, "palette:N" for one of its 256, or "#rrggbb".
type Span struct {
	Text       string `json:"text"`
	Bold       bool   `json:"bold,omitempty"`
	Italic     bool   `json:"italic,omitempty"`
	Underline  bool   `json:"underline,omitempty"`
	Inverse    bool   `json:"inverse,omitempty"`
	Foreground string `json:"fg,omitempty"`
	Background string `json:"bg,omitempty"`
}

// The bounds of a terminal's size: no screen is larger.
const (
	MaxColumns = 500
	maxRows    = 200
)

// Bounded is the size within these bounds.
func (s TerminalSize) Bounded() TerminalSize {
	return TerminalSize{Columns: min(max(cmp.Or(s.Columns, 80), 1), MaxColumns), Rows: min(max(cmp.Or(s.Rows, 24), 1), maxRows)}
}
