package view

import "belljar/sandbox"

// command does a control sequence. Queries are not answered.
func (s *screen) command(c *command) {
	last := s.last
	s.last = 0
	switch {
	case c.intermediate == '!' && c.final == 'p':
		s.softReset()
	case c.intermediate != 0:
	case c.private == '?' && (c.final == 'h' || c.final == 'l'):
		for _, mode := range c.parameters() {
			s.privateMode(mode, c.final == 'h')
		}
	case c.private == '?' && (c.final == 'J' || c.final == 'K'): // but what is protected
		s.erase(c)
	case c.private != 0:
	case c.final == 'm':
		s.style.setAttributes(c)
	case c.final == 'b':
		s.last = last
		s.repeat(min(c.value(0, 1), s.size.Columns))
		s.last = 0
	default:
		_ = s.move(c) || s.edit(c) || s.change(c)
	}
}

// move does the sequences that move the cursor.
func (s *screen) move(c *command) bool {
	n := c.value(0, 1)
	switch c.final {
	case 'A':
		s.moveDown(s.x, -n)
	case 'B':
		s.moveDown(s.x, n)
	case 'C', 'a':
		s.moveTo(s.x+n, s.y)
	case 'D':
		s.moveTo(s.x-n, s.y)
	case 'E':
		s.moveDown(0, n)
	case 'F':
		s.moveDown(0, -n)
	case 'G', '`':
		s.moveTo(n-1, s.y)
	case 'H', 'f':
		s.moveFrom(c.value(1, 1)-1, n-1)
	case 'd':
		s.moveFrom(s.x, n-1)
	case 'e':
		s.moveTo(s.x, min(s.y+n, s.lastRow()))
	case 'I':
		s.tab(n)
	case 'Z':
		s.tab(-n)
	case 's':
		s.save()
	case 'u':
		s.restore()
	default:
		return false
	}
	return true
}

// edit does the sequences that change what is there.
func (s *screen) edit(c *command) bool {
	n, erased := c.value(0, 1), s.style.erased()
	switch c.final {
	case 'J', 'K':
		s.erase(c)
	case 'S':
		s.scroll(n)
	case 'T':
		if c.count <= 1 { // or it tracks the mouse
			s.scroll(-n)
		}
	case 'L':
		s.scrollHere(-n)
	case 'M':
		s.scrollHere(n)
	case '@':
		s.wraps = false
		insertBlanks(s.row().cells, s.x, n, erased)
	case 'P':
		s.wraps = false
		deleteCells(s.row().cells, s.x, n, erased)
	case 'X':
		s.wraps = false
		erase(s.row().cells, s.x, n, erased)
	default:
		return false
	}
	return true
}

// scrollHere scrolls what is from the cursor's row to the region's end.
func (s *screen) scrollHere(n int) {
	if s.y >= s.top && s.y <= s.bottom {
		s.moveTo(0, s.y)
		s.grid().scroll(s.y, s.bottom, n, s.style.erased())
	}
}

// erase erases what follows the cursor (0), what is before it (1) or both (2), in
// its row or on the screen. The cursor's own cell goes with either, and the wrap
// that it may be due.
func (s *screen) erase(c *command) {
	what, erased := c.value(0, 0), s.style.erased()
	switch {
	case what > 2:
		if what == 3 && c.final == 'J' {
			s.history.clear()
		}
		return
	case what == 0:
		erase(s.row().cells, s.x, s.size.Columns, erased)
	case what == 1:
		erase(s.row().cells, 0, s.x+1, erased)
	default:
		s.row().clear(erased)
	}
	s.wraps = false
	if c.final == 'K' {
		return
	}
	for y := range s.size.Rows {
		if y > s.y && what != 1 || y < s.y && what != 0 {
			s.grid().row(y).clear(erased)
		}
	}
}

// change does the sequences that change modes.
func (s *screen) change(c *command) bool {
	switch c.final {
	case 'g':
		switch c.value(0, 0) {
		case 0:
			s.tabs[s.x] = false
		case 3:
			s.tabs = [sandbox.MaxColumns]bool{}
		}
	case 'h', 'l':
		for _, mode := range c.parameters() {
			switch mode {
			case 4:
				s.insert = c.final == 'h'
			case 20:
				s.returnsToo = c.final == 'h'
			}
		}
	case 'r':
		top, bottom := c.value(0, 1), min(c.value(1, s.size.Rows), s.size.Rows)
		if top < bottom {
			s.top, s.bottom = top-1, bottom-1
			s.moveFrom(0, 0)
		}
	default:
		return false
	}
	return true
}

func (s *screen) privateMode(mode int, on bool) {
	switch mode {
	case 6:
		s.origin = on
		s.moveFrom(0, 0)
	case 7:
		s.noWrap = !on
	case 47, 1047, 1048, 1049:
		s.alternate(mode, on)
	}
}

// alternate does the modes that have to do with the alternate grid. 1047 clears it
// on the way out, 1049 on the way in, and 47 not at all; 1048 and 1049 save the
// cursor.
func (s *screen) alternate(mode int, on bool) {
	if mode >= 1048 && on {
		s.save()
	}
	switch {
	case mode == 1048:
	case on:
		s.show(1)
	default:
		if mode == 1047 && s.current == 1 {
			s.grid().clear(s.style.erased())
		}
		s.show(0)
	}
	switch {
	case mode == 1049 && on:
		s.grid().clear(s.style.erased())
	case mode >= 1048 && !on:
		s.restore()
	}
}
