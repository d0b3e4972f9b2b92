package view

import "unicode/utf8"

// performer executes what a parser reads.
type performer interface {
	sequencePerformer  // and controls outside of sequences
	text(ascii []byte) // printable ASCII, at least one byte
	char(r rune)       // a rune beyond ASCII
}

// parser splits a terminal's input. It keeps only a few bytes of an unfinished part,
// of any length, so that the division of the input does not matter.
type parser struct {
	partial  []byte // the first bytes of a rune
	sequence sequence
}

// next reads the first part of data, which is not empty, and returns its length.
func (p *parser) next(data []byte, to performer) int {
	c := data[0]
	switch {
	case len(p.partial) > 0 && c&0xc0 != 0x80:
		p.invalid(to)
		return 0
	case c >= utf8.RuneSelf:
		return p.nextRune(data, to)
	case p.sequence.unfinished():
		p.sequence.read(rune(c), to) // ASCII never cancels a sequence
		return 1
	case c < ' ' || c == 0x7f:
		p.control(c, to)
		return 1
	}
	n := 1
	for n < len(data) && data[n] >= ' ' && data[n] < 0x7f {
		n++
	}
	to.text(data[:n])
	return n
}

func (p *parser) control(c byte, to performer) {
	switch c {
	case escapeCharacter:
		p.sequence.begin(escapeCharacter, to)
	case cancel, substitute: // there is no sequence to cancel
	default:
		to.control(c)
	}
}

// nextRune reads a rune beyond ASCII, or a part of one.
func (p *parser) nextRune(data []byte, to performer) int {
	if len(p.partial) == 0 && utf8.FullRune(data) {
		r, n := utf8.DecodeRune(data)
		p.rune(r, to)
		return n
	}
	p.partial = append(p.partial, data[0])
	if utf8.FullRune(p.partial) {
		if r, n := utf8.DecodeRune(p.partial); n == len(p.partial) {
			p.partial = p.partial[:0]
			p.rune(r, to)
		} else {
			p.invalid(to)
		}
	}
	return 1
}

// invalid ends an invalid rune: each byte is one replacement, as utf8 counts them.
func (p *parser) invalid(to performer) {
	n := len(p.partial)
	p.partial = p.partial[:0]
	for range n {
		p.rune(utf8.RuneError, to)
	}
}

func (p *parser) rune(r rune, to performer) {
	switch {
	case p.sequence.unfinished() && p.sequence.read(r, to):
	case r < 0xa0:
		p.sequence.begin(r, to)
	default:
		to.char(r)
	}
}
