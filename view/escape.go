package view

const (
	tabWidth = 8
	// maxJump is how far after a line's end the cursor goes: a terminal has an
	// edge, and what is jumped over is blanks that no one wrote.
	maxJump = 256
)

// introduces says whether a C1 character begins a sequence: DCS, SOS, CSI, OSC,
// PM or APC.
func introduces(r rune) bool {
	switch r {
	case 0x90, 0x98, 0x9B, 0x9D, 0x9E, 0x9F:
		return true
	}
	return false
}

// begin reads the first character of a sequence.
func (l *lineReader) begin(r rune, w weight) {
	if l.cr {
		l.toCells()
	}
	l.carry.add(w)
	l.sequence.begin(r, lineSequences{l})
}

// inSequence reads a part of the sequence that is unfinished. False is a
// character that breaks it off.
func (l *lineReader) inSequence(r rune, w weight) bool {
	if !l.sequence.read(r, lineSequences{l}) {
		return false
	}
	l.carry.add(w)
	return true
}

// control reads a control character outside of sequences, of C0 or C1.
func (l *lineReader) control(r rune, w weight) {
	switch {
	case r == '\r' && !l.celled && !l.cr && w == (weight{bytes: 1}):
		l.cr = true
	case r == '\r':
		l.carry.add(w)
		l.move(0)
	case r == '\b':
		l.carry.add(w)
		l.move(l.at() - 1)
	case r == '\t':
		l.tab(w)
	case r == escapeCharacter || introduces(r):
		l.begin(r, w)
	default:
		l.escape(escaped(r), w)
	}
}

// tab is a character at the end of a line; where there is something already, it
// moves the cursor over it.
func (l *lineReader) tab(w weight) {
	if l.cr {
		l.toCells()
	}
	if !l.celled || l.column >= l.row.width() {
		l.write('\t', w)
		return
	}
	l.carry.add(w)
	l.move((l.column/tabWidth + 1) * tabWidth)
}

// at is the column of the cursor.
func (l *lineReader) at() int {
	l.toCells()
	return l.column
}

// move moves the cursor.
func (l *lineReader) move(column int) {
	l.toCells()
	l.column = max(0, min(column, l.row.width()+maxJump))
	l.redrawn = true
	l.before = 0
}

// lineSequences obeys the sequences that redraw a line, and no others.
type lineSequences struct{ line *lineReader }

func (s lineSequences) control(c byte) {
	if c == '\r' || c == '\b' || c == '\t' {
		s.line.control(rune(c), weight{})
	}
}

func (lineSequences) escape(_, _ byte) {}

func (s lineSequences) command(c *command) {
	if c.private != 0 || c.intermediate != 0 {
		return
	}
	l, n := s.line, c.value(0, 1)
	switch c.final {
	case 'K':
		l.erase(c.value(0, 0))
	case 'G', '`':
		l.move(n - 1)
	case 'C', 'a':
		l.move(l.at() + n)
	case 'D':
		l.move(l.at() - n)
	}
}

// erase erases from the cursor on (0) or all of the line (2). To its left (1)
// programs do not, and it would cost the line's length each time.
func (l *lineReader) erase(what int) {
	switch {
	case !l.celled && !l.cr && what == 0:
		// There is nothing after the cursor: grep writes this on each line.
	case what == 0:
		l.carry.add(l.row.truncate(l.at()))
	case what == 2:
		l.toCells()
		l.carry.add(l.row.truncate(0))
		l.move(l.column)
	}
}
