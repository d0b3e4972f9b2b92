package listen

import (
	"container/list"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// crowd is a socket with a bound on its open connections. A new one replaces the one
// that is idle for longest; where all are in use, it is closed.
type crowd struct {
	net.Listener
	most  int
	stall *time.Duration

	mu   sync.Mutex
	open int
	idle list.List // of *conn, the longest idle one first
}

// conn is a connection of a crowd. Its writes have their time: a client that does not
// read would hold an answer in memory for as long as it likes.
type conn struct {
	net.Conn
	crowd *crowd
	place *list.Element // in crowd.idle; nil while a request is answered
	left  bool

	timed atomic.Bool // the server has set a deadline for writing

	reading sync.Mutex // of SetReadDeadline
	ended   bool       // a Read was given up
}

// Accept implements net.Listener.
func (c *crowd) Accept() (net.Conn, error) {
	for {
		raw, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		admitted, replaced := c.admit(raw)
		if replaced != nil {
			replaced.Close()
		}
		if admitted != nil {
			return admitted, nil
		}
		raw.Close()
	}
}

func (c *crowd) admit(raw net.Conn) (admitted, replaced *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open >= c.most {
		oldest := c.idle.Front()
		if oldest == nil {
			return nil, nil
		}
		replaced = oldest.Value.(*conn)
		c.leave(replaced)
	}
	c.open++
	admitted = &conn{Conn: raw, crowd: c}
	admitted.place = c.idle.PushBack(admitted)
	return admitted, replaced
}

// leave takes the connection out of the count, once. c.mu is held.
func (c *crowd) leave(from *conn) {
	if from.left {
		return
	}
	from.left = true
	c.open--
	c.busy(from)
}

func (c *crowd) busy(who *conn) {
	if who.place != nil {
		c.idle.Remove(who.place)
		who.place = nil
	}
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.crowd.mu.Lock()
	c.crowd.leave(c)
	c.crowd.mu.Unlock()
	return c.Conn.Close()
}

// track is a server's ConnState.
func track(of net.Conn, state http.ConnState) {
	if secured, ok := of.(interface{ NetConn() net.Conn }); ok {
		of = secured.NetConn()
	}
	c, ok := of.(*conn)
	if !ok {
		return
	}
	c.crowd.mu.Lock()
	defer c.crowd.mu.Unlock()
	switch {
	case state == http.StateActive:
		c.crowd.busy(c)
	case state == http.StateIdle && !c.left && c.place == nil:
		c.place = c.crowd.idle.PushBack(c)
	}
}

// maxWrite is how much must get through in one stall time.
const maxWrite = 64 << 10

// Write implements net.Conn.
func (c *conn) Write(p []byte) (n int, err error) {
	for {
		if !c.timed.Load() {
			_ = c.Conn.SetWriteDeadline(time.Now().Add(*c.crowd.stall)) // fails with the write
		}
		m, err := c.Conn.Write(p[n:min(len(p), n+maxWrite)])
		if n += m; err != nil || n >= len(p) {
			return n, err
		}
	}
}

// SetReadDeadline implements net.Conn. A deadline that has passed gives up the Read, until there is
// none: who sets another one at the same moment, as body does, does not know of that.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.reading.Lock()
	defer c.reading.Unlock()
	if c.ended = !t.IsZero() && (c.ended || !t.After(time.Now())); c.ended {
		t = time.Unix(1, 0)
	}
	return c.Conn.SetReadDeadline(t)
}

// SetWriteDeadline implements net.Conn. A deadline of the handler's goes first.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.timed.Store(!t.IsZero())
	return c.Conn.SetWriteDeadline(t)
}

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}
