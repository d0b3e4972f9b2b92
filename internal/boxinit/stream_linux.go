package boxinit

import (
	"slices"
	"syscall"
	"time"

	"belljar/internal/boxinit/wire"
)

// proc is a command's first process, until it was reaped and its streams ended.
type proc struct {
	id       uint32
	of       client // who asked for it
	pid      int
	ended    bool // and reaped
	rested   bool
	terminal bool
	away     time.Time      // until when its terminal is not looked at, see leaves
	stdin    int            // -1: there is none any more
	unread   []byte         // what it is to get
	last     bool           // and no more after that
	stdinAt  int            // in the polled files, -1 if not
	later    []wire.Request // what its client asks at its end
	streams  [2]stream
}

// stream is one of a process's two outputs.
type stream struct {
	kind    wire.Kind
	fd      int  // -1 once it ended
	allowed int  // how much the client takes now
	rest    int  // bytes at most that were in it when the process ended, and may still be
	at      int  // in the polled files, -1 if not
	wide    bool // its pipe holds more than the kernel's default
}

// maxRest is more than a pipe of an unprivileged user holds (pipe(7), pipe-max-size), or a terminal.
const maxRest = 1 << 20

// begin is called for a process that was just started.
func (l *loop) begin(r result) {
	if slices.Contains(l.stuck, r.pid) {
		r.ends.close()
		l.refuse(r, refuse(wire.Stuck, syscall.EBUSY, "executing the program"))
		return
	}
	p := &proc{id: r.id, of: r.of, pid: r.pid, terminal: r.start.Terminal != nil, stdin: r.ends.stdin, stdinAt: -1, later: r.takeLater()}
	p.streams[0] = stream{kind: wire.Stdout, fd: r.ends.stdout, allowed: wire.Window, at: -1}
	p.streams[1] = stream{kind: wire.Stderr, fd: r.ends.stderr, allowed: wire.Window, at: -1}
	l.procs[p.pid] = p
	if p.of.gone() {
		p.closeStdin()
	} else {
		p.of.conn.procs[p.id] = p
	}
	started := wire.StartedAnswer{PID: uint32(p.pid), StartTicks: r.ticks}
	if p.of.conn.passes {
		p.pass(started)
		return
	}
	for _, fd := range []int{p.stdin, p.streams[0].fd, p.streams[1].fd} {
		if fd >= 0 {
			syscall.SetNonblock(fd, true)
		}
	}
	p.of.send(wire.Started, p.id, started.Encode(nil))
}

// pass hands the ends over: stdin, if there is one, stdout and, without a terminal, stderr.
func (p *proc) pass(started wire.StartedAnswer) {
	var files []int
	for _, fd := range []*int{&p.stdin, &p.streams[0].fd, &p.streams[1].fd} {
		if *fd >= 0 {
			files = append(files, *fd)
			*fd = -1
		}
	}
	if p.of.gone() {
		closeAll(files)
		return
	}
	started.Files = byte(len(files))
	p.of.conn.send(packet{text: wire.AppendFrame(nil, wire.Started, p.id, started.Encode(nil)), files: files})
}

func (p *proc) poll(l *loop) {
	p.stdinAt = -1
	if p.stdin >= 0 && len(p.unread) > 0 {
		p.stdinAt = len(l.polled)
		l.add(p.stdin, pollOut)
	}
	for i := range p.streams {
		s := &p.streams[i]
		s.at = -1
		if s.fd >= 0 && !p.isAway() && p.takes(s) {
			s.at = len(l.polled)
			l.add(s.fd, pollIn)
			l.again = l.again || s.rest > 0
		}
	}
}

// takes reports whether output may be read now. A client that is gone takes all.
func (p *proc) takes(s *stream) bool {
	return p.of.gone() || s.allowed >= wire.MinCharge && !p.of.conn.full()
}

// carry passes on what is ready.
func (l *loop) carry(p *proc) {
	if p.stdinAt >= 0 && l.polled[p.stdinAt].revents != 0 {
		p.feed()
	}
	for i := range p.streams {
		switch s := &p.streams[i]; {
		case s.at < 0:
		case l.polled[s.at].revents != 0:
			l.read(p, s)
		default:
			s.rest = 0 // it is empty
		}
	}
	p.tellRest()
}

// tellRest tells once that all is sent that the process itself can have written.
func (p *proc) tellRest() {
	if p.ended && !p.rested && p.streams[0].rest <= 0 && p.streams[1].rest <= 0 {
		p.rested = true
		p.of.send(wire.Rested, p.id, nil)
	}
}

