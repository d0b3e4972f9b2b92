package view

// delayed are lines that were written at the screen's end and that the grid does
// not have yet. vt10x takes 100 ns for a character, and most of what a long output
// shows scrolls off before anyone looks: such lines go straight to the history.
//
// It begins when the screen has scrolled and the cursor is in the first column of
// the last row, which is blank. It ends, with its lines written to the grid, with
// whatever is not text, a style or a line's end.
type delayed struct {
	on       bool
	lines    []line // whole ones: what will be above the cursor's row
	scrolled int    // rows of the grid that are in the history
	line     line   // the cursor's row
	cells    int    // of it, up to the cursor
	returned bool   // from beyond the first column
}

// delay begins if it can.
func (s *screen) delay() {
	c := s.grid().cursor()
	s.delayed.on = s.current == 0 && c.X == 0 && c.Y == s.size.Rows-1 &&
		s.top == 0 && s.bottom == s.size.Rows-1 && !s.noWrap && !s.insert
}

// delayText writes text of as many cells. It returns false if it has to go to the
// grid.
func (s *screen) delayText(text []byte, cells int) bool {
	d := &s.delayed
	if d.on {
		d.line.add(s.pen.style, text)
		d.cells += cells
	}
	return d.on
}

// delayTab moves the cursor over blanks: the row has nothing else there.
func (s *screen) delayTab() bool {
	d := &s.delayed
	if !d.on || d.returned || d.cells == s.size.Columns {
		return false
	}
	for n := s.nextTab(d.cells) - d.cells; n > 0; n-- {
		d.line.add(style{}, []byte{' '})
		d.cells++
	}
	return true
}

// delaysErase says that a CSI K changes nothing: what follows the cursor is blank.
func (s *screen) delaysErase(c *command) bool {
	return c.private == 0 && c.intermediate == 0 && c.value(0, 0) == 0 &&
		s.pen.style.bg == 0 && !s.delayed.returned && s.delayed.cells < s.size.Columns
}

// delayFeed ends the line, unless the next one does not begin in the first column.
func (s *screen) delayFeed() bool {
	if !s.delayed.on || !s.delayed.returned && s.delayed.cells > 0 && !s.returnsToo {
		return false
	}
	s.delayLine()
	return true
}

// delayLine ends the line: the screen scrolls.
func (s *screen) delayLine() {
	d := &s.delayed
	above := s.size.Rows - 1
	d.lines = append(d.lines, d.line)
	if d.scrolled < above {
		s.history.push(s.grid().line(d.scrolled, &s.clusters))
		d.scrolled++
		d.line = line{}
	} else { // the history has memory of its own: the line's is the next one's
		first := d.lines[0]
		s.history.push(first)
		d.lines = d.lines[1:]
		d.line = line{first.text[:0], first.spans[:0]}
	}
	d.cells, d.returned = 0, false
}

// settle writes what is delayed to the grid.
func (s *screen) settle() {
	d := &s.delayed
	if !d.on {
		return
	}
	g := s.grid()
	for _, l := range d.lines {
		g.putLine(l)
		g.control("\r\n")
	}
	g.putLine(d.line)
	if d.returned {
		g.control("\r")
	}
	*d = delayed{}
}

func (g *grid) putLine(l line) {
	from := 0
	for _, span := range l.spans {
		g.put(span.style, l.text[from:span.end])
		from = span.end
	}
}
