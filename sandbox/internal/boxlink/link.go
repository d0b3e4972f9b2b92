package boxlink

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"belljar/internal/boxinit/wire"

	"golang.org/x/time/rate"
)

// Link is a connection to an init.
type Link struct {
	conn   io.ReadWriteCloser
	files  *fileReader // where descriptors come with the answers, nil with frames
	nonce  []byte
	out    chan []byte
	done   chan struct{} // closed when the link broke or was closed
	joined sync.WaitGroup

	heard atomic.Uint64 // counts what came from the init
	pace  *rate.Limiter // of output, nil for none

	mu    sync.Mutex
	err   error // why, once done is closed
	last  uint32
	calls map[uint32]*call
	procs map[uint32]*Process
}

var (
	// ErrClosed is of a link that was closed by Close.
	ErrClosed = errors.New("the link was closed")
	// ErrVersion is of an init that speaks another version of the protocol.
	ErrVersion = errors.New("the container's init is of another version")
	// ErrGarbled is of a connection that another one wrote into.
	ErrGarbled = errors.New("a request was changed on its way to the container's init")
	// ErrUnanswered is of an init that does not answer any more, and that Watch asked.
	ErrUnanswered = errors.New("the container's init stopped answering")
	// errProtocol is of an init that breaks the protocol.
	errProtocol = errors.New("the container's init sent what it may not")
)

// Frames is a link over the init's stdin and stdout. Reading must not return what the
// init writes to its stderr.
func Frames(conn io.ReadWriteCloser) *Link { return open(conn, conn, nil) }

// Socket is a link over a Unix socket. It takes over the connection.
func Socket(conn *net.UnixConn) *Link {
	files := &fileReader{conn: conn}
	return open(conn, files, files)
}

func open(conn io.ReadWriteCloser, from io.Reader, files *fileReader) *Link {
	l := &Link{
		conn: conn, files: files, nonce: make([]byte, wire.NonceSize),
		out: make(chan []byte), done: make(chan struct{}), calls: map[uint32]*call{}, procs: map[uint32]*Process{},
	}
	rand.Read(l.nonce)
	l.joined.Go(func() { l.fail(l.read(bufio.NewReaderSize(from, wire.Header+wire.MaxFrame))) })
	l.joined.Go(l.write)
	return l
}

// start starts a goroutine that Close joins, unless the link is at its end.
func (l *Link) start(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return false
	}
	l.joined.Go(f)
	return true
}

// fail ends the link.
func (l *Link) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failLocked(err)
}

func (l *Link) failLocked(err error) {
	if errors.Is(err, syscall.ECONNRESET) { // it ended before it had read everything
		err = io.EOF
	}
	if l.err == nil {
		l.err = err
		close(l.done)
		l.conn.Close()
	}
}

// Done is closed when the link broke or was closed.
func (l *Link) Done() <-chan struct{} { return l.done }

// Err is why Done is closed: io.EOF where the init ended.
func (l *Link) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Close ends the link and joins its goroutines. An init without a deadline ends then.
func (l *Link) Close() error {
	l.fail(ErrClosed)
	l.joined.Wait()
	if l.files != nil {
		closeAll(l.files.files)
	}
	return nil
}

// write sends requests. Only it writes to the connection. If that fails, the init has ended and
// its last words may still be there to be read.
func (l *Link) write() {
	var failed error
	late := make(<-chan time.Time)
	for {
		select {
		case line := <-l.out:
			if failed != nil {
				continue
			}
			if _, failed = l.conn.Write(l.withWaiting(line)); failed != nil {
				late = time.After(lastWords)
			}
		case <-late:
			l.fail(fmt.Errorf("writing to the container's init: %w", failed))
		case <-l.done:
			return
		}
	}
}

// withWaiting adds the requests that wait to be sent: to who carries them on, each write may be a message.
func (l *Link) withWaiting(text []byte) []byte {
	for len(text) < wire.MaxFrame {
		select {
		case line := <-l.out:
			text = append(text, line...)
		default:
			return text
		}
	}
	return text
}

