package boxinit

import (
	"strconv"
	"syscall"
	"time"

	"belljar/internal/boxinit/wire"
)

// handle does what a client asks.
func (l *loop) handle(c *conn, r wire.Request) {
	id, body := r.ID, r.Body
	from := client{c, c.turn}
	switch r.Kind {
	case wire.Hello:
		l.door.lonely = time.Time{}
		l.leave(c)
		c.send(packet{text: append([]byte(wire.Marker), body...)})
		c.send(packet{text: wire.AppendFrame(nil, wire.Welcome, id, wire.AppendUint32(nil, wire.Version))})
	case wire.Leave:
		l.leave(c)
		c.send(packet{text: wire.AppendFrame(nil, wire.Done, id, errnoBody(0))})
	case wire.Garbled:
		from.send(wire.Garbled, 0, nil)
	case wire.Stay:
		l.stays = true
		from.send(wire.Done, id, errnoBody(0))
	case wire.Start:
		l.askStart(from, id, body)
	case wire.List, wire.Look:
		if j, ok := l.looking(from, r); ok {
			l.queue = append(l.queue, j)
		}
	case wire.AtExit:
		if a, ok := wire.DecodeAtExit(body); ok {
			l.garbage += 2 * len(body)
			c.later[a.Process] = a.Requests
			c.gather() // the process starts now
			from.send(wire.Done, id, errnoBody(0))
		}
	case wire.Ping:
		from.send(wire.Done, id, errnoBody(0))
	case wire.Kill, wire.End:
		l.ends = l.ends || r.Kind == wire.End
		l.kill(waiter{from, id})
	case wire.Stop, wire.Continue:
		l.signalAll(waiter{from, id}, r.Kind)
	case wire.Signal:
		if s, ok := wire.DecodeSignal(body); ok {
			from.send(wire.Done, id, errnoBody(signalOne(s)))
		}
	default:
		if p := c.procs[id]; p != nil {
			p.handle(r.Kind, body)
		}
	}
}

// looking is what a List or a Look asks for.
func (l *loop) looking(from client, r wire.Request) (j job, ok bool) {
	j = job{of: from, id: r.ID}
	if r.Kind == wire.List {
		j.settle = l.stopped
		return j, true
	}
	j.look, ok = wire.DecodeLook(r.Body)
	return j, ok
}

// answer answers what was looked at.
func (l *loop) answer(r result) {
	l.garbage += r.allocated
	for _, record := range r.list {
		l.garbage += len(record)
		r.of.send(wire.Listed, r.id, record)
	}
	r.of.send(wire.Done, r.id, errnoBody(r.errno))
}

func (l *loop) askStart(from client, id uint32, body []byte) {
	s, ok := wire.DecodeStart(body)
	l.garbage += 3*len(body) + perStart
	if !ok || from.conn.procs[id] != nil {
		from.send(wire.NotStarted, id, refuse(wire.BadRequest, syscall.EINVAL, "reading the request").Encode(nil))
		return
	}
	l.queue = append(l.queue, job{of: from, id: id, start: s})
}

// signalAll stops or continues everything but this program.
func (l *loop) signalAll(w waiter, kind wire.Kind) {
	number := syscall.SIGSTOP
	l.stopped = kind == wire.Stop
	if kind == wire.Continue {
		number = syscall.SIGCONT
	}
	err := syscall.Kill(-1, number)
	if err == syscall.ESRCH { // there is none
		err = nil
	}
	w.send(wire.Done, w.id, errnoBody(errnoOf(err)))
}

// signalOne sends a signal to a process, and to no other that has its PID since. One that
// is gone is no error.
func signalOne(s wire.SignalRequest) syscall.Errno {
	pid := int(s.PID)
	if pid <= 1 {
		return syscall.EPERM
	}
	fd, _, errno := syscall.RawSyscall(sysPidfdOpen, uintptr(pid), 0, 0)
	if errno == syscall.ESRCH {
		return 0
	}
	if errno == 0 {
		defer syscall.Close(int(fd))
	}
	text, err := readFile("/proc/"+strconv.Itoa(pid)+"/stat", statSize)
	if unread := errnoOf(err); unread == syscall.ENOENT || unread == syscall.ESRCH {
		return 0
	} else if unread != 0 {
		return unread
	}
	if now, ok := parseStat(text); !ok || s.StartTicks != 0 && now.ticks != s.StartTicks {
		return 0
	}
	if errno == 0 {
		_, _, errno = syscall.RawSyscall6(sysPidfdSendSignal, fd, uintptr(s.Signal), 0, 0, 0, 0)
	} else { // a kernel without them
		errno = errnoOf(syscall.Kill(pid, syscall.Signal(s.Signal)))
	}
	if errno == syscall.ESRCH {
		return 0
	}
	return errno
}

// The same on all architectures; package syscall does not have them.
const sysPidfdSendSignal, sysPidfdOpen = 424, 434
