package view

import (
	"io"

	"belljar/internal/sniff"
)

// TextWriter writes text for a person, up to where it turns to binary data, which it only
// counts. It is not safe for concurrent use.
type TextWriter struct {
	to      io.Writer
	safe    *SafeWriter // nil if text is written as it is
	sniffer sniff.Sniffer
	data    int64
}

// NewTextWriter is a TextWriter. With safe, it writes Safe text.
func NewTextWriter(w io.Writer, safe bool) *TextWriter {
	t := &TextWriter{to: w}
	if safe {
		t.safe = NewSafeWriter(w)
		t.to = t.safe
	}
	return t
}

// Write takes all of p. An error is the underlying writer's.
func (t *TextWriter) Write(p []byte) (int, error) {
	text := p[:t.textIn(p)]
	t.data += int64(len(p) - len(text))
	if len(text) > 0 {
		if _, err := t.to.Write(text); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// textIn is how much of p is text.
func (t *TextWriter) textIn(p []byte) int {
	if t.data > 0 {
		return 0
	}
	_, _ = t.sniffer.Write(p) // never fails
	if t.sniffer.Encoding() != "" {
		if t.sniffer.Binary() {
			return 0
		}
		return len(p)
	}
	// A few NULs are no data here: find -print0 writes text.
	if at := sniff.DataAt(p); at >= 0 {
		return at
	}
	return len(p)
}

// Flush writes what was kept back: no more is coming that would complete it.
func (t *TextWriter) Flush() error {
	if t.safe == nil {
		return nil
	}
	return t.safe.Flush()
}

// Data is how many bytes were not written.
func (t *TextWriter) Data() int64 { return t.data }
