package sandbox

import (
	"cmp"
	"io"
	"iter"
)

// Viewer turns output into what a person or a model reads: text that is bounded,
// UTF-8 and safe to look at.
type Viewer interface {
	// View reads chunks to their end. Total counts all that was written, also
	// what the chunks lack.
	View(v View, chunks iter.Seq[Chunk], total Total) Text
	// NewScreen is an empty screen.
	NewScreen(size TerminalSize) Screen
	// Charset is the one name of a charset that may have many, such as utf-16le
	// for ucs-2, and what it does not know as it is.
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

// View bounds what a reader gets to see. A zero field is the profile's; each
// bound gives one half to the beginning and one to the end.
type View struct {
	Mode      ViewMode
	Bytes     int64  // of UTF-8 text
	Lines     int64  // a line that is cut counts as one
	LineChars int64  // of one line
	Charset   string // what text is encoded in, as IANA names it; "" is detected
	TailOnly  bool   // the end gets all
}

// Text is a view of one output.
type Text struct {
	Text         string `json:"text"`          // with a mark where something was left out
	OmittedBytes int64  `json:"omitted_bytes"` // as the command wrote them
	OmittedLines int64  `json:"omitted_lines"` // that are not there at all
	Charset      string `json:"charset"`       // what it was transcoded from; "utf-8" is not
	Binary       bool   `json:"binary"`        // no text: Text says how much there is
}

// Views are a result's views, by its mode.
type Views struct {
	Stdout *Text `json:"stdout,omitempty"`
	Stderr *Text `json:"stderr,omitempty"`
	Merged *Text `json:"merged,omitempty"`
}

// Total counts what was written.
type Total struct {
	Bytes int64
	Lines int64 // line ends
}

// Chunk is a piece of a command's output.
type Chunk struct {
	Stream Stream // whose it is
	Offset int64  // of its first byte, as its reader counts
	Missed int64  // bytes before Offset that the reader did not get: they are kept no more
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
type TerminalSize struct{ Columns, Rows int }

// Screen is a terminal's: what a person would see. Writing to it never fails.
// It is not safe for concurrent use.
type Screen interface {
	io.Writer
	Resize(size TerminalSize)
	Shot() Shot
}

// Shot is a screen at one moment, what scrolled off its top first.
type Shot struct {
	Columns int      `json:"columns"`
	Rows    int      `json:"rows"`
	Text    string   `json:"text"`  // lines without the blanks at their ends
	Lines   [][]Span `json:"lines"` // the same, with attributes
}

// Span is a part of a line that has the same attributes. A color is "" for the
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

// The bounds of a terminal's size: what a program draws for more is nobody's
// screen.
const (
	MaxColumns = 500
	maxRows    = 200
)

// Bounded is the size that a terminal gets.
func (s TerminalSize) Bounded() TerminalSize {
	return TerminalSize{Columns: min(max(cmp.Or(s.Columns, 80), 1), MaxColumns), Rows: min(max(cmp.Or(s.Rows, 24), 1), maxRows)}
}
