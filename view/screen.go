package view

import "belljar/sandbox"

// NewScreen implements sandbox.Viewer. The screen is xterm's, as far as programs
// use it, of at most 500 by 200 characters, and keeps lines that scrolled off: 1,000 or
// 256 KiB, or what v says.
// It answers no queries, and colors and titles cannot be redefined. Lines that a
// narrower size cuts are cut; characters with more than eight marks lose the others.
func (Viewer) NewScreen(v sandbox.View, size sandbox.TerminalSize) sandbox.Screen {
	s := &screen{size: size.Bounded(), history: newHistory(v)}
	s.grids[0] = newGrid(s.size)
	s.reset()
	return s
}

// screen is a terminal. No sequence costs more than to go over each cell once: a
// count that a program gives is cut to what is there. What terminals differ in is
// as xterm's source has it: cursor.c, util.c and charproc.c.
type screen struct {
	size    sandbox.TerminalSize
	parser  parser
	grids   [2]*grid // the main and the alternate one, nil until it is used
	current int      // which of them is seen
	history history
	scratch line // what goes to the history

	cursor
	saved       [2]cursor // with each grid
	last        rune      // that was just written, for repetition; 0 is none
	top, bottom int       // the scroll region's rows
	tabs        [sandbox.MaxColumns]bool
	noWrap      bool
	insert      bool
	returnsToo  bool // a line feed returns the carriage too
}

// cursor is what a program can save: where text goes, and how it comes out.
type cursor struct {
	x, y    int
	wraps   bool // the last column is written: the next character is a row's first
	origin  bool // rows count from the scroll region's top
	style   style
	drawing [2]bool // whether G0 and G1 are DEC's line drawing set
	set     int     // the one of them in use
}

// reset begins again.
func (s *screen) reset() {
	s.current = 0
	for _, g := range s.grids {
		if g != nil {
			g.clear(style{})
		}
	}
	s.history.clear()
	s.cursor, s.saved = cursor{}, [2]cursor{}
	s.returnsToo = false
	for x := range s.tabs {
		s.tabs[x] = x%8 == 0
	}
	s.softReset()
}

// softReset does DECSTR: modes and how text comes out, not where, nor what is seen.
func (s *screen) softReset() {
	s.cursor = cursor{x: s.x, y: s.y, wraps: s.wraps}
	s.saved[s.current] = cursor{}
	s.top, s.bottom = 0, s.size.Rows-1
	s.noWrap, s.insert = false, false
}

func (s *screen) grid() *grid { return s.grids[s.current] }

// row is the cursor's.
func (s *screen) row() *gridRow { return s.grid().row(s.y) }

// Write implements sandbox.Screen.
func (s *screen) Write(data []byte) (int, error) {
	for rest := data; len(rest) > 0; {
		rest = rest[s.parser.next(rest, s):]
	}
	return len(data), nil
}

// Resize implements sandbox.Screen. The rows above go where the cursor's would be
// cut off: the main grid's to the history.
func (s *screen) Resize(size sandbox.TerminalSize) {
	if size = size.Bounded(); size == s.size {
		return
	}
	s.size = size
	s.grid().y = s.y
	for i, g := range s.grids {
		if g == nil {
			continue
		}
		above := max(0, g.y-size.Rows+1)
		if i == 0 {
			s.toHistory(above)
		}
		g.resize(size, above)
		s.saved[i].y = max(0, s.saved[i].y-above)
	}
	s.x, s.y = min(s.x, size.Columns-1), s.grid().y
	s.top, s.bottom, s.origin = 0, size.Rows-1, false
}

// toHistory puts the first rows of the main grid into the history.
func (s *screen) toHistory(rows int) {
	for y := range rows {
		s.scratch.read(s.grids[0].row(y))
		s.history.push(s.scratch.clone())
	}
}

// Shot implements sandbox.Screen.
func (s *screen) Shot(scrollback bool) sandbox.Shot {
	var lines []line
	for i := 0; scrollback && i < s.history.lines.n; i++ {
		lines = append(lines, *s.history.lines.at(i))
	}
	for y := range s.size.Rows {
		var l line
		l.read(s.grid().row(y))
		lines = append(lines, l)
	}
	return shot(lines, s.size)
}
