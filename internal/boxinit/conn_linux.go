package boxinit

import (
	"syscall"
	"time"

	"belljar/internal/boxinit/wire"
)

// conn is a connection. It has one client after the other.
type conn struct {
	in, out int  // -1 once at its end
	first   bool // the one that was there at the start
	passes  bool // descriptors, instead of frames of data
	turn    int  // counts its clients; 0: there was none
	procs   map[uint32]*proc
	later   map[uint32][]wire.Request // what is asked at the end of processes that are yet to start
	lines   wire.Lines
	unsent  []packet
	until   time.Time // they wait for others till then, see gather
	size    int       // of unsent, in bytes
	spare   []byte    // memory of what was sent, for the next that must wait
	garbage int       // bytes allocated, about, since that was last counted
	inAt    int       // in the polled files, -1 if not
	wide    bool      // out holds more than the kernel's default, if it is a pipe
}

// packet is what is sent at once.
type packet struct {
	text  []byte
	files []int  // go with the first byte, and are closed then
	all   []byte // where text began
}

// maxSpare is how much memory is kept for the next packet.
const maxSpare = 256 << 10

const (
	// enough is how much may wait to be sent before no more output is read.
	enough = 64 << 10
	// tooMuch is how much may wait before no more requests are read.
	tooMuch = 4 << 20
)

// client is who asked, at the time. A conn may have another client since.
type client struct {
	conn *conn
	turn int
}

func (c client) gone() bool { return c.conn.turn != c.turn }

// send answers, if the client is still there.
func (c client) send(kind wire.Kind, id uint32, body []byte) {
	if !c.gone() {
		c.conn.garbage += len(body) + perTurn
		c.conn.send(packet{text: wire.AppendFrame(nil, kind, id, body)})
	}
}

func (c *conn) poll(l *loop) {
	c.inAt = -1
	if c.in >= 0 {
		c.inAt = len(l.polled)
		l.polled = append(l.polled, pollFD{fd: int32(c.in)}) // also without events its end is seen
		if c.size < tooMuch {
			l.polled[c.inAt].events = pollIn
		}
	}
	if c.size > 0 && !c.gathers() {
		l.add(c.out, pollOut)
	}
}

// full reports whether output must wait.
func (c *conn) full() bool { return c.size > enough }

// together is what is small enough to wait for the end of the loop's turn.
const together = 4 << 10

// send sends the packet, or as much of it as goes without waiting. Small ones are sent together, at the end of the loop's turn: to who
// carries frames on, each write may be a message.
func (c *conn) send(p packet) {
	if len(p.text) > together || len(p.files) > 0 {
		c.flush()
		if len(c.unsent) == 0 && !c.try(&p) {
			return
		}
	}
	if len(p.text) == 0 || c.out < 0 {
		return
	}
	c.size += len(p.text)
	if last := len(c.unsent) - 1; last >= 0 && len(p.files) == 0 {
		c.grow(&c.unsent[last], p.text)
		return
	}
	text := p.text // may be the loop's buffer
	p.text, p.all, c.spare = c.spare[:0], c.spare, nil
	c.grow(&p, text)
	c.unsent = append(c.unsent, p)
}

// grow appends to a packet.
func (c *conn) grow(p *packet, text []byte) {
	before := cap(p.text)
	p.text = append(p.text, text...)
	if cap(p.text) > before {
		c.garbage += cap(p.text)
		p.all = p.text
	}
}

// try sends what goes without waiting, and reports whether the connection works.
func (c *conn) try(p *packet) bool {
	for c.out >= 0 && len(p.text) > 0 {
		n, err := c.write(p)
		switch errnoOf(err) {
		case 0:
			p.text = p.text[n:]
			closeAll(p.files)
			p.files = nil
		case syscall.EINTR:
		case syscall.EAGAIN:
			if c.wide {
				return true
			}
			c.wide = true // a frame and its header are more than a pipe holds by default
			widen(c.out)
		case syscall.EPIPE, syscall.ECONNRESET:
			c.out = -1 // its reader is gone; its writer may say more
		default: // as where the kernel takes no more descriptors on their way: who waits for the answer hears of it
			syscall.Shutdown(c.out, syscall.SHUT_RDWR)
			c.out = -1
		}
	}
	if c.out < 0 {
		closeAll(p.files)
		p.text, p.files = nil, nil
	}
	return c.out >= 0
}

