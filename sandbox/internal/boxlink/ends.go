package boxlink

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"belljar/internal/boxinit/wire"

	"golang.org/x/sys/unix"
)

// ends are the ends of a process's pipes, or its terminal's master, as the init handed them over. Data
// does not pass through the init then.
type ends struct {
	*output
	stdin   *os.File
	outputs [2]*os.File // the second is nil with a terminal
	writing sync.Mutex  // the writers are not called both at once
}

// newEnds takes over the files.
func newEnds(o *output, s Start, files []*os.File) (*ends, error) {
	e := &ends{output: o}
	wanted := []**os.File{&e.outputs[0]}
	if s.Stdin != nil {
		wanted = []**os.File{&e.stdin, &e.outputs[0]}
	}
	if s.TTY == nil {
		wanted = append(wanted, &e.outputs[1])
	}
	if len(files) != len(wanted) {
		closeAll(files)
		return nil, errProtocol
	}
	for i, end := range wanted {
		*end = files[i]
	}
	return e, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}

// close ends all reading and writing.
func (e *ends) close() { closeAll([]*os.File{e.stdin, e.outputs[0], e.outputs[1]}) }

func (e *ends) release() {
	e.mu.Lock()
	e.released = true
	e.mu.Unlock()
	e.close()
}

// look makes the readers read what is in the streams now, and say so.
func (e *ends) look() {
	for _, f := range e.outputs {
		if f != nil {
			f.SetReadDeadline(time.Unix(1, 0))
		}
	}
}

// run reads everything, until the streams ended or were released.
func (e *ends) run(p *Process) {
	defer e.finish()
	stop := make(chan struct{})
	var all, rest sync.WaitGroup
	for i, f := range e.outputs {
		if f == nil {
			continue
		}
		rest.Add(1)
		all.Go(func() { e.read(p, i, sync.OnceFunc(rest.Done)) })
	}
	var watch sync.WaitGroup
	watch.Go(func() {
		rest.Wait()
		e.rest()
	})
	watch.Go(func() {
		select {
		case <-p.exited:
			e.look()
		case <-p.link.done:
		case <-stop:
		}
		select {
		case <-p.link.done:
			e.look()
		case <-stop:
		}
	})
	all.Wait()
	close(stop)
	watch.Wait()
}

// maxRest is more than a pipe of an unprivileged user holds (pipe(7), pipe-max-size), or a terminal.
const maxRest = 1 << 20

// read copies a stream to its end. It calls rested once all that was in it when the process ended is written. Where the link
// broke, the container ends most likely, and with it the stream, in a moment.
func (e *ends) read(p *Process, i int, rested func()) {
	defer rested()
	block := make([]byte, wire.MaxFrame)
	left := -1    // how much may have been in it; -1: the process runs
	over := false // it was known to have ended when the stream was read
	var last time.Time
	for {
		var n int
		var err error
		if left > 0 {
			n, err = readNow(e.outputs[i], block)
		} else {
			n, err = e.outputs[i].Read(block)
		}
		e.write(i, block[:max(0, n)])
		left -= min(n, max(0, left))
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded) && !last.IsZero():
			if !time.Now().Before(last) {
				return
			}
			e.outputs[i].SetReadDeadline(last)
		case errors.Is(err, os.ErrDeadlineExceeded):
			e.outputs[i].SetReadDeadline(time.Time{})
			left = maxRest
		case errors.Is(err, syscall.EAGAIN):
			left = 0
		case errors.Is(err, syscall.EIO) && !over:
			over = p.over(awayPause)
		case err != nil:
			e.mu.Lock()
			e.finished[i] = errors.Is(err, io.EOF) || errors.Is(err, syscall.EIO) // the end of a terminal
			e.mu.Unlock()
			return
		}
		if left == 0 {
			rested()
			select {
			case <-p.link.done:
				if last.IsZero() {
					last = time.Now().Add(drainTimeout)
					e.outputs[i].SetReadDeadline(last)
				}
			default:
			}
		}
	}
}

// awayPause is how long a terminal is left alone that no process has open. Its process may open it again, as /dev/tty.
const awayPause = 100 * time.Millisecond

// over waits for the end of a process, not for longer than that, and reports whether it, or the link, has ended.
func (p *Process) over(most time.Duration) bool {
	select {
	case <-p.exited:
	case <-p.link.done:
	case <-time.After(most):
		return false
	}
	return true
}

func (e *ends) write(i int, text []byte) {
	if len(text) > 0 {
		e.writing.Lock()
		defer e.writing.Unlock()
		e.writers[i].Write(text)
	}
}

// resize is for a terminal.
func (e *ends) resize(to wire.Size) {
	if conn, err := e.outputs[0].SyscallConn(); err == nil {
		conn.Control(func(fd uintptr) {
			unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: to.Rows, Col: to.Columns})
		})
	}
}

// readNow reads what is there, and does not wait: nothing there is EAGAIN.
func readNow(f *os.File, block []byte) (n int, err error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	failed := conn.Read(func(fd uintptr) bool {
		for {
			if n, err = unix.Read(int(fd), block); !errors.Is(err, syscall.EINTR) {
				return true
			}
		}
	})
	if failed != nil {
		return 0, failed
	}
	if n == 0 && err == nil {
		err = io.EOF
	}
	return max(0, n), err
}
