package local

import (
	"bytes"
	"cmp"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// maxSaid bounds what is kept of a script's stderr.
const maxSaid = 512

// filesStreams are the streams of a script, seen from belljar.
type filesStreams struct {
	in     *io.PipeWriter
	out    *filesQueue
	ready  chan struct{} // closed when the script waits for its line
	ended  chan struct{} // closed when it ended
	giveUp func()        // stops waiting for its end

	fromUs *io.PipeReader
	began  bool          // it has said that it waits
	moved  *atomic.Int64 // counts its output, if not nil
	idle   *idleTimer

	mu   sync.Mutex
	text bytes.Buffer // its stderr
}

func newFilesStreams(onIdle func()) *filesStreams {
	s := &filesStreams{ready: make(chan struct{}), ended: make(chan struct{}), giveUp: func() {}}
	s.fromUs, s.in = io.Pipe()
	s.out = newFilesQueue()
	s.idle = &idleTimer{timer: time.AfterFunc(filesIdle, onIdle)}
	return s
}

// idleTimer fires when nothing moved for filesIdle, unless the caller was waited for.
type idleTimer struct {
	mu     sync.Mutex
	timer  *time.Timer
	paused bool // while a Read of the caller's blocks
	over   bool
}

func (i *idleTimer) restart() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.paused && !i.over {
		i.timer.Reset(filesIdle)
	}
}

func (i *idleTimer) pause(paused bool) {
	i.mu.Lock()
	i.paused = paused
	i.timer.Stop()
	i.mu.Unlock()
	i.restart()
}

func (i *idleTimer) stop() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.over = true
	i.timer.Stop()
}

// close ends all reads and writes of both sides. What still comes is dropped: an engine whose stream
// is not read cannot kill.
func (s *filesStreams) close(why error) {
	s.idle.stop()
	s.fromUs.CloseWithError(io.ErrClosedPipe)
	s.in.CloseWithError(why)
	s.out.close(cmp.Or(why, io.ErrClosedPipe))
}

// end is called when the script ended.
func (s *filesStreams) end() {
	s.idle.stop()
	s.out.end()
	close(s.ended)
}

// drainAfter has the rest of its output wait here, and not in the engine, once it exited.
func (s *filesStreams) drainAfter(exited <-chan struct{}) {
	select {
	case <-exited:
		s.out.widen()
	case <-s.ended:
	}
}

func (s *filesStreams) said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	line, _, _ := bytes.Cut(bytes.TrimSpace(s.text.Bytes()), []byte("\n"))
	return string(line)
}

func (s *filesStreams) stdin() io.Reader  { return filesStdin{s} }
func (s *filesStreams) stdout() io.Writer { return filesStdout{s} }
func (s *filesStreams) stderr() io.Writer { return filesStderr{s} }

// paused is a Reader of the caller's: while that blocks, the container is not idle.
type paused struct {
	io.Reader
	idle  *idleTimer
	moved *atomic.Int64 // counts what was read
}

func (p paused) Read(b []byte) (int, error) {
	p.idle.pause(true)
	defer p.idle.pause(false)
	n, err := p.Reader.Read(b)
	p.moved.Add(int64(n))
	return n, err
}

type filesStdin struct{ *filesStreams }

func (s filesStdin) Read(p []byte) (int, error) {
	n, err := s.fromUs.Read(p)
	s.idle.restart()
	return n, err
}

// SetReadDeadline ends a Read: the engine wants no more.
func (s filesStdin) SetReadDeadline(t time.Time) error {
	if !t.IsZero() {
		s.fromUs.CloseWithError(io.ErrClosedPipe)
	}
	return nil
}

type filesStdout struct{ *filesStreams }

func (s filesStdout) Write(p []byte) (int, error) {
	n := len(p)
	s.idle.restart()
	if !s.began && n > 0 && p[0] == '\n' {
		s.began = true
		close(s.ready)
		p = p[1:]
	}
	if len(p) > 0 && s.began {
		if s.moved != nil {
			s.moved.Add(int64(len(p)))
		}
		s.out.Write(p)
		s.idle.restart()
	}
	return n, nil
}

type filesStderr struct{ *filesStreams }

func (s filesStderr) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.Write(p[:min(len(p), maxSaid-s.text.Len())])
	return len(p), nil
}
