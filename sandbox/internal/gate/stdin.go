package gate

import (
	"io"
	"os"
	"sync"
	"time"
)

// stdinQueue is a gate's stdin: lines for it, then the command's own.
type stdinQueue struct {
	lines chan []byte
	rest  []byte
	stop  chan struct{} // closed when the engine wants no more

	mu       sync.Mutex
	stopped  bool
	finished bool      // the last line is queued
	stdin    io.Reader // the command's, may be nil
}

func (s *stdinQueue) send(line []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped || s.finished {
		return false
	}
	select {
	case s.lines <- line:
		return true
	default:
		return false
	}
}

// finish has the last line read, if there is one, and stdin after it. Nothing may
// come between the two: a gate that has the line may end at once, and would seem
// not to have got it.
func (s *stdinQueue) finish(line []byte, stdin io.Reader) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped || s.finished {
		return false
	}
	if line != nil {
		select {
		case s.lines <- line:
		default:
			return false
		}
	}
	s.finished, s.stdin = true, stdin
	close(s.lines)
	return true
}

// Read implements io.Reader, for the engine.
func (s *stdinQueue) Read(p []byte) (int, error) {
	for len(s.rest) == 0 {
		select {
		case line, more := <-s.lines:
			if more {
				s.rest = line
				continue
			}
			if s.stdin == nil {
				return 0, io.EOF
			}
			return s.stdin.Read(p)
		case <-s.stop:
			return 0, os.ErrDeadlineExceeded
		}
	}
	n := copy(p, s.rest)
	if s.rest = s.rest[n:]; len(s.rest) == 0 {
		s.rest = nil // it holds a script, and maybe secrets
	}
	return n, nil
}

// SetReadDeadline ends a Read: the engine wants no more. What the command's own
// stdin cannot do is left to the engine.
func (s *stdinQueue) SetReadDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !t.IsZero() && !s.stopped {
		s.stopped = true
		close(s.stop)
	}
	if s.stdin == nil {
		return nil
	}
	if deadline, ok := s.stdin.(interface{ SetReadDeadline(time.Time) error }); ok {
		return deadline.SetReadDeadline(t)
	}
	return os.ErrNoDeadline
}
