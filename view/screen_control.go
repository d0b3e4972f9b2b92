package view

// control executes a C0 control. The bell, NUL and similar ones show nothing.
func (s *screen) control(c byte) {
	s.last = 0
	switch c {
	case '\n', '\v', '\f':
		if s.index(); s.returnsToo {
			s.moveTo(0, s.y)
		}
	case '\r':
		s.moveTo(0, s.y)
	case '\t':
		s.tab(1)
	case '\b':
		s.moveTo(s.x-1, s.y)
	case 0x0e, 0x0f: // SO and SI
		s.set = int(0x0f - c)
	}
}

// moveTo moves the cursor, up to the edges of the screen.
func (s *screen) moveTo(x, y int) {
	s.x = max(0, min(x, s.size.Columns-1))
	s.y = max(0, min(y, s.size.Rows-1))
	s.wraps = false
}

// moveFrom moves the cursor to a position in the program's row numbers.
func (s *screen) moveFrom(x, y int) {
	if s.origin {
		y += s.top
	}
	s.moveTo(x, min(y, s.lastRow()))
}

// lastRow is the last row that a program can address.
func (s *screen) lastRow() int {
	if s.origin {
		return s.bottom
	}
	return s.size.Rows - 1
}

// moveDown moves the cursor by n rows, up if n is negative. It stays within the scroll
// region if it starts there.
func (s *screen) moveDown(x, n int) {
	y := s.y + n
	if s.y >= s.top {
		y = max(y, s.top)
	}
	if s.y <= s.bottom {
		y = min(y, s.bottom)
	}
	s.moveTo(x, y)
}

// index moves the cursor down, and scrolls if it is at the region's end.
func (s *screen) index() {
	if s.y == s.bottom {
		s.scroll(1)
	}
	s.moveDown(s.x, 1)
}

// reverseIndex moves the cursor up, and scrolls if it is at the region's top.
func (s *screen) reverseIndex() {
	if s.y == s.top {
		s.scroll(-1)
	}
	s.moveDown(s.x, -1)
}

// scroll moves the region's rows up by n, down if n is negative. Rows that leave
// the main grid at the top go into the history.
func (s *screen) scroll(n int) {
	if s.current == 0 && s.top == 0 {
		s.toHistory(max(0, min(n, s.bottom+1)))
	}
	s.grid().scroll(s.top, s.bottom, n, s.style.erased())
}

// tab moves the cursor by n tab stops, back if n is negative. A pending wrap stays
// pending when moving forward.
func (s *screen) tab(n int) {
	x := s.x
	for ; n > 0 && x < s.size.Columns-1; n-- {
		for x++; x < s.size.Columns-1 && !s.tabs[x]; x++ {
		}
	}
	for ; n < 0 && x > 0; n++ {
		for x--; x > 0 && !s.tabs[x]; x-- {
		}
	}
	if x != s.x {
		s.moveTo(x, s.y)
	}
}

// escape executes an escape sequence.
func (s *screen) escape(intermediate, final byte) {
	s.last = 0
	switch intermediate {
	case 0:
		s.plainEscape(final)
	case '(':
		s.drawing[0] = final == '0'
	case ')':
		s.drawing[1] = final == '0'
	case '#':
		if final == '8' {
			s.align()
		}
	}
}

func (s *screen) plainEscape(final byte) {
	switch final {
	case 'D':
		s.index()
	case 'E':
		s.x = 0
		s.index()
	case 'H':
		s.tabs[s.x] = true
	case 'M':
		s.reverseIndex()
	case '7':
		s.save()
	case '8':
		s.restore()
	case 'c':
		s.reset()
	}
}

// align executes DECALN, which fills the screen to adjust a tube.
func (s *screen) align() {
	s.style, s.origin = style{}, false
	s.top, s.bottom = 0, s.size.Rows-1
	s.moveTo(0, 0)
	for y := range s.size.Rows {
		cells := s.grid().row(y).cells
		for x := range cells {
			cells[x] = glyph{r: 'E'}
		}
	}
}

// save stores the cursor; each grid has its own.
func (s *screen) save() { s.saved[s.current] = s.cursor }

// restore also restores a pending wrap. The screen or the region may be smaller now.
func (s *screen) restore() {
	s.cursor = s.saved[s.current]
	wraps := s.wraps
	s.moveTo(s.x, min(s.y, s.lastRow()))
	s.wraps = wraps
}

// show shows the main grid, 0, or the alternate one. The cursor does not move.
func (s *screen) show(grid int) {
	s.grid().y = s.y
	if s.grids[grid] == nil {
		s.grids[grid] = newGrid(s.size)
	}
	s.current = grid
}
