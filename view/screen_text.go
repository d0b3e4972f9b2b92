package view

import (
	"bytes"
	"unicode/utf8"
)

// text writes printable ASCII.
func (s *screen) text(ascii []byte) {
	if s.pen.drawing[s.pen.set] {
		for _, c := range ascii {
			s.draw(c)
		}
		return
	}
	s.last = rune(ascii[len(ascii)-1])
	for len(ascii) > 0 {
		n := min(s.room(1), len(ascii))
		if s.noWrap && n < len(ascii) { // all that follows is written over the last cell
			ascii = append(bytes.Clone(ascii[:n-1]), ascii[len(ascii)-1])
		}
		s.place(ascii[:n], n)
		ascii = ascii[n:]
	}
}

// draw writes a character of DEC's line drawing set.
func (s *screen) draw(c byte) {
	if c < '_' {
		s.single(rune(c))
	} else {
		s.single(lineDrawing[c-'_'])
	}
}

// lineDrawing begins at '_'.
var lineDrawing = []rune(" ◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·")

// char writes a rune beyond ASCII.
func (s *screen) char(r rune) {
	w := width(r)
	switch seen := shown(0, r); {
	case w == 0:
		s.mark(r)
	case w == 2 && seen == r:
		s.wide(r)
	default:
		s.single(seen)
	}
}

func (s *screen) single(r rune) {
	s.last = r
	s.room(1)
	s.place(utf8.AppendRune(s.scratch[:0], r), 1)
}

// wide writes a rune of two cells. The second one holds a rune of its own, which
// the grid moves along with the first.
func (s *screen) wide(r rune) {
	if s.size.Columns < 2 {
		s.single(utf8.RuneError)
		return
	}
	s.last = r
	if s.room(2) < 2 { // and no wrap: it takes the last two
		s.grid().column(s.size.Columns - 2)
	}
	s.settle()
	s.place(pair(s.scratch[:0], r), 2)
}

// place writes text of as many cells at the cursor, where there is room.
func (s *screen) place(text []byte, cells int) {
	if s.delayText(text, cells) {
		return
	}
	if s.insert {
		s.grid().command('@', cells)
	}
	s.grid().put(s.pen.style, text)
}

// room is how many cells there are up to the row's end, after the wrap of a cursor
// that has less than it needs.
func (s *screen) room(needs int) int {
	if d := &s.delayed; d.on && !d.returned {
		if d.cells+needs > s.size.Columns {
			s.delayLine()
		}
		return s.size.Columns - d.cells
	}
	s.settle()
	c := s.grid().cursor()
	room := s.size.Columns - c.X
	if c.State&wrapNext != 0 {
		room = 0
	}
	switch {
	case room >= needs:
		return room
	case s.noWrap:
		return max(room, 1)
	}
	s.grid().control("\r")
	s.lineFeed()
	return s.size.Columns
}

// mark adds a rune without a cell of its own to the character before the cursor.
func (s *screen) mark(r rune) {
	s.settle()
	g := s.grid()
	c := g.cursor()
	x := c.X
	if c.State&wrapNext == 0 {
		x--
	}
	if x < 0 { // nothing before it: it gets a blank
		s.single(' ')
		s.mark(r)
		return
	}
	text, wide := s.clusters.text(g.term.Cell(x, c.Y).Char)
	if wide {
		text = " " // its other half was overwritten
	} else if x > 0 && g.term.Cell(x, c.Y).Char == wideTail {
		if first, ok := s.clusters.text(g.term.Cell(x-1, c.Y).Char); ok {
			text, wide, x = first, true, x-1
		}
	}
	if utf8.RuneCountInString(text) > maxMarks {
		return
	}
	before, _ := utf8.DecodeLastRuneInString(text)
	code, ok := s.clusters.code(text + string(shown(before, r)))
	if !ok {
		return
	}
	marked := utf8.AppendRune(s.scratch[:0], code)
	if text != " " && wide {
		marked = pair(s.scratch[:0], code)
	}
	g.column(x)
	g.put(styleOf(g.term.Cell(x, c.Y)), marked) // and the cursor is where it was
}

// pair is what the grid has of a character of two cells.
func pair(b []byte, r rune) []byte {
	return utf8.AppendRune(utf8.AppendRune(b, r), wideTail)
}

// repeat writes the last rune again: no more than a row of it, which is what
// programs do.
func (s *screen) repeat(n int) {
	n = min(n, s.size.Columns)
	for r := s.last; r != 0 && n > 0; n-- {
		if r < utf8.RuneSelf {
			s.text(bytes.Repeat([]byte{byte(r)}, n))
			return
		}
		s.char(r)
	}
}
