package view

import "unicode/utf8"

// glyph is a cell of a screen; the zero value is blank. It has no pointers, because
// screens may have many cells and scroll often.
type glyph struct {
	r     rune // or one of the values below
	style style
}

// Special values for a glyph's rune.
const (
	blank       = 0  // nothing was written; it looks like U+0020
	wideTail    = -1 // the second cell of a wide character: after its first, and nowhere else
	firstMarked = -2 // this and lower values are a row's characters with marks
)

// gridRow is a row of a screen.
type gridRow struct {
	cells  []glyph
	marked []string // characters with marks; cells may no longer use some
}

func (r *gridRow) clear(s style) {
	fill(r.cells, s)
	r.marked = nil
}

// append appends the text of a cell.
func (r *gridRow) append(text []byte, g *glyph) []byte {
	switch {
	case g.r > 0:
		return utf8.AppendRune(text, g.r)
	case g.r == blank:
		return append(text, ' ')
	case g.r == wideTail:
		return text
	}
	return append(text, r.marked[firstMarked-g.r]...)
}

// mark adds a rune to the character of a cell, which is its first one.
func (r *gridRow) mark(x int, mark rune) {
	g := &r.cells[x]
	text := string(r.append(nil, g))
	if utf8.RuneCountInString(text) > maxMarks {
		return
	}
	before, _ := utf8.DecodeLastRuneInString(text)
	text += string(shown(before, mark))
	if g.r <= firstMarked {
		r.marked[firstMarked-g.r] = text
		return
	}
	if len(r.marked) >= 2*len(r.cells) {
		r.forget()
	}
	g.r = firstMarked - rune(len(r.marked))
	r.marked = append(r.marked, text)
}

// forget drops the characters that no cell uses any more.
func (r *gridRow) forget() {
	var marked []string
	for x := range r.cells {
		if g := &r.cells[x]; g.r <= firstMarked {
			marked = append(marked, r.marked[firstMarked-g.r])
			g.r = firstMarked - rune(len(marked)-1)
		}
	}
	r.marked = marked
}

// fill blanks cells.
func fill(cells []glyph, s style) {
	if s == (style{}) {
		clear(cells)
		return
	}
	for x := range cells {
		cells[x] = glyph{style: s}
	}
}

// split blanks both cells of a wide character that crosses x.
func split(cells []glyph, x int) {
	if x > 0 && x < len(cells) && cells[x].r == wideTail {
		cells[x-1].r, cells[x].r = blank, blank
	}
}

// part is n cells from x on, or as many as exist. They contain no half of a
// character.
func part(cells []glyph, x, n int) []glyph {
	end := min(x+n, len(cells))
	split(cells, x)
	split(cells, end)
	return cells[x:end]
}

func erase(cells []glyph, x, n int, s style) { fill(part(cells, x, n), s) }

// insertBlanks inserts n blank cells; those at the row's end are lost.
func insertBlanks(cells []glyph, x, n int, s style) {
	n = min(n, len(cells)-x)
	copy(cells[x+n:], part(cells, x, len(cells)-x-n))
	fill(cells[x:x+n], s)
}

// deleteCells removes n cells and moves the following ones to their place.
func deleteCells(cells []glyph, x, n int, s style) {
	n = len(part(cells, x, n))
	fill(cells[x+copy(cells[x:], cells[x+n:]):], s)
}
