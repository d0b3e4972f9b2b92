package view

// control does a C0 control. The bell, NUL and the like show nothing.
func (s *screen) control(c byte) {
	switch c {
	case '\n', '\v', '\f':
		if !s.delayFeed() {
			s.settle()
			s.feed()
		}
	case '\r':
		if s.delayed.on {
			s.delayed.returned = s.delayed.cells > 0
		} else {
			s.grid().control("\r")
		}
	case '\t':
		if s.delayTab() {
			return
		}
		if s.settle(); s.grid().cursor().State&wrapNext == 0 {
			s.tab(1)
		}
	case '\b':
		s.settle()
		s.grid().control("\b")
	case 0x0e, 0x0f: // SO and SI
		s.pen.set = int(0x0f - c)
	}
}

// feed is a line feed as the program's modes have it.
func (s *screen) feed() {
	if s.returnsToo {
		s.grid().control("\r")
	}
	s.lineFeed()
}

// lineFeed moves the cursor down, and scrolls if it is at the region's end.
func (s *screen) lineFeed() {
	g := s.grid()
	if c := g.cursor(); c.Y != s.bottom {
		g.control("\n")
		return
	}
	s.leave(1)
	g.control("\n")
	s.delay()
}

// leave keeps n rows that are about to scroll off the screen's top.
func (s *screen) leave(n int) {
	if s.current != 0 || s.top != 0 {
		return
	}
	for y := range min(n, s.bottom+1) {
		s.history.push(s.grid().line(y, &s.clusters))
	}
}

// tab moves the cursor by n tab stops.
func (s *screen) tab(n int) {
	g := s.grid()
	x := g.cursor().X
	for ; n > 0 && x < s.size.Columns-1; n-- {
		x = s.nextTab(x)
	}
	for ; n < 0 && x > 0; n++ {
		for x--; x > 0 && !s.tabs[x]; x-- {
		}
	}
	g.column(x)
}

// nextTab is the column of the tab stop after x, or the last one.
func (s *screen) nextTab(x int) int {
	for x++; x < s.size.Columns-1 && !s.tabs[x]; x++ {
	}
	return min(x, s.size.Columns-1)
}

// escape does an escape sequence.
func (s *screen) escape(intermediate, final byte) {
	s.settle()
	switch intermediate {
	case 0:
		s.plainEscape(final)
	case '(':
		s.pen.drawing[0] = final == '0'
	case ')':
		s.pen.drawing[1] = final == '0'
	}
}

func (s *screen) plainEscape(final byte) {
	switch g := s.grid(); final {
	case 'D':
		s.lineFeed()
	case 'E':
		g.control("\r")
		s.lineFeed()
	case 'H':
		s.tabs[g.cursor().X] = true
	case 'M':
		g.setPen(s.pen.style.erased())
		g.control("\x1bM")
	case '7':
		s.save()
	case '8':
		s.restore()
	case 'c':
		for _, g := range s.grids {
			if g != nil {
				g.restore("\x1bc")
			}
		}
		s.reset()
		s.history = history{}
	}
}

// save keeps the cursor's place and the pen; each grid has its own.
func (s *screen) save() {
	s.grid().control("\x1b7")
	s.saved[s.current] = s.pen
}

func (s *screen) restore() {
	s.grid().restore("\x1b8")
	s.pen = s.saved[s.current]
}

// swap shows the alternate screen, which is empty, or the main one. The cursor
// stays where it is.
func (s *screen) swap(to int) {
	if s.current == to {
		return
	}
	c := s.grid().cursor()
	if s.current = to; s.grids[to] == nil {
		s.grids[to] = newGrid(s.size.Columns, s.size.Rows)
	}
	g := s.grid()
	if to == 1 {
		g.erase(style{}, 'J', 2)
	}
	g.mode(6, false)
	g.command('r', s.top+1, s.bottom+1)
	g.mode(7, !s.noWrap)
	g.command('H', c.Y+1, c.X+1)
	if c.State&originScroll != 0 { // which moves the cursor
		g.mode(6, true)
		g.command('H', c.Y-s.top+1, c.X+1)
	}
}