// read reads some of a stream, once: others have their turn.
func (l *loop) read(p *proc, s *stream) {
	if s.fd < 0 || !p.takes(s) {
		return
	}
	most := wire.MaxData
	if !p.of.gone() {
		most = min(most, s.allowed)
	}
	n, err := syscall.Read(s.fd, l.buffer[wire.DataAt:wire.DataAt+most])
	switch {
	case err == syscall.EAGAIN || err == syscall.EINTR:
	case p.leaves(err):
	case n <= 0: // a terminal's end is EIO
		syscall.Close(s.fd)
		s.fd, s.rest = -1, 0
		p.of.send(wire.Ended, p.id, []byte{byte(s.kind)})
	case !p.of.gone():
		if n == wire.MaxData && !s.wide {
			s.wide = true
			widen(s.fd)
		}
		s.rest -= n
		s.allowed -= wire.Charge(n)
		p.of.conn.send(packet{text: wire.PutData(l.buffer[:], s.kind, p.id, n, l.config.Alone)})
	}
}

// feed writes to the process what it reads.
func (p *proc) feed() {
	if p.stdin < 0 {
		return
	}
	for len(p.unread) > 0 {
		n, err := syscall.Write(p.stdin, p.unread)
		if err == syscall.EINTR {
			continue
		}
		if err == syscall.EAGAIN {
			return
		}
		if err != nil { // no process reads it any more
			p.closeStdin()
			p.of.send(wire.Ended, p.id, []byte{byte(wire.Stdin)})
			return
		}
		p.unread = p.unread[n:]
		p.of.send(wire.Allowed, p.id, wire.AppendUint32(nil, uint32(n)))
	}
	p.unread = nil
	if p.last {
		p.closeStdin()
	}
}

func (p *proc) closeStdin() {
	if p.stdin >= 0 {
		syscall.Close(p.stdin)
	}
	p.stdin, p.unread = -1, nil
}

// handle does what the client asks of this process.
func (p *proc) handle(kind wire.Kind, body []byte) {
	switch kind {
	case wire.Stdin:
		if p.stdin >= 0 && !p.last && len(p.unread)+len(body) <= wire.Window {
			p.unread = append(p.unread, body...)
			p.of.conn.garbage += 2 * len(p.unread)
			p.feed()
		}
	case wire.EndStdin:
		p.last = true
		p.feed()
	case wire.Allow:
		p.allow(body)
	case wire.Resize:
		if size, ok := wire.DecodeSize(body); ok && p.terminal && p.streams[0].fd >= 0 {
			resize(p.streams[0].fd, size)
			p.tellResized()
		}
	case wire.Release:
		p.release()
	}
}

func (p *proc) allow(body []byte) {
	if len(body) != 5 {
		return
	}
	more, _ := wire.Uint32(body[1:])
	for i := range p.streams {
		if s := &p.streams[i]; byte(s.kind) == body[0] {
			s.allowed = min(wire.Window, s.allowed+int(min(more, wire.Window)))
		}
	}
}

// release closes our ends: who writes to them gets SIGPIPE, a terminal hangs up.
func (p *proc) release() {
	p.closeStdin()
	p.away = time.Time{}
	for i := range p.streams {
		if s := &p.streams[i]; s.fd >= 0 {
			syscall.Close(s.fd)
			s.fd, s.rest = -1, 0
		}
	}
}

// exited is called once the process has been reaped.
func (l *loop) exited(p *proc, status syscall.WaitStatus) {
	code := status.ExitStatus()
	if status.Signaled() {
		code = 128 + int(status.Signal())
	}
	delete(l.procs, p.pid)
	p.ended, p.away = true, time.Time{}
	l.ended = append(l.ended, p)
	p.gatherEnd()
	p.of.send(wire.Exited, p.id, wire.ExitedAnswer{Status: uint32(code), When: time.Now().UnixNano()}.Encode(nil))
	for i := range p.streams {
		if s := &p.streams[i]; s.fd >= 0 { // what was polled was so before
			s.rest, s.at = maxRest, -1
		}
	}
	at := job{of: p.of}
	for _, request := range p.later {
		if j, ok := l.looking(p.of, request); ok {
			at.all = append(at.all, j)
		}
	}
	if p.later = nil; at.all != nil {
		l.queue = append(l.queue, at)
	}
}

// forget drops processes of which there will be no more news.
func (l *loop) forget() {
	kept := l.ended[:0]
	for _, p := range l.ended {
		if p.streams[0].fd >= 0 || p.streams[1].fd >= 0 {
			kept = append(kept, p)
			continue
		}
		p.closeStdin()
		if !p.of.gone() {
			delete(p.of.conn.procs, p.id)
		}
	}
	clear(l.ended[len(kept):])
	l.ended = kept
}
