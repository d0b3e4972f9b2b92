package view

import (
	"github.com/charmbracelet/x/ansi"
	states "github.com/charmbracelet/x/ansi/parser"
)

const (
	tabWidth = 8
	// maxJump is how far after a line's end the cursor goes: a terminal has an
	// edge, and what is jumped over is blanks that nobody wrote.
	maxJump = 256
)

// newParser makes the parser that tells where an escape sequence ends. It gets
// single bytes: characters are told apart before.
func (l *lineReader) newParser() *ansi.Parser {
	p := &ansi.Parser{}
	p.SetParamsSize(states.MaxParamsSize)
	p.SetDataSize(1) // what a string contains is not looked at
	p.SetHandler(ansi.Handler{
		HandleCsi: l.csi,
		Execute: func(b byte) { // a terminal obeys these within a sequence
			if b == '\r' || b == '\b' || b == '\t' {
				l.control(rune(b), weight{})
			}
		},
	})
	p.Reset()
	return p
}

// introduces says whether a C1 character begins a sequence: DCS, SOS, CSI, OSC,
// PM or APC.
func introduces(r rune) bool {
	switch r {
	case 0x90, 0x98, 0x9B, 0x9D, 0x9E, 0x9F:
		return true
	}
	return false
}

// inSequence says whether r is a part of the sequence that is unfinished, and
// not a character that breaks it off.
func (l *lineReader) inSequence(r rune, w weight) bool {
	if r >= 0xA0 {
		if l.parser.State() >= states.OscStringState || l.parser.State() == states.DcsStringState {
			l.carry.add(w)
			return true
		}
		l.parser.Reset()
		l.sequence = false
		return false
	}
	l.advance(byte(r), w)
	return true
}

func (l *lineReader) advance(b byte, w weight) {
	if l.cr {
		l.toCells()
	}
	l.carry.add(w)
	l.parser.Advance(b)
	l.sequence = l.parser.State() != states.GroundState
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
	case r == 0x1B || introduces(r):
		l.advance(byte(r), w)
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

// csi obeys the control sequences that redraw a line, and no others.
func (l *lineReader) csi(cmd ansi.Cmd, params ansi.Params) {
	if cmd.Prefix() != 0 || cmd.Intermediate() != 0 {
		return
	}
	n, _, _ := params.Param(0, 0)
	n = max(0, min(n, maxLineChars))
	switch cmd.Final() {
	case 'K':
		l.erase(n)
	case 'G', '`':
		l.move(max(n, 1) - 1)
	case 'C', 'a':
		l.move(l.at() + max(n, 1))
	case 'D':
		l.move(l.at() - max(n, 1))
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
