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

	// screenPiece is drawn without a look at the clock.
	screenPiece = 512
)

// screen is what a command's terminal shows.
type screen struct {
	mu      sync.Mutex
	grid    sandbox.Screen // nil without a terminal
	took    time.Duration  // to draw
	tooSlow bool           // it is given up
}

// write draws output, for as long as that does not take too long: the command
// waits for it.
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

// shot is the screen as it is now, nil without one.
func (s *screen) shot() *sandbox.Shot {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.grid == nil {
		return nil
	}
	shot := s.grid.Shot()
	return &shot
}

func (s *screen) resize(size sandbox.TerminalSize) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.grid != nil {
		s.grid.Resize(size)
	}
}
