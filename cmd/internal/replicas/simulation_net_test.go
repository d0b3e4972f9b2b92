package replicas_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"
)

// way is one direction of a connection: what is written arrives later, in order, also once its writer has closed the connection.
type way struct {
	mu      sync.Mutex
	parts   []part
	last    time.Time     // nothing arrives before
	until   time.Time     // the reader's deadline
	closed  bool          // by the reader
	changed chan struct{} // is closed at the next change
}

type part struct {
	at   time.Time
	text []byte
	err  error
}

func newWay() *way { return &way{changed: make(chan struct{})} }

func (w *way) change(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *way) add(p part) {
	w.change(func() {
		if p.at.Before(w.last) {
			p.at = w.last
		}
		w.last, w.parts = p.at, append(w.parts, p)
	})
}

// take reads what has arrived, or says how long there is nothing, 0 for until a change, if changed is not nil.
func (w *way) take(b []byte) (n int, nothing time.Duration, changed chan struct{}, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	switch {
	case w.closed:
		return 0, 0, nil, net.ErrClosed
	case !w.until.IsZero() && !now.Before(w.until):
		return 0, 0, nil, os.ErrDeadlineExceeded
	case len(w.parts) > 0 && !w.parts[0].at.After(now):
		p := &w.parts[0]
		if p.err != nil {
			return 0, 0, nil, p.err
		}
		n = copy(b, p.text)
		if p.text = p.text[n:]; len(p.text) == 0 {
			w.parts = w.parts[1:]
		}
		return n, 0, nil, nil
	}
	next := w.until
	if len(w.parts) > 0 && (next.IsZero() || w.parts[0].at.Before(next)) {
		next = w.parts[0].at
	}
	if !next.IsZero() {
		nothing = next.Sub(now)
	}
	return 0, nothing, w.changed, nil
}

// conn is an end of a connection. at is whose it is, nil for a caller.
type conn struct {
	world   *world
	at, to  *node
	in, out *way
	other   *conn
}

func (c *conn) Read(b []byte) (int, error) {
	for {
		c.at.awake()
		n, nothing, changed, err := c.in.take(b)
		if changed == nil {
			return n, err
		}
		if nothing == 0 {
			<-changed
			continue
		}
		t := time.NewTimer(nothing)
		select {
		case <-changed:
		case <-t.C:
		}
		t.Stop()
	}
}

// Write does not wait while its node stands still, as what is written arrives after that: net/http has a mutex locked meanwhile, and where
// another one waits for a mutex no time passes in a bubble.
func (c *conn) Write(b []byte) (int, error) {
	c.in.mu.Lock()
	closed := c.in.closed
	c.in.mu.Unlock()
	if closed || c.at.isDead() {
		return 0, net.ErrClosed
	}
	at := c.world.arrival(c.at, c.to)
	if until := c.at.stands(); at.Before(until) {
		at = until
	}
	c.out.add(part{at: at, text: append([]byte(nil), b...)})
	return len(b), nil
}

func (c *conn) Close() error {
	var again bool
	c.in.change(func() { again, c.in.closed = c.in.closed, true })
	if !again && !c.at.isDead() {
		c.out.add(part{at: c.world.arrival(c.at, c.to), err: io.EOF})
	}
	c.world.forget(c)
	return nil
}

// fail breaks an end. What has not arrived is lost, or not.
func (c *conn) fail(at time.Time, lose bool) {
	if lose {
		c.in.change(func() { c.in.parts = nil })
	}
	c.in.add(part{at: at, err: syscall.ECONNRESET})
}

func (c *conn) LocalAddr() net.Addr              { return pipeAddr{} }
func (c *conn) RemoteAddr() net.Addr             { return pipeAddr{} }
func (c *conn) SetWriteDeadline(time.Time) error { return nil }
func (c *conn) SetDeadline(t time.Time) error    { return c.SetReadDeadline(t) }
func (c *conn) SetReadDeadline(t time.Time) error {
	c.in.change(func() { c.in.until = t })
	return nil
}

type pipeAddr struct{}

func (pipeAddr) Network() string { return "tcp" }
func (pipeAddr) String() string  { return "10.0.0.1:1" }

// listener is a node's.
type listener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *listener) Addr() net.Addr { return pipeAddr{} }

// dialTime is how long a connection may take to be there, as that of replicas.
const dialTime = 3 * time.Second

var errNoAnswer = errors.New("no answer")

// dialer connects a node, or a caller, to others.
func (w *world) dialer(from *node) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, address string) (net.Conn, error) {
		from.awake()
		ctx, cancel := context.WithTimeout(ctx, dialTime)
		defer cancel()
		w.mu.Lock()
		to := w.at[netip.MustParseAddrPort(address).Addr()]
		w.mu.Unlock()
		if from.isDead() {
			return nil, net.ErrClosed
		}
		select {
		case <-time.After(time.Until(w.connected(from, to))):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if to.isDead() || to.isClosed() {
			if to.isDead() && w.chance(0.5) {
				<-ctx.Done()
				return nil, errNoAnswer
			}
			return nil, syscall.ECONNREFUSED
		}
		there, back := newWay(), newWay()
		near := &conn{world: w, at: from, to: to, in: back, out: there}
		far := &conn{world: w, at: to, to: from, in: there, out: back, other: near}
		near.other = far
		w.mu.Lock()
		w.conns[near], w.conns[far] = true, true
		w.mu.Unlock()
		if to.isDead() { // since
			near.fail(time.Now(), true)
		}
		select {
		case to.listener.conns <- far:
			return near, nil
		default:
			return nil, syscall.ECONNREFUSED
		}
	}
}

func (w *world) forget(c *conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.conns, c)
}

// link is how the network is between two.
type link struct {
	frozen time.Time // until then nothing arrives
	slow   time.Duration
}

type pair struct{ from, to *node }

// connected is when a connection that is asked for now is there: no slow link keeps it from that.
func (w *world) connected(from, to *node) time.Time {
	return w.there(from, to, time.Second)
}

// arrival is when something sent now is there.
func (w *world) arrival(from, to *node) time.Time {
	return w.there(from, to, time.Hour)
}

func (w *world) there(from, to *node, slowest time.Duration) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := time.Now().Add(time.Duration(w.random.IntN(3)) * time.Millisecond)
	if w.calm {
		return at
	}
	l := w.links[pair{from, to}]
	if l.slow > 0 {
		at = at.Add(time.Duration(w.random.Int64N(int64(min(l.slow, slowest)))))
	}
	if at.Before(l.frozen) {
		at = l.frozen
	}
	return at
}

// breakAll breaks connections of a node.
func (w *world) breakAll(of *node, late time.Duration) {
	w.mu.Lock()
	var all []*conn
	for c := range w.conns {
		if c.at == of {
			all = append(all, c)
		}
	}
	w.mu.Unlock()
	for _, c := range all {
		c.fail(time.Now(), true)
		c.other.fail(time.Now().Add(late), w.chance(0.5))
	}
}