// lastWords is how long an init that takes no more requests may take to end.
const lastWords = 2 * time.Second

// send sends a request. It does not wait for its arrival.
func (l *Link) send(ctx context.Context, kind wire.Kind, id uint32, body []byte) error {
	return l.sendLine(ctx, wire.AppendLine(nil, l.nonce, kind, id, body))
}

func (l *Link) sendLine(ctx context.Context, line []byte) error {
	select {
	case l.out <- line:
		return nil
	case <-l.done:
		return l.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Hello begins. What the init did for an earlier client is no more heard of: its processes run on. It is said again while
// there is no answer: containerd carries stdin before it carries stdout, and what the init says in between is lost.
func (l *Link) Hello(ctx context.Context) error {
	for wait := helloAgain; ; wait *= 2 {
		soon, cancel := context.WithTimeout(ctx, wait)
		_, err := l.ask(soon, func(id uint32) error {
			return l.sendLine(soon, wire.AppendLine([]byte{'\n'}, l.nonce, wire.Hello, id, l.nonce))
		})
		late := soon.Err() != nil && ctx.Err() == nil
		cancel()
		if err == nil || !late || !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
}

// helloAgain is how long the first hello may go unanswered, and the next ones twice as long each.
const helloAgain = time.Second

// Answers reports whether the init answers.
func (l *Link) Answers(ctx context.Context) bool { return l.do(ctx, wire.Ping, nil) == nil }

// Pace bounds how much output is taken: that many bytes at once, and then so many a second.
func (l *Link) Pace(burst, perSecond int) { l.pace = rate.NewLimiter(rate.Limit(perSecond), burst) }

// Watch asks the init that often whether it is there, until the link's end, which two questions without an answer in a row
// are: who carries the connection may hold it for hours after the other end is gone, or end one that nothing is said on. An answer that comes
// late, behind much output, is no missing one: the output comes meanwhile.
func (l *Link) Watch(each time.Duration) {
	l.start(func() {
		tick := time.NewTicker(each)
		defer tick.Stop()
		for unanswered := 0; unanswered < 2; { // where this process stood still meanwhile, one question may seem to be
			select {
			case <-tick.C:
			case <-l.done:
				return
			}
			ctx, cancel := context.WithTimeout(context.Background(), each)
			before := l.heard.Load()
			if unanswered++; l.Answers(ctx) || l.heard.Load() != before {
				unanswered = 0
			}
			cancel()
		}
		l.fail(ErrUnanswered)
	})
}

// StopAll stops all processes but the init: what List returns then is exact.
func (l *Link) StopAll(ctx context.Context) error { return l.do(ctx, wire.Stop, nil) }

// ContinueAll continues all processes.
func (l *Link) ContinueAll(ctx context.Context) error { return l.do(ctx, wire.Continue, nil) }

// KillAll kills all processes but the init, and returns once they are gone: the
// kernel's counters are final then.
func (l *Link) KillAll(ctx context.Context) error { return l.do(ctx, wire.Kill, nil) }

// End is KillAll, and then the init ends, and with it the container.
func (l *Link) End(ctx context.Context) error {
	if err := l.do(ctx, wire.End, nil); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	select {
	case <-l.done: // its connection ends with it
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Stay makes the init outlive its first connection, up to its deadline.
func (l *Link) Stay(ctx context.Context) error { return l.do(ctx, wire.Stay, nil) }

// Leave ends what the init does for this client, as the end of its connection would: for a
// connection that has none.
func (l *Link) Leave(ctx context.Context) error { return l.do(ctx, wire.Leave, nil) }

// Signal sends a signal to the process that has the PID inside the container since startTicks,
// and to no other. One that is gone is no error. Signal 0 only looks.
func (l *Link) Signal(ctx context.Context, pid int, startTicks int64, signal syscall.Signal) error {
	s := wire.SignalRequest{PID: uint32(pid), StartTicks: uint64(startTicks), Signal: uint32(signal)}
	return l.do(ctx, wire.Signal, s.Encode(nil))
}
