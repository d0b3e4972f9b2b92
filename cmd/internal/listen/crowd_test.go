package listen

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

func opened(t *testing.T, connections int) (*Listener, *crowd, string) {
	t.Helper()
	l, err := Open(t.Context(), Config{Address: "tcp://127.0.0.1:0", Tokens: true, Connections: connections, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	l.times.header = time.Hour // only the bound ends idle connections
	return l, l.sockets[0].(*crowd), l.Addrs()[0].String()
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func (c *crowd) count() (open, idle int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open, c.idle.Len()
}

const request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

// ask sends a request, and reports whether it was answered.
func ask(t *testing.T, conn net.Conn) error {
	t.Helper()
	if _, err := io.WriteString(conn, request); err != nil {
		return err
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && string(text) != "hello" {
		err = errors.New(string(text))
	}
	return err
}

// isCut waits until the server closed the connection.
func isCut(t *testing.T, conn net.Conn) {
	t.Helper()
	if _, err := io.ReadAll(conn); err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Error(err)
	}
}

// Others' idle connections, however many, do not keep a client out, and take little.
func TestIdleConnections(t *testing.T) {
	const connections, most = 10_000, 2048
	limit := syscall.Rlimit{}
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	before := limit
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before) })
	if limit.Max < connections+most+500 {
		t.Fatalf("only %d open files: raise the hard limit", limit.Max)
	}
	l, crowd, address := opened(t, most)
	start(t, l, hello)
	early := dial(t, address)
	if err := ask(t, early); err != nil {
		t.Fatal(err)
	}
	for range connections {
		dial(t, address)
	}
	for range 10 {
		if err := ask(t, dial(t, address)); err != nil {
			t.Errorf("a client among idle connections: %v", err)
		}
	}
	isCut(t, early)
	if open, idle := crowd.count(); open != most || idle > most {
		t.Errorf("%d connections are open, %d of them idle", open, idle)
	}
}

// The one that is idle for longest goes first; one that waits for its answer stays.
func TestLongestIdle(t *testing.T) {
	t.Parallel()
	release, begun := make(chan struct{}), make(chan struct{})
	l, crowd, address := opened(t, 3)
	start(t, l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			begun <- struct{}{}
			<-release
		}
		io.WriteString(w, "hello")
	}))
	wait := func() net.Conn {
		conn := dial(t, address)
		io.WriteString(conn, strings.Replace(request, "/", "/wait", 1))
		<-begun
		return conn
	}
	busy, first, second := wait(), dial(t, address), dial(t, address)
	for _, conn := range []net.Conn{second, first} {
		if err := ask(t, conn); err != nil {
			t.Fatal(err)
		}
	}
	for idle := 0; idle != 2; _, idle = crowd.count() { // the server notes that after its answer
		runtime.Gosched()
	}
	busy2 := wait()
	isCut(t, second)
	busy3 := wait()
	isCut(t, first)

	isCut(t, dial(t, address)) // all are in use
	if open, idle := crowd.count(); open != 3 || idle != 0 {
		t.Errorf("%d connections are open, %d of them idle", open, idle)
	}
	close(release)
	for _, conn := range []net.Conn{busy, busy2, busy3} {
		if answer, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil {
			t.Errorf("a client that waited: %v", err)
		} else {
			answer.Body.Close()
		}
	}
	if err := ask(t, dial(t, address)); err != nil {
		t.Errorf("after all: %v", err)
	}
}

// A connection that the server gives away, as for a WebSocket, counts until it ends.
func TestHijacked(t *testing.T) {
	t.Parallel()
	l, crowd, address := opened(t, 1)
	start(t, l, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		panic("not called: " + r.URL.Path)
	}))
	client, server := net.Pipe()
	defer client.Close()
	taken, _ := crowd.admit(server)
	track(taken, http.StateActive)
	track(taken, http.StateHijacked)
	isCut(t, dial(t, address))
	if err := errors.Join(taken.SetDeadline(time.Now()), taken.Close()); err != nil {
		t.Error(err)
	}
	taken.Close() // again
	track(taken, http.StateIdle)
	if open, idle := crowd.count(); open != 0 || idle != 0 {
		t.Errorf("%d connections are open, %d of them idle", open, idle)
	}
}
