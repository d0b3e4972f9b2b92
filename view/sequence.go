package view

// sequencePerformer does what escape sequences say.
type sequencePerformer interface {
	control(c byte) // a C0 control, which is obeyed within a sequence
	escape(intermediate, final byte)
	command(c *command) // a control sequence; c is valid during the call
}

// sequence reads escape sequences, for views and for screens: what one takes for
// a part of a sequence the other must not show. It follows Paul Williams' state
// machine of DEC's terminals, https://vt100.net/emu/dec_ansi_parser, but takes
// characters, and keeps nothing of what it reads but a command.
type sequence struct {
	state   sequenceState
	bell    bool // ends the string too
	command command
}

type sequenceState uint8

const (
	inText sequenceState = iota
	inEscape
	inCommand
	inString // OSC, DCS, PM, APC, SOS or a title: nothing of it is kept
)

// The characters that end sequences.
const (
	cancel           = 0x18
	escapeCharacter  = 0x1b
	substitute       = 0x1a
	stringTerminator = 0x9c // in one character: ESC \ is in two
)

// unfinished says whether the next character is read's.
func (q *sequence) unfinished() bool { return q.state != inText }

// begin reads a sequence's first character: ESC, or one of C1, which is what ESC
// and a letter say in two.
func (q *sequence) begin(r rune, to sequencePerformer) {
	q.state = inEscape
	q.command.reset()
	if r != escapeCharacter {
		q.readEscape(r-0x40, to)
	}
}

// read reads the next character of a sequence. False is one that breaks it off:
// it is none of the sequence's.
func (q *sequence) read(r rune, to sequencePerformer) bool {
	switch {
	case q.state == inString:
		q.readString(r)
	case r >= 0x80:
		q.state = inText
		return false
	case r >= ' ' && r < 0x7f && q.state == inEscape:
		q.readEscape(r, to)
	case r >= ' ' && r < 0x7f:
		q.readCommand(byte(r), to)
	case r == escapeCharacter:
		q.begin(r, to)
	case r == cancel || r == substitute:
		q.state = inText
	default:
		to.control(byte(r))
	}
	return true
}

func (q *sequence) readEscape(r rune, to sequencePerformer) {
	switch {
	case r < '0':
		q.command.intermediate = byte(r)
		return
	case q.command.intermediate != 0:
	case r == '[':
		q.state = inCommand
		return
	case r == ']' || r == 'k': // k sets screen's title
		q.state, q.bell = inString, true
		return
	case r == 'P' || r == 'X' || r == '^' || r == '_':
		q.state, q.bell = inString, false
		return
	}
	q.state = inText
	to.escape(q.command.intermediate, byte(r))
}

func (q *sequence) readCommand(c byte, to sequencePerformer) {
	if !q.command.add(c) {
		return
	}
	q.state = inText
	if !q.command.bad {
		to.command(&q.command)
	}
}

func (q *sequence) readString(r rune) {
	switch {
	case r == escapeCharacter: // of ESC \, which says nothing by itself
		q.state = inEscape
		q.command.reset()
	case r == cancel || r == substitute || r == stringTerminator || r == '\a' && q.bell:
		q.state = inText
	}
}
