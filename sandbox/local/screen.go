package local

import (
	"sync"
	"time"

	"belljar/sandbox"
)

const (
	// screenTime is how long a command's screen may take to be drawn, in all:
	// some short sequences cost a whole screen.
	screenTime = 5 * time.Second

	// screenPiece is how much is drawn between two looks at the clock.
	screenPiece = 512
)

// screen is what a command's terminal shows.
type screen struct {
	mu      sync.Mutex
	grid    sandbox.Screen // nil without a terminal
	took    time.Duration  // to draw
	tooSlow bool           // drawing was given up
}

// write draws output, unless that took too long already: the command waits for
// it.
func (s *screen) write(p []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.grid != nil && len(p) > 0 {
		n, began := min(len(p), screenPiece), time.Now()
		s.grid.Write(p[:n])
		p = p[n:]
		if s.took += time.Since(began); s.took > screenTime {
			s.grid, s.tooSlow = nil, true
		}
	}
}

// shot is the screen as it is now, with what scrolled off or without, and nil without a
// terminal.
func (s *screen) shot(scrollback bool) *sandbox.Shot {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.grid == nil {
		return nil
	}
	shot := s.grid.Shot(scrollback)
	return &shot
}

func (s *screen) resize(size sandbox.TerminalSize) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.grid != nil {
		s.grid.Resize(size)
	}
}
