// Package input reads a command's stdin. A reader that fails is no end of input: a command
// that took it for one would run half a script, or unpack half an archive, and succeed.
package input

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"sync"
	"time"
)

// Broken reports whether an error of a Read is that of a reader that failed: not its end,
// nor that someone closed it or gave up the Read.
func Broken(err error) bool {
	for _, fine := range []error{nil, io.EOF, io.ErrClosedPipe, fs.ErrClosed, net.ErrClosed, os.ErrDeadlineExceeded} {
		if errors.Is(err, fine) {
			return false
		}
	}
	return true
}

// Reader is a stdin. When it fails, it says why, and the Read waits until it is given up.
type Reader struct {
	from    io.Reader
	touch   func()
	failed  chan error
	waiting chan struct{} // the Reads that wait because it failed: closed to give them up
	mu      sync.Mutex    // of waiting and why
	why     error
}

// deadliner is a reader whose Read can be given up.
type deadliner interface{ SetReadDeadline(time.Time) error }

// WithDeadline is a Reader whose Reads can be given up.
type WithDeadline struct {
	*Reader
	deadliner
}

// New is a Reader of from, and the same with a SetReadDeadline, if from has one. touch is called for what is read.
func New(from io.Reader, touch func()) (*Reader, io.Reader) {
	r := &Reader{from: from, touch: touch, failed: make(chan error, 1), waiting: make(chan struct{})}
	if d, ok := from.(deadliner); ok {
		return r, WithDeadline{r, d}
	}
	return r, r
}

// Failed receives why reading failed, if it did.
func (r *Reader) Failed() <-chan error {
	if r == nil {
		return nil
	}
	return r.failed
}

// Close gives up what waits. Nothing is read any more.
func (r *Reader) Close() {
	if r != nil {
		r.giveUp()
	}
}

// Read implements io.Reader.
func (r *Reader) Read(p []byte) (int, error) {
	r.mu.Lock()
	err, waiting := r.why, r.waiting
	r.mu.Unlock()
	n := 0
	if err == nil {
		n, err = r.from.Read(p)
		if n > 0 {
			r.touch()
		}
		if !Broken(err) {
			return n, err
		}
		r.mu.Lock()
		r.why, waiting = err, r.waiting
		r.mu.Unlock()
		r.failed <- err
	}
	if n > 0 {
		return n, nil
	}
	<-waiting
	return 0, err
}

// SetReadDeadline gives up the Read, or allows the next one.
func (r WithDeadline) SetReadDeadline(t time.Time) error {
	err := r.deadliner.SetReadDeadline(t)
	switch {
	case err != nil:
	case t.IsZero():
		r.mu.Lock()
		if closed(r.waiting) {
			r.waiting = make(chan struct{})
		}
		r.mu.Unlock()
	default:
		r.giveUp()
	}
	return err
}

func (r *Reader) giveUp() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !closed(r.waiting) {
		close(r.waiting)
	}
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
