package view

import (
	"unicode/utf8"

	"belljar/sandbox"
)

// NewScreen implements sandbox.Viewer. The screen is xterm's, as far as programs
// use it, of at most 500 by 200 characters, and keeps 1,000 lines that scrolled off.
// It answers no queries, and colors and titles cannot be redefined. Lines that a
// narrower size cuts are cut; characters with more than eight marks lose the others.
func (Viewer) NewScreen(size sandbox.TerminalSize) sandbox.Screen {
	s := &screen{size: size.Bounded()}
	s.renew()
	return s
}

// screen is a terminal: a parser of what the program writes, and the state that
// vt10x does not have or that it gets wrong.
type screen struct {
	size     sandbox.TerminalSize
	parser   parser
	grids    [2]*grid // the main and the alternate one, nil until it is used
	current  int      // which of them is seen
	history  history
	delayed  delayed
	clusters clusters
	scratch  [2 * utf8.UTFMax]byte

	pen         pen
	saved       [2]pen // with each grid's saved cursor
	last        rune   // that was written, for repetition; 0 is none
	top, bottom int    // the scroll region's rows
	tabs        [sandbox.MaxColumns]bool
	noWrap      bool
	insert      bool
	returnsToo  bool // a line feed returns the carriage too
}

// pen is how text comes out.
type pen struct {
	style   style
	drawing [2]bool // whether G0 and G1 are DEC's line drawing set
	set     int     // the one of them in use
}

// renew gives the screen new grids: whatever they had is gone.
func (s *screen) renew() {
	s.grids = [2]*grid{newGrid(s.size.Columns, s.size.Rows)}
	s.reset()
}

// reset begins anew, but for the grids' cells and the history.
func (s *screen) reset() {
	s.parser.reset()
	s.current = 0
	s.delayed = delayed{}
	s.saved = [2]pen{}
	s.tabs = [sandbox.MaxColumns]bool{}
	for i := 0; i < sandbox.MaxColumns; i += 8 {
		s.tabs[i] = true
	}
	s.softReset()
}

func (s *screen) softReset() {
	s.pen, s.last = pen{}, 0
	s.top, s.bottom = 0, s.size.Rows-1
	s.noWrap, s.insert, s.returnsToo = false, false, false
}

func (s *screen) grid() *grid { return s.grids[s.current] }

// Write implements sandbox.Screen.
func (s *screen) Write(data []byte) (int, error) {
	for rest := data; len(rest) > 0; {
		rest = s.consume(rest)
	}
	return len(data), nil
}

// consume reads data up to its end, or to a byte that made vt10x panic: the screen
// begins anew behind it. No such byte is known.
func (s *screen) consume(data []byte) (rest []byte) {
	at := 0
	defer func() {
		if recover() != nil {
			s.renew()
			rest = data[min(at+1, len(data)):]
		}
	}()
	for at < len(data) {
		at += s.parser.next(data[at:], s)
	}
	return nil
}

// Resize implements sandbox.Screen.
func (s *screen) Resize(size sandbox.TerminalSize) {
	if size = size.Bounded(); size == s.size {
		return
	}
	s.settle()
	s.size = size
	for i, g := range s.grids {
		if g == nil {
			continue
		}
		if i == 0 { // vt10x drops the rows above those that the cursor is at the end of
			for y := range g.cursor().Y - s.size.Rows + 1 {
				s.history.push(g.line(y, &s.clusters))
			}
		}
		g.setPen(style{}) // of the new cells
		g.term.Resize(s.size.Columns, s.size.Rows)
	}
	s.top, s.bottom = 0, s.size.Rows-1
}

// Shot implements sandbox.Screen.
func (s *screen) Shot() sandbox.Shot {
	s.settle()
	lines := append([]line(nil), s.history.lines...)
	for y := range s.size.Rows {
		lines = append(lines, s.grid().line(y, &s.clusters))
	}
	return shot(lines, s.size)
}
