package view

import "belljar/sandbox"

// command does a control sequence. Queries are not answered.
func (s *screen) command(c *command) {
	if c.final == 'm' && c.private == 0 && c.intermediate == 0 {
		s.pen.style.setAttributes(c)
		return
	}
	if s.delayed.on && c.final == 'K' && s.delaysErase(c) {
		return
	}
	s.settle()
	switch {
	case c.intermediate == '!' && c.final == 'p':
		s.soft()
	case c.intermediate != 0:
	case c.private == '?' && (c.final == 'h' || c.final == 'l'):
		for _, mode := range c.parameters() {
			s.privateMode(mode, c.final == 'h')
		}
	case c.private == '?' && (c.final == 'J' || c.final == 'K'): // but what is protected
		s.erase(c)
	case c.private == 0:
		_ = s.move(c) || s.edit(c) || s.set(c)
	}
}

// move does the sequences that move the cursor.
func (s *screen) move(c *command) bool {
	g, n := s.grid(), c.value(0, 1)
	switch c.final {
	case 'A':
		g.row(-n, s.top, s.bottom)
	case 'B', 'e':
		g.row(n, s.top, s.bottom)
	case 'C', 'a':
		g.command('C', n)
	case 'D':
		g.command('D', n)
	case 'E', 'F':
		if c.final == 'F' {
			n = -n
		}
		g.row(n, s.top, s.bottom)
		g.control("\r")
	case 'G', '`':
		g.column(n - 1)
	case 'H', 'f':
		g.command('H', n, c.value(1, 1))
	case 'd':
		g.command('d', n)
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

// edit does the sequences that change what is there. n is at most what the screen
// has: more changes nothing else.
func (s *screen) edit(c *command) bool {
	g, n := s.grid(), min(c.value(0, 1), sandbox.MaxColumns)
	switch c.final {
	case 'J', 'K':
		s.erase(c)
	case 'S':
		s.leave(n)
		g.erase(s.pen.style, 'S', n)
	case 'T':
		if c.count > 1 { // tracks the mouse
			return true
		}
		fallthrough
	case '@', 'L', 'M', 'P', 'X':
		g.erase(s.pen.style, c.final, n)
	case 'b':
		s.repeat(n)
	default:
		return false
	}
	return true
}

func (s *screen) erase(c *command) {
	g, what := s.grid(), c.value(0, 0)
	switch {
	case what < 3:
		g.erase(s.pen.style, c.final, what)
		// vt10x forgets the first row above the second.
		if y := g.cursor(); c.final == 'J' && what == 1 && y.Y == 1 && y.State&originScroll == 0 {
			g.control("\x1b[A\x1b[2K\x1b[B")
		}
	case what == 3 && c.final == 'J':
		s.history = history{}
	}
}

// set does the sequences that change modes.
func (s *screen) set(c *command) bool {
	switch c.final {
	case 'g':
		switch c.value(0, 0) {
		case 0:
			s.tabs[s.grid().cursor().X] = false
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
			s.grid().command('r', top, bottom)
		}
	default:
		return false
	}
	return true
}

func (s *screen) privateMode(mode int, on bool) {
	switch mode {
	case 6:
		s.grid().mode(6, on)
	case 7:
		s.noWrap = !on
		s.grid().mode(7, on)
	case 47, 1047:
		s.swap(b2i(on))
	case 1048, 1049:
		if on {
			s.save()
		}
		if mode == 1049 {
			s.swap(b2i(on))
		}
		if !on {
			s.restore()
		}
	}
}

// soft does DECSTR: modes and the pen, not what is seen nor the cursor.
func (s *screen) soft() {
	g := s.grid()
	c := g.cursor()
	s.softReset()
	g.mode(6, false)
	g.mode(7, true)
	g.command('r', 1, s.size.Rows)
	g.command('H', c.Y+1, c.X+1)
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
