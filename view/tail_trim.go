package view

import (
	"bytes"
	"encoding/binary"
	"unicode/utf8"
)

// record is one of the tail's. Plain text may be divided between any two runes.
type record struct {
	text   []byte
	plain  bool
	w, cut weight
}

func readRecord(p []byte) (record, int) {
	at := 0
	next := func() int64 {
		n, size := binary.Uvarint(p[at:])
		at += size
		return int64(n)
	}
	head := next()
	r := record{plain: head&1 == 1}
	if !r.plain {
		r.w = weight{next(), next()}
		r.cut = weight{next(), next()}
	}
	end := at + int(head>>1)
	r.text = p[at:end:end]
	if r.plain {
		r.w = weigh(r.text)
	}
	return r, end
}

// kept is the end of a text, and its weight.
type kept struct {
	text   []byte
	w, cut weight
}

// trim removes at least size bytes of text and lf line ends from the front, and
// no part of a character.
func (t *tail) trim(size, lf int64) (k kept) {
	c := cutter{size: size, lf: lf, cutting: size > 0 || lf > 0}
	for p := t.buf[t.start:]; len(p) > 0; {
		r, n := readRecord(p)
		p = p[n:]
		if c.cutting && !c.cut(&r) {
			continue
		}
		k.text = append(k.text, r.text...)
		k.w.add(r.w)
		k.cut.add(r.cut)
	}
	return k
}

// cutter removes the excess from records.
type cutter struct {
	size, lf int64 // still to be removed
	cutting  bool
	before   rune // the last one removed
}

// cut reports whether a part of the record remains.
func (c *cutter) cut(r *record) bool {
	at := max(int(min(c.size, int64(len(r.text)))), afterLines(r.text, c.lf))
	c.take(r.text[:at])
	if c.size <= 0 && c.lf <= 0 {
		n := c.align(r.text, at)
		c.take(r.text[at:n])
		at = n
	}
	if !r.plain && at > 0 {
		c.take(r.text[at:])
		at = len(r.text)
	}
	if at == len(r.text) {
		return false
	}
	c.cutting = false
	r.text = r.text[at:]
	if r.plain {
		r.w = weigh(r.text)
	}
	return true
}

func (c *cutter) take(p []byte) {
	if len(p) > 0 {
		c.size -= int64(len(p))
		c.lf -= int64(bytes.Count(p, lineEnd))
		c.before, _ = utf8.DecodeLastRune(p)
	}
}

// align is the first offset in text, from that one on, for a cut: after the
// rest of a character, and after a single line end, which would look like an
// empty line.
func (c *cutter) align(text []byte, at int) int {
	for at < len(text) {
		r, size := utf8.DecodeRune(text[at:])
		before := c.before
		if at > 0 {
			before, _ = utf8.DecodeLastRune(text[:at])
		}
		switch {
		case r == '\n' && before != '\n':
			return at + 1
		case utf8.RuneStart(text[at]) && !joins(before, r):
			return at
		}
		at += size
	}
	return at
}
