package docker

import (
	"io"
	"time"

	"github.com/docker/docker/api/types"
)

// stdinCopy copies a command's stdin to its process.
type stdinCopy struct {
	from io.Reader
	done chan struct{}
}

func copyStdin(to types.HijackedResponse, from io.Reader, tty bool) *stdinCopy {
	s := &stdinCopy{from: from, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		// A process that does not read all of it is no error.
		typed := &lastByte{Writer: to.Conn}
		io.Copy(typed, from)
		if tty {
			typed.endInput()
		} else {
			to.CloseWrite()
		}
	}()
	return s
}

// stop ends the copy after its connection was closed. A blocked Read can be
// ended only if it supports a deadline; any other is abandoned.
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

// lastByte remembers the last byte written.
type lastByte struct {
	io.Writer
	last byte
}

func (w *lastByte) Write(p []byte) (int, error) {
	if len(p) > 0 {
		w.last = p[len(p)-1]
	}
	return w.Writer.Write(p)
}

// endInput types the end of input, as a person does. Closing the connection's half
// would make the engine end the output with it (moby's CopyStreams).
func (w *lastByte) endInput() {
	keys := endOfInput
	if w.last != 0 && w.last != '\n' && w.last != '\r' {
		keys += endOfInput // the first one ends the line
	}
	io.WriteString(w.Writer, keys)
}
