package view

import (
	"io"
	"strconv"

	"github.com/hinshun/vt10x"
)

// The bits of a vt10x cursor's State.
const (
	wrapNext     = 1 << 1 // it is beyond the last column: the next character wraps
	originScroll = 1 << 2 // rows count from the scroll region's top
)

// grid is the cells of one screen buffer and the cursor. It is all that vt10x does
// here: vt10x gets text and sequences that this package made, never the program's.
// Some of those make it panic (CSI -5 @), loop for minutes (CSI 999999999 I), keep
// all that comes (OSC 4), print their end (ESC ) 0) or do another's work (CSI > 4 m).
type grid struct {
	term     vt10x.Terminal
	pen      style
	penKnown bool
	buffer   []byte
}

func newGrid(columns, rows int) *grid {
	return &grid{term: vt10x.New(vt10x.WithSize(columns, rows), vt10x.WithWriter(io.Discard))}
}

func (g *grid) cursor() vt10x.Cursor { return g.term.Cursor() }

// write cannot fail: vt10x has no error of its own, and text is whole runes.
func (g *grid) write(b []byte) { _, _ = g.term.Write(b) }

// put writes text, which has to fit in the row, and no control character.
func (g *grid) put(s style, text []byte) {
	g.setPen(s)
	g.write(text)
}

func (g *grid) setPen(s style) {
	if g.penKnown && g.pen == s {
		return
	}
	g.buffer = s.sequence(g.buffer[:0], g.penKnown, g.pen)
	g.write(g.buffer)
	g.pen, g.penKnown = s, true
}

// erase does a control sequence that blanks cells: they get the pen's background.
func (g *grid) erase(s style, final byte, n int) {
	g.setPen(s.erased())
	g.command(final, n)
}

// restore does an escape sequence after which vt10x has another pen.
func (g *grid) restore(s string) {
	g.control(s)
	g.penKnown = false
}

// control writes a control character or an escape sequence.
func (g *grid) control(s string) {
	g.buffer = append(g.buffer[:0], s...)
	g.write(g.buffer)
}

// command writes a control sequence.
func (g *grid) command(final byte, parameters ...int) {
	g.buffer = append(g.buffer[:0], "\x1b["...)
	for i, p := range parameters {
		if i > 0 {
			g.buffer = append(g.buffer, ';')
		}
		g.buffer = strconv.AppendInt(g.buffer, int64(p), 10)
	}
	g.write(append(g.buffer, final))
}

// mode sets or resets a private mode.
func (g *grid) mode(number int, on bool) {
	g.buffer = append(g.buffer[:0], "\x1b[?"...)
	g.buffer = strconv.AppendInt(g.buffer, int64(number), 10)
	final := byte('l')
	if on {
		final = 'h'
	}
	g.write(append(g.buffer, final))
}

// column moves the cursor in its row; 0 is the first.
func (g *grid) column(x int) { g.command('G', x+1) }

// row moves the cursor by n rows in its column, at most to the screen's end. The
// scroll region holds it if it is inside.
func (g *grid) row(n, top, bottom int) {
	switch y := g.cursor().Y; {
	case n < 0 && y >= top:
		n = max(n, top-y)
	case n > 0 && y <= bottom:
		n = min(n, bottom-y)
	}
	switch {
	case n < 0:
		g.command('A', -n)
	case n > 0:
		g.command('B', n)
	default: // the same place, and no wrap to come
		g.column(g.cursor().X)
	}
}

// line reads a row.
func (g *grid) line(y int, clusters *clusters) line {
	columns, _ := g.term.Size()
	for columns > 0 && g.term.Cell(columns-1, y).Char == ' ' {
		columns-- // most of most rows: a flood of scrolling is quicker for it
	}
	var l line
	for x := 0; x < columns; x++ {
		cell := g.term.Cell(x, y)
		text, wide := clusters.text(cell.Char)
		switch {
		case !wide:
		case x+1 < columns && g.term.Cell(x+1, y).Char == wideTail:
			x++
		default: // its other half was overwritten
			text = " "
		}
		l.add(styleOf(cell), []byte(text))
	}
	l.trim()
	return l
}