func (c *conn) write(p *packet) (int, error) {
	if len(p.files) == 0 {
		return syscall.Write(c.out, p.text)
	}
	return syscall.SendmsgN(c.out, p.text, syscall.UnixRights(p.files...), nil, syscall.MSG_NOSIGNAL)
}

// flush sends what waits.
func (c *conn) flush() {
	for len(c.unsent) > 0 {
		p := &c.unsent[0]
		before := len(p.text)
		works := c.try(p)
		c.size -= before - len(p.text)
		if !works {
			for _, p := range c.unsent {
				closeAll(p.files)
			}
			c.unsent, c.size = nil, 0
			return
		}
		if len(p.text) > 0 {
			return
		}
		if cap(p.all) <= maxSpare {
			c.spare = p.all[:0]
		}
		c.unsent = c.unsent[1:]
	}
	c.unsent = nil
}

func closeAll(files []int) {
	for _, fd := range files {
		syscall.Close(fd)
	}
}

func (l *loop) flush() {
	for _, c := range l.conns {
		if !c.gathers() {
			c.gathered()
			c.flush()
		}
	}
}

// serve reads requests.
func (l *loop) serve(c *conn) {
	if c.inAt < 0 || l.polled[c.inAt].revents == 0 {
		return
	}
	if l.polled[c.inAt].events == 0 { // its client is gone, and reads nothing of what waits
		l.hangUp(c)
		return
	}
	n, err := syscall.Read(c.in, l.buffer[:])
	switch {
	case err == syscall.EAGAIN || err == syscall.EINTR:
	case n <= 0:
		l.hangUp(c)
	default:
		l.garbage += n
		for text := l.buffer[:n]; len(text) > 0; {
			request, rest, ok := c.lines.Feed(text)
			if ok {
				l.handle(c, request)
			}
			text = rest
		}
	}
}

// hangUp is called at the end of a connection. That of the first one is the end of everything,
// unless a client asked that it runs on (wire.Stay).
func (l *loop) hangUp(c *conn) {
	if c.first && !l.stays {
		l.exit()
	}
	l.leave(c)
	if !c.passes {
		c.in = -1
		return
	}
	syscall.Close(c.in)
	c.in, c.out = -1, -1
	c.flush()
	for i := range l.conns {
		if l.conns[i] == c {
			l.conns = append(l.conns[:i], l.conns[i+1:]...)
			return
		}
	}
}

// leave ends the turn of a client. Its processes run on: their output is read and dropped.
func (l *loop) leave(c *conn) {
	c.turn++
	c.procs, c.later = map[uint32]*proc{}, map[uint32][]wire.Request{}
	l.each(func(p *proc) {
		if p.of.conn == c {
			p.closeStdin()
		}
	})
}

// door is where further clients come.
type door struct {
	listener int       // -1 without one
	at       int       // in the polled files, -1 if not
	deaf     time.Time // until when no client is taken
	lonely   time.Time // when the init ends if none has come by then; zero: one has, or it does not
}

// acceptPause is how long clients wait where no more files may be open: looking for them all the time would take all
// processor time.
const acceptPause = 50 * time.Millisecond

// listens looks for new clients.
func (l *loop) listens() {
	l.door.at = -1
	if l.door.listener >= 0 && !time.Now().Before(l.door.deaf) {
		l.door.at = len(l.polled)
		l.add(l.door.listener, pollIn)
	}
}

// accept takes new clients.
func (l *loop) accept() {
	if l.door.at < 0 || l.polled[l.door.at].revents == 0 {
		return
	}
	for {
		fd, err := l.acceptOne()
		if err != nil {
			if errno := errnoOf(err); errno != syscall.EAGAIN && errno != syscall.EINTR {
				l.door.deaf = time.Now().Add(acceptPause)
			}
			return
		}
		l.conns = append(l.conns, &conn{in: fd, out: fd, passes: true, inAt: -1})
	}
}

// acceptOne leaves a client waiting that would get one of the init's own files.
func (l *loop) acceptOne() (int, error) {
	next, err := dup(l.door.listener)
	if err != nil {
		return -1, err
	}
	syscall.Close(next)
	if next >= l.worker.files {
		return -1, syscall.EMFILE
	}
	fd, _, err := syscall.Accept4(l.door.listener, syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC)
	return fd, err
}
