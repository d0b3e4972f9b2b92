package docker

import (
	"bytes"
	"context"
	"io"
	"sync"
	"time"

	"github.com/containerd/errdefs"
)

const (
	// aheadMost is how much of a running process's output waits for its reader.
	aheadMost = 256 << 10

	// lateMost is that for a process that has ended. What it wrote itself is less: the
	// pipe and the buffers of its connection. The rest is of others that hold its output.
	lateMost = 16 << 20

	// cutAfter is how long after a process's end its output is surely there: the engine
	// then waits for it to be read, 2 s in all (moby's exec exit handler).
	cutAfter = 1500 * time.Millisecond
)

// backlog is a process's output that was read from the engine, and not yet taken. The
// engine throws away what is not read soon after the process's end, so from then on
// reading does not wait for its reader.
type backlog struct {
	ended func() bool // the process did, as far as is known
	cut   func(why string)

	mu   sync.Mutex
	data bytes.Buffer
	most int
	err  error // why no more comes
	over bool  // no one takes any more

	came, taken chan struct{}
}

// readAhead reads a stream to its end, ahead of those who read the backlog. stop lets
// go of what they leave.
func readAhead(from io.Reader, ended func() bool, cut func(why string)) (b *backlog, stop func()) {
	b = &backlog{ended: ended, cut: cut, most: aheadMost, came: make(chan struct{}, 1), taken: make(chan struct{}, 1)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.fill(from)
	}()
	return b, func() {
		b.mu.Lock()
		b.over = true
		b.mu.Unlock()
		wake(b.taken)
		<-done
	}
}

// over reports whether the engine knows that the process has ended.
func (r *running) over() bool {
	about, err := r.inspect(context.Background())
	return err == nil && !about.Running || errdefs.IsNotFound(err) || errdefs.IsConflict(err)
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (b *backlog) fill(from io.Reader) {
	p := make([]byte, 32<<10)
	for {
		n, err := from.Read(p)
		b.awaitRoom()
		b.mu.Lock()
		if b.err = err; !b.over {
			b.data.Write(p[:n])
		}
		b.mu.Unlock()
		wake(b.came)
		if err != nil {
			return
		}
	}
}

// awaitRoom waits until there is room for more, and makes some when the process has ended.
func (b *backlog) awaitRoom() {
	for ran := time.Now(); !b.hasRoom(); {
		select {
		case <-b.taken:
			continue
		case <-time.After(slowPoll):
		}
		asked := time.Now()
		switch {
		case b.most == lateMost:
		case !b.ended():
			ran = asked
		default:
			b.most = lateMost
			if time.Since(ran) > cutAfter {
				b.cut("the engine told too late that the command had ended, while nothing read its output")
			}
		}
	}
}

func (b *backlog) hasRoom() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.data.Len() >= lateMost {
		b.cut("processes that it left wrote more than was read")
	}
	return b.over || b.data.Len() < b.most
}

// Read implements io.Reader.
func (b *backlog) Read(p []byte) (int, error) {
	for {
		b.mu.Lock()
		n, err := b.data.Read(p) // io.EOF where there is nothing
		if n == 0 && err != nil {
			err = b.err
		}
		b.mu.Unlock()
		if n > 0 {
			wake(b.taken)
			return n, nil
		}
		if err != nil {
			return 0, err
		}
		<-b.came
	}
}
