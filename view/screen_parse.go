package view

import "unicode/utf8"

// performer does what a parser reads.
type performer interface {
	text(ascii []byte) // printable ASCII, at least one byte
	char(r rune)       // a rune beyond ASCII
	control(c byte)    // a C0 control that is no part of a sequence
	escape(intermediate, final byte)
	command(c *command) // a control sequence; c is valid during the call
}

// The states of a parser: after Paul Williams' state machine of DEC's terminals,
// https://vt100.net/emu/dec_ansi_parser.
type parserState uint8

const (
	inText parserState = iota
	inEscape
	inCommand
	inString    // OSC, DCS, PM, APC, SOS: nothing of it is kept
	inStringEnd // after its ESC
)

// parser splits a terminal's input. It keeps a few bytes of what is not at its
// end, however long that is, so that where the input is cut does not matter.
type parser struct {
	state   parserState
	partial []byte // the first bytes of a rune
	command command
	bell    bool // ends the string too
}

// next reads the first part of data, which is not empty, and says how long it is.
func (p *parser) next(data []byte, to performer) int {
	switch p.state {
	case inEscape:
		return p.nextEscape(data[0], to)
	case inCommand:
		return p.nextCommand(data[0], to)
	case inString:
		return p.nextString(data)
	case inStringEnd:
		if p.state = inEscape; data[0] == '\\' {
			p.state = inText
			return 1
		}
		return 0
	}
	c := data[0]
	switch {
	case len(p.partial) > 0 && c&0xc0 != 0x80:
		p.invalid(to)
		return 0
	case c >= utf8.RuneSelf:
		return p.nextRune(data, to)
	case c < ' ' || c == 0x7f:
		p.plainControl(c, to)
		return 1
	}
	n := 1
	for n < len(data) && data[n] >= ' ' && data[n] < 0x7f {
		n++
	}
	to.text(data[:n])
	return n
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

// invalid gives up on a rune: each byte is one replacement, as utf8 counts them.
func (p *parser) invalid(to performer) {
	n := len(p.partial)
	p.partial = p.partial[:0]
	for range n {
		to.char(utf8.RuneError)
	}
}

func (p *parser) rune(r rune, to performer) {
	if r < 0xa0 { // C1 is what ESC and a letter say in two bytes
		p.state = inEscape
		p.command = command{}
		p.nextEscape(byte(r-0x40), to)
		return
	}
	to.char(r)
}

// plainControl does a control that means the same in text and in sequences.
func (p *parser) plainControl(c byte, to performer) {
	switch c {
	case 0x1b:
		p.state = inEscape
		p.command = command{}
	case 0x18, 0x1a: // CAN and SUB end a sequence
		p.state = inText
	default:
		to.control(c)
	}
}

func (p *parser) nextEscape(c byte, to performer) int {
	switch {
	case c < ' ' || c == 0x7f:
		p.plainControl(c, to)
	case c >= utf8.RuneSelf:
		p.state = inText
		return 0
	case c < '0':
		p.command.intermediate = c
	case p.command.intermediate != 0:
		p.state = inText
		to.escape(p.command.intermediate, c)
	case c == '[':
		p.state = inCommand
	case c == ']' || c == 'k': // k sets screen's title
		p.state, p.bell = inString, true
	case c == 'P' || c == 'X' || c == '^' || c == '_':
		p.state, p.bell = inString, false
	default:
		p.state = inText
		to.escape(0, c)
	}
	return 1
}

func (p *parser) nextCommand(c byte, to performer) int {
	switch {
	case c < ' ' || c == 0x7f:
		p.plainControl(c, to)
	case c >= utf8.RuneSelf:
		p.state = inText
		return 0
	case p.command.add(c):
		p.state = inText
		if !p.command.bad {
			to.command(&p.command)
		}
	}
	return 1
}

func (p *parser) nextString(data []byte) int {
	for i, c := range data {
		switch {
		case c == 0x1b:
			p.state = inStringEnd
			p.command = command{}
			return i + 1
		case c == 0x18 || c == 0x1a || c == '\a' && p.bell:
			p.state = inText
			return i + 1
		}
	}
	return len(data)
}
