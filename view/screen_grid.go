package view

import (
	"slices"

	"belljar/sandbox"
)

// grid is the rows of one screen buffer.
type grid struct {
	rows  []gridRow
	order []int // of rows, from top to bottom: scrolling changes it
	y     int   // the cursor's row when the grid was last shown
}

func newGrid(size sandbox.TerminalSize) *grid {
	g := &grid{rows: make([]gridRow, size.Rows), order: make([]int, size.Rows)}
	cells := make([]glyph, size.Rows*size.Columns)
	for y := range g.rows {
		g.rows[y].cells, cells = cells[:size.Columns:size.Columns], cells[size.Columns:]
		g.order[y] = y
	}
	return g
}

func (g *grid) row(y int) *gridRow { return &g.rows[g.order[y]] }

// resize drops that many rows at the top, and everything outside the new size.
func (g *grid) resize(size sandbox.TerminalSize, above int) {
	resized := newGrid(size)
	resized.y = g.y - above
	for y := range min(len(g.rows)-above, size.Rows) {
		from, to := g.row(y+above), resized.row(y)
		split(from.cells, size.Columns)
		copy(to.cells, from.cells)
		to.marked = from.marked
	}
	*g = *resized
}

func (g *grid) clear(s style) {
	for y := range g.rows {
		g.rows[y].clear(s)
	}
}

// scroll moves the rows from top to bottom up by n, or down if n is negative.
func (g *grid) scroll(top, bottom, n int, s style) {
	order := g.order[top : bottom+1]
	n = max(-len(order), min(n, len(order)))
	fresh := order[len(order)-max(n, 0):]
	if n < 0 {
		fresh, n = order[:-n], n+len(order)
	}
	// Rows that leave are reused at the other end.
	slices.Reverse(order[:n])
	slices.Reverse(order[n:])
	slices.Reverse(order)
	for _, i := range fresh {
		g.rows[i].clear(s)
	}
}
