package view

// sequencePerformer executes escape sequences.
type sequencePerformer interface {
	control(c byte) // a C0 control, which is executed within a sequence
	escape(intermediate, final byte)
	command(c *command) // a control sequence; c is valid during the call
}

// sequence reads escape sequences, for views and for screens: a part of a sequence
// for one must not be text for the other. It follows Paul Williams' state
// machine of DEC's terminals, https://vt100.net/emu/dec_ansi_parser, but reads
// characters, and keeps nothing except a command.
type sequence struct {
	state   sequenceState
	bell    bool // a bell ends the string too
	command command
}

type sequenceState uint8

const (
	inText sequenceState = iota
	inEscape
	inCommand
	inString // OSC, DCS, PM, APC, SOS or a title: its text is not kept
)

// The characters that end sequences.
const (
	cancel           = 0x18
	escapeCharacter  = 0x1b
	substitute       = 0x1a
	stringTerminator = 0x9c // as one character: ESC \ is two
)

// unfinished reports whether the next character belongs to the sequence.
func (q *sequence) unfinished() bool { return q.state != inText }

// begin reads a sequence's first character: ESC, or a C1 control, which is short for
// ESC and a letter.
func (q *sequence) begin(r rune, to sequencePerformer) {
	q.state = inEscape
	q.command.reset()
	if r != escapeCharacter {
		q.readEscape(r-0x40, to)
	}
}

// read reads the next character of a sequence. It returns false for one that cancels
// it and is not part of it.
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
	case r == escapeCharacter: // of ESC \, which does nothing by itself
		q.state = inEscape
		q.command.reset()
	case r == cancel || r == substitute || r == stringTerminator || r == '\a' && q.bell:
		q.state = inText
	}
}
