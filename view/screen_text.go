package view

import "unicode/utf8"

// text writes printable ASCII.
func (s *screen) text(ascii []byte) {
	if s.drawing[s.set] {
		for _, c := range ascii {
			s.put(drawn(c), 1)
		}
		return
	}
	s.last = rune(ascii[len(ascii)-1])
	for len(ascii) > 0 {
		s.makeRoom(1)
		cells := s.place(min(len(ascii), s.size.Columns-s.x))
		for i := range cells {
			cells[i] = glyph{r: rune(ascii[i]), style: s.style}
		}
		ascii = ascii[len(cells):]
	}
}

// drawn is a character of DEC's line drawing set.
func drawn(c byte) rune {
	if c < '_' {
		return rune(c)
	}
	return lineDrawing[c-'_']
}

// lineDrawing begins at '_'.
var lineDrawing = []rune(" ◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·")

// char writes a rune beyond ASCII.
func (s *screen) char(r rune) {
	w := width(r)
	switch seen := shown(0, r); {
	case w == 0:
		s.mark(r)
	case w == 2 && seen == r && s.size.Columns > 1:
		s.put(r, 2)
	case w == 2 && seen == r:
		s.put(utf8.RuneError, 1)
	default:
		s.put(seen, 1)
	}
}

// put writes a rune of one or two cells.
func (s *screen) put(r rune, width int) {
	s.last = r
	s.makeRoom(width)
	cells := s.place(width)
	cells[0] = glyph{r: r, style: s.style}
	if width == 2 {
		cells[1] = glyph{r: wideTail, style: s.style}
	}
}

// makeRoom moves the cursor to where that many cells fit: to the next row or,
// without wrap, back.
func (s *screen) makeRoom(width int) {
	switch {
	case !s.wraps && s.x+width <= s.size.Columns:
	case s.noWrap:
		s.x, s.wraps = min(s.x, s.size.Columns-width), false
	default:
		s.x = 0
		s.index()
	}
}

// place is the n cells at the cursor, to be written to; the cursor
// moves behind them.
func (s *screen) place(n int) []glyph {
	cells, x := s.row().cells, s.x
	if s.insert {
		insertBlanks(cells, x, n, s.style.erased())
	}
	s.x = x + n
	if s.wraps = s.x == len(cells); s.wraps {
		s.x--
	}
	return part(cells, x, n)
}

// mark adds a zero-width rune to the character before the cursor.
func (s *screen) mark(r rune) {
	if s.x == 0 && !s.wraps { // no character before it: it gets a blank
		s.put(' ', 1)
	}
	s.last = 0
	row, x := s.row(), s.x
	if !s.wraps {
		x--
	}
	if row.cells[x].r == wideTail {
		x--
	}
	row.mark(x, r)
}

// repeat writes the last character again: at most a row of it, which is
// enough for programs.
func (s *screen) repeat(n int) {
	for r := s.last; r != 0 && n > 0; n-- {
		s.put(r, max(1, width(r)))
	}
}
