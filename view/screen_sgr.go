package view

// setAttributes does SGR: https://invisible-island.net/xterm/ctlseqs/ctlseqs.html.
// What a style cannot express, such as blinking or conceal, is passed over: concealed
// text is there to be read.
func (s *style) setAttributes(c *command) {
	if c.count == 0 {
		*s = style{}
		return
	}
	for i := 0; i < len(c.parameters()); {
		end := i + 1
		for end < len(c.parameters()) && c.sub[end] {
			end++
		}
		switch c.values[i] {
		case 38:
			i = setColor(&s.fg, c, i, end)
			continue
		case 48:
			i = setColor(&s.bg, c, i, end)
			continue
		case 58: // the underline's
			i = setColor(new(color), c, i, end)
			continue
		case 4: // 4:0 is none, 4:3 a curly one
			s.set(underline, end == i+1 || c.values[i+1] != 0)
		default:
			s.setAttribute(c.values[i])
		}
		i = end
	}
}

func (s *style) setAttribute(code int) {
	switch {
	case code == 0:
		*s = style{}
	case code == 1 || code == 22:
		s.set(bold, code == 1)
	case code == 3 || code == 23:
		s.set(italic, code == 3)
	case code == 21 || code == 24: // two lines are a line
		s.set(underline, code == 21)
	case code == 7 || code == 27:
		s.set(inverse, code == 7)
	case code == 39:
		s.fg = 0
	case code == 49:
		s.bg = 0
	case code >= 30 && code <= 37:
		s.fg = paletteColor | color(code-30)
	case code >= 40 && code <= 47:
		s.bg = paletteColor | color(code-40)
	case code >= 90 && code <= 97:
		s.fg = paletteColor | color(code-90+8)
	case code >= 100 && code <= 107:
		s.bg = paletteColor | color(code-100+8)
	}
}

func (s *style) set(bit uint8, on bool) {
	s.attributes &^= bit
	if on {
		s.attributes |= bit
	}
}

// setColor reads the color that the parameter at i begins: "38;5;n", "38;2;r;g;b",
// or with colons up to end, where "38:2" may have a color space before r. It says
// where the next parameter is.
func setColor(to *color, c *command, i, end int) int {
	p := c.parameters()
	if end > i+1 {
		if p = p[:end]; end == i+6 && p[i+1] == 2 {
			mix(to, p[i+3:])
			return end
		}
	}
	switch {
	case i+2 < len(p) && p[i+1] == 5:
		if n := p[i+2]; n < 256 {
			*to = paletteColor | color(n)
		}
		return max(end, i+3)
	case i+4 < len(p) && p[i+1] == 2:
		mix(to, p[i+2:])
		return max(end, i+5)
	case end > i+1:
		return end
	}
	return len(p) // not a color: what follows could be anything
}

func mix(to *color, p []int) {
	if r, g, b := p[0], p[1], p[2]; max(r, g, b) < 256 {
		*to = mixedColor | color(r<<16|g<<8|b)
	}
}
