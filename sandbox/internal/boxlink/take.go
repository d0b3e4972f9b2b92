package boxlink

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"belljar/internal/boxinit/wire"
)

// take takes an answer. The link is locked.
func (p *Process) take(kind wire.Kind, body []byte) (ok bool) {
	switch kind {
	case wire.Started:
		return p.takeStarted(body)
	case wire.NotStarted:
		return p.takeRefusal(body)
	}
	if p.pid == 0 {
		return false
	}
	switch {
	case kind == wire.Exited:
		ok = p.takeExit(body)
	case p.queue == nil:
		ok = kind == wire.Rested
	default:
		ok = p.takeOutput(kind, body)
	}
	p.link.settle(p)
	return ok
}

func (p *Process) takeOutput(kind wire.Kind, body []byte) bool {
	switch kind {
	case wire.Stdout, wire.Stderr:
		data, valid := wire.Data(body)
		return valid && p.queue.take(kind, data)
	case wire.Ended:
		return len(body) == 1 && p.takeEnd(wire.Kind(body[0]))
	case wire.Allowed:
		n, valid := wire.Uint32(body)
		return valid && p.stdin != nil && p.stdin.allow(int64(n))
	case wire.Rested:
		return p.queue.takeRest()
	}
	return false
}

func (p *Process) takeStarted(body []byte) bool {
	s, ok := wire.DecodeStarted(body)
	if !ok || p.pid != 0 {
		return false
	}
	p.pid, p.ticks = int(s.PID), int64(s.StartTicks)
	if p.queue == nil {
		files, err := p.link.files.next(int(s.Files))
		switch {
		case errors.Is(err, syscall.EMFILE):
			p.refused = fmt.Errorf("taking the command's streams: %w", err)
			delete(p.link.procs, p.id)
		case err != nil:
			return false
		default:
			if p.ends, err = newEnds(&p.output, p.asked, files); err != nil {
				return false
			}
		}
	}
	close(p.answered)
	return true
}

func (p *Process) takeRefusal(body []byte) bool {
	f, ok := wire.DecodeRefusal(body)
	if !ok || p.pid != 0 {
		return false
	}
	p.refused = &StartError{f.Reason, syscall.Errno(f.Errno), f.Step}
	delete(p.link.procs, p.id)
	close(p.answered)
	return true
}

func (p *Process) takeEnd(kind wire.Kind) bool {
	if kind == wire.Stdin {
		return p.stdin.unread()
	}
	return p.queue.takeEnd(kind)
}

func (p *Process) takeExit(body []byte) bool {
	e, ok := wire.DecodeExited(body)
	select {
	case <-p.exited:
		return false
	default:
	}
	p.status, p.when = int(e.Status), time.Unix(0, e.When)
	close(p.exited)
	return ok
}

// settle forgets a process of which nothing more is expected. The link is locked.
func (l *Link) settle(p *Process) {
	select {
	case <-p.exited:
		if p.queue == nil || p.output.settled() {
			delete(l.procs, p.id)
		}
	default:
	}
}

func (l *Link) forget(p *Process) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.procs, p.id)
}
