package view

import (
	"io"
	"slices"
	"unicode/utf8"
)

// SafeWriter writes its input as Safe text. It is not safe for
// concurrent use.
type SafeWriter struct {
	to     io.Writer
	before rune   // the last one
	rest   []byte // an unfinished rune, or a \r before its next byte
	out    []byte
}

// NewSafeWriter makes a writer for text in pieces. Flush it at the
// end. A \r without a \n is made visible: the text after it would
// overwrite what a person has read.
func NewSafeWriter(w io.Writer) *SafeWriter { return &SafeWriter{to: w} }

// Write holds back up to three bytes. An error is the underlying writer's,
// after which part of p may be written.
func (s *SafeWriter) Write(p []byte) (int, error) {
	text := p
	if len(s.rest) > 0 {
		text = slices.Concat(s.rest, p)
		s.rest = s.rest[:0]
	}
	text = text[s.neutralise(text, false):]
	s.rest = append(s.rest, text...)
	return len(p), s.flush()
}

// Flush writes the bytes held back, at the end of the text.
func (s *SafeWriter) Flush() error {
	s.neutralise(s.rest, true)
	s.rest = s.rest[:0]
	return s.flush()
}

func (s *SafeWriter) flush() error {
	out := s.out
	s.out = s.out[:0]
	if len(out) == 0 {
		return nil
	}
	_, err := s.to.Write(out)
	return err
}

// neutralise returns how much of p it processed: all but an unfinished rune.
func (s *SafeWriter) neutralise(p []byte, last bool) int {
	for i := 0; i < len(p); {
		if n := plainPrefix(p[i:]); n > 0 {
			s.out = append(s.out, p[i:i+n]...)
			i += n
			s.before = rune(p[i-1])
			continue
		}
		if !last && (!utf8.FullRune(p[i:]) || p[i] == '\r' && i+1 == len(p)) {
			return i
		}
		r, size := utf8.DecodeRune(p[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			s.out = append(s.out, escapedByte(p[i])...)
			r = 0
		case r == '\r' && i+1 < len(p) && p[i+1] == '\n':
			s.out = append(s.out, '\r')
		case visible(s.before, r):
			s.out = append(s.out, p[i:i+size]...)
		default:
			s.out = append(s.out, escaped(r)...)
			r = 0
		}
		s.before = r
		i += size
	}
	return len(p)
}
