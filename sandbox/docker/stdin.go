package docker

import (
	"io"
	"time"

	"github.com/docker/docker/api/types"
)

// stdinCopy feeds a process.
type stdinCopy struct {
	from io.Reader
	done chan struct{}
}

func copyStdin(to types.HijackedResponse, from io.Reader) *stdinCopy {
	s := &stdinCopy{from: from, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		// A process that does not read all of it is no error.
		io.Copy(struct{ io.Writer }{to.Conn}, from)
		to.CloseWrite()
	}()
	return s
}

// stop ends the copy after its connection was closed. A Read that blocks can be
// ended only where it takes a deadline; any other is left to itself.
func (s *stdinCopy) stop() {
	if s == nil {
		return
	}
	deadline, ok := s.from.(interface{ SetReadDeadline(time.Time) error })
	if ok && deadline.SetReadDeadline(time.Now()) == nil {
		<-s.done
		deadline.SetReadDeadline(time.Time{})
	}
}
