package spool

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"unicode/utf8"

	"belljar/sandbox"
)

// Outputs is what a result has of both streams, once the spool ended: of what is kept,
// limit bytes of both together. The error says what could not be kept; the outputs are
// what there is in any case. Without a limit they have no bytes, and Dropped is what is
// not kept.
func (s *Spool) Outputs(limit int64) (out [2]sandbox.Output, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	room := s.share()
	kept := [2]extent{s.extent(Stdout, room[Stdout]), s.extent(Stderr, room[Stderr])}
	most := [2]int64{max(limit/2, limit-kept[Stderr].size()), max(limit-limit/2, limit-kept[Stdout].size())}
	if limit <= 0 {
		most = [2]int64{-1, -1}
	}
	var lost []string
	for i := range s.streams {
		o, end, err := s.output(Stream(i), kept[i], most[i])
		if err != nil {
			s.failed = errors.Join(s.failed, err)
		}
		if missing := o.Total - end; s.failed != nil && missing > 0 {
			lost = append(lost, fmt.Sprintf("the last %d bytes of %s", missing, Stream(i).String()))
		}
		out[i] = o
	}
	if len(lost) == 0 {
		return out, nil
	}
	return out, fmt.Errorf("%s could not be stored: %w", strings.Join(lost, " and "), s.failed)
}

// extent is what is kept of a stream, by offsets: [0, head) and [tail, end).
type extent struct{ head, tail, end int64 }

func (e extent) size() int64 { return e.head + e.end - e.tail }

// cut leaves most bytes, half of them at either end. If what is kept ends before the
// stream does, its end is no end: only the beginning is left.
func (e extent) cut(most, total int64) extent {
	if e.size() <= most {
		return e
	}
	if e.end < total && e.head == e.tail {
		return extent{most, e.end, e.end}
	}
	head, tail := e.head, e.end-e.tail
	if e.head == e.tail {
		head, tail = e.end, e.end // it is whole
	}
	head = min(head, max(most/2, most-tail))
	return extent{head, e.end - (most - head), e.end}
}

// extent is what is kept of one stream, with room for so much of its end.
func (s *Spool) extent(which Stream, room int64) (e extent) {
	k := &s.streams[which]
	for _, seg := range k.segments {
		e.end = seg.end()
		if !seg.tail {
			e.head = e.end
		}
	}
	e.tail = max(e.head, e.end-min(k.tail(), room))
	return e
}

// output is what a result has of one stream, and where in the stream that ends.
func (s *Spool) output(which Stream, kept extent, most int64) (o sandbox.Output, end int64, err error) {
	k := &s.streams[which]
	o = sandbox.Output{Total: k.Bytes, Lines: k.Lines, SHA256: k.sha256(), Dropped: k.Bytes - kept.size()}
	if most < 0 {
		return o, kept.end, nil
	}
	defer func() { o.Dropped = o.Total - int64(len(o.Head)) - int64(len(o.Tail)) }()
	in := kept.cut(most, k.Bytes)
	if o.Head, err = s.bytes(which, 0, in.head); err != nil {
		return o, int64(len(o.Head)), err
	}
	if o.Tail, err = s.bytes(which, in.tail, in.end); err != nil {
		return o, in.tail + int64(len(o.Tail)), err
	}
	if int64(len(o.Head)+len(o.Tail)) == o.Total {
		o.Head, o.Tail = append(o.Head, o.Tail...), nil // head and tail may be parts of one rune
		return o, in.end, nil
	}
	return trimmed(o), in.end, nil
}

// bytes reads a part of a stream that is kept as a whole.
func (s *Spool) bytes(which Stream, from, to int64) ([]byte, error) {
	return readBytes(s.storedSource(), which, from, to)
}

func readBytes(src Source, which Stream, from, to int64) ([]byte, error) {
	p := make([]byte, 0, to-from)
	if to == from {
		return p, nil
	}
	r, err := NewReader(src, which.Name(), from)
	if err != nil {
		return p, err
	}
	defer r.Close()
	for int64(len(p)) < to-from {
		c, err := r.available()
		if err == nil && c.Missed > 0 {
			err = errDamaged
		}
		if err != nil {
			return p, err
		}
		p = append(p, c.Data[:min(int64(len(c.Data)), to-from-int64(len(p)))]...)
	}
	return p, nil
}

// Chunks are what is kept, in order. It is called once the spool ended, and
// stops where it cannot be read.
func (s *Spool) Chunks(which sandbox.Stream) iter.Seq[sandbox.Chunk] {
	return func(yield func(sandbox.Chunk) bool) {
		r, err := NewReader(s.storedSource(), which, 0)
		if err != nil {
			return
		}
		defer r.Close()
		for {
			c, err := r.Next(context.Background())
			if err != nil || !yield(c) {
				return
			}
		}
	}
}

// ByteReader is what is kept, as an io.Reader. It is for a spool that ended.
func (s *Spool) ByteReader(which sandbox.Stream) *ByteReader {
	r, _ := NewReader(s.storedSource(), which, 0) // the stream and the offset are valid
	return &ByteReader{reader: r}
}

// WholeRunes is p without the beginning of a rune at its end.
func WholeRunes(p []byte) []byte {
	for i := len(p) - 1; i >= max(0, len(p)-utf8.UTFMax); i-- {
		if !utf8.RuneStart(p[i]) {
			continue
		}
		if !utf8.FullRune(p[i:]) {
			return p[:i]
		}
		break
	}
	return p
}

// FromRune is p without the rest of a rune at its beginning.
func FromRune(p []byte) []byte {
	for range utf8.UTFMax - 1 {
		if len(p) > 0 && !utf8.RuneStart(p[0]) {
			p = p[1:]
		}
	}
	return p
}

// trimmed is o without the parts of runes on both sides of its gap, which would
// make binary data of text. Binary data stays as it is.
func trimmed(o sandbox.Output) sandbox.Output {
	t := o
	t.Head, t.Tail = WholeRunes(t.Head), FromRune(t.Tail)
	if !t.IsText() {
		return o
	}
	t.Dropped = t.Total - int64(len(t.Head)) - int64(len(t.Tail))
	return t
}
