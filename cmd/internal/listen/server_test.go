package listen

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"belljar/cmd/internal/problem"
)

// pipes is a listener whose connections are in memory, so that they run on a test's own
// clock.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	conn, open := <-p
	if !open {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (p pipes) Close() error {
	close(p)
	return nil
}

func (p pipes) Addr() net.Addr { return &net.UnixAddr{Net: "unix"} }

func (p pipes) dial() net.Conn {
	client, server := net.Pipe()
	p <- server
	return client
}

// withClock runs a test with a server that has the usual times.
func withClock(t *testing.T, handler http.Handler, test func(t *testing.T, dial func() net.Conn)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sockets := make(pipes)
		l := Config{Connections: 10, Log: quiet}.listener([]net.Listener{sockets}, nil)
		server := l.Server(handler)
		done := make(chan error)
		go func() { done <- l.Serve(server) }()
		synctest.Wait()
		test(t, sockets.dial)
		if err := errors.Join(server.Close(), <-done); err != nil {
			t.Error(err)
		}
	})
}

// answer reads all that comes until the server closes the connection, and for how long.
func answer(t *testing.T, conn net.Conn) (string, time.Duration) {
	t.Helper()
	begin := time.Now()
	text, err := io.ReadAll(conn)
	if err != nil {
		t.Error(err)
	}
	return string(text), time.Since(begin)
}

// feed writes the text again and again, until the server closes the connection. It
// returns how often it could.
func feed(conn net.Conn, text string, every time.Duration) int {
	for n := 0; ; n++ {
		time.Sleep(every)
		if _, err := io.WriteString(conn, text); err != nil {
			return n
		}
	}
}

func TestSlowHeader(t *testing.T) {
	withClock(t, hello, func(t *testing.T, dial func() net.Conn) {
		silent := dial()
		if text, took := answer(t, silent); text != "" || took != 5*time.Second {
			t.Errorf("%q after %v", text, took)
		}
		dripping := dial()
		io.WriteString(dripping, "GET / HTTP/1.1\r\n")
		if n := feed(dripping, "X", time.Second); n < 4 || n > 5 { // the fifth comes as the time ends
			t.Errorf("%d bytes of a header, one a second", n)
		}
		dripping.Close()
	})
}

func TestLargeHeader(t *testing.T) {
	withClock(t, hello, func(t *testing.T, dial func() net.Conn) {
		conn := dial()
		go io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nX: "+strings.Repeat("x", maxHeader+8<<10)+"\r\n\r\n")
		if text, _ := answer(t, conn); !strings.HasPrefix(text, "HTTP/1.1 431 ") {
			t.Error(text)
		}
		conn.Close()
	})
}

func TestIdle(t *testing.T) {
	withClock(t, hello, func(t *testing.T, dial func() net.Conn) {
		conn := dial()
		io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		if text, took := answer(t, conn); !strings.HasSuffix(text, "hello") || took != time.Minute {
			t.Errorf("%q after %v", text, took)
		}
	})
}

// It would answer without a check of who asks.
func TestOptions(t *testing.T) {
	withClock(t, hello, func(t *testing.T, dial func() net.Conn) {
		conn := dial()
		io.WriteString(conn, "OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		if text, _ := answer(t, conn); !strings.HasSuffix(text, "hello") {
			t.Error(text)
		}
	})
}

// length reads the body, and answers with its length or a problem.
var length = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	n, err := io.Copy(io.Discard, r.Body)
	if err != nil {
		problem.Of(fmt.Errorf("reading: %w", err)).Write(w)
		return
	}
	fmt.Fprint(w, n)
})

const post = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 102400\r\n\r\n"

func TestSlowBody(t *testing.T) {
	withClock(t, length, func(t *testing.T, dial func() net.Conn) {
		for name, test := range map[string]struct {
			part string
			want time.Duration
		}{
			"silent":            {"", 10 * time.Second},
			"a byte a second":   {"x", 10 * time.Second},
			"half of the speed": {strings.Repeat("x", 512), 19 * time.Second},
		} {
			conn := dial()
			io.WriteString(conn, post)
			begin := time.Now()
			fed := make(chan time.Duration)
			go func() {
				feed(conn, test.part, time.Second)
				fed <- time.Since(begin)
			}()
			text, took := answer(t, conn)
			if !strings.HasPrefix(text, "HTTP/1.1 408 ") || !strings.Contains(text, `"code":"timeout"`) || took < test.want || took > test.want+time.Second {
				t.Errorf("%s: %s after %v", name, text, took)
			}
			conn.Close()
			<-fed
		}
	})
}

// A slow line that is quick enough is not cut, however long it takes.
func TestSteadyBody(t *testing.T) {
	withClock(t, length, func(t *testing.T, dial func() net.Conn) {
		conn := dial()
		io.WriteString(conn, post)
		for range 20 {
			time.Sleep(5 * time.Second)
			io.WriteString(conn, strings.Repeat("x", 5<<10))
		}
		read := bufio.NewReader(conn)
		got, err := http.ReadResponse(read, nil)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(got.Body)
		got.Body.Close()
		if got.StatusCode != http.StatusOK || string(text) != "102400" {
			t.Errorf("%d %s", got.StatusCode, text)
		}
		conn.Close()
	})
}

// Nor is a client for what the handler does between two reads.
func TestSlowHandler(t *testing.T) {
	slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for range 10 {
			time.Sleep(time.Minute)
			if _, err := io.ReadFull(r.Body, make([]byte, 10<<10)); err != nil {
				t.Error(err)
			}
		}
		io.Copy(io.Discard, r.Body)
		time.Sleep(time.Hour) // the client's leaving is noticed by a read that has no deadline
		if r.Context().Err() != nil {
			t.Error("the request was cancelled")
		}
		io.WriteString(w, "done")
	})
	withClock(t, slow, func(t *testing.T, dial func() net.Conn) {
		conn := dial()
		go io.WriteString(conn, post+strings.Repeat("x", 102400))
		if text, _ := answer(t, conn); !strings.HasSuffix(text, "done") {
			t.Error(text)
		}
		conn.Close()
	})
}

// A refusal needs no body, and net/http waits for it before it answers: also that ends.
func TestUnreadBody(t *testing.T) {
	refuse := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusUnauthorized) })
	withClock(t, refuse, func(t *testing.T, dial func() net.Conn) {
		conn := dial()
		io.WriteString(conn, post)
		if text, took := answer(t, conn); !strings.HasPrefix(text, "HTTP/1.1 401 ") || took > 11*time.Second {
			t.Errorf("%q after %v", text, took)
		}
		conn.Close()
	})
}

// A client that does not read its answer is cut, one that reads slowly is not.
func TestUnreadAnswer(t *testing.T) {
	const size = 10 << 20
	var failed chan error
	large := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, err := w.Write(make([]byte, size))
		failed <- err
	})
	withClock(t, large, func(t *testing.T, dial func() net.Conn) {
		failed = make(chan error, 1) // of the test's own clock
		conn := dial()
		io.WriteString(conn, "GET / HTTP/1.0\r\nHost: x\r\n\r\n")
		begin := time.Now()
		if err := <-failed; err == nil || time.Since(begin) != 30*time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		conn.Close()

		conn = dial()
		io.WriteString(conn, "GET / HTTP/1.0\r\nHost: x\r\n\r\n")
		total := 0
		for part := make([]byte, maxWrite); ; time.Sleep(10 * time.Second) {
			n, err := io.ReadFull(conn, part)
			if total += n; err != nil {
				break
			}
		}
		if err := <-failed; err != nil || total < size {
			t.Errorf("%d bytes, %v", total, err)
		}
		conn.Close()
	})
}

// A handler's own deadline is kept.
func TestOwnDeadline(t *testing.T) {
	var failed chan error
	own := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Second))
		_, err := w.Write(make([]byte, 1<<20))
		failed <- err
	})
	withClock(t, own, func(t *testing.T, dial func() net.Conn) {
		failed = make(chan error, 1) // of the test's own clock
		conn := dial()
		io.WriteString(conn, "GET / HTTP/1.0\r\nHost: x\r\n\r\n")
		begin := time.Now()
		if err := <-failed; err == nil || time.Since(begin) != time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		conn.Close()
	})
}

// A connection that a handler takes over, as for a WebSocket, may be silent for hours; a
// write to it still has its time.
func TestTakenOver(t *testing.T) {
	takesOver := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, both, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		io.WriteString(conn, "taken\n")
		line, err := both.ReadString('\n')
		for err == nil {
			_, err = io.WriteString(conn, line)
		}
	})
	for _, body := range []string{"", "Content-Length: 0\r\n", "Content-Length: 5\r\n"} {
		t.Run(body, func(t *testing.T) {
			withClock(t, takesOver, func(t *testing.T, dial func() net.Conn) {
				conn := dial()
				defer conn.Close()
				io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n"+body+"\r\n")
				lines := bufio.NewReader(conn)
				reads := func(want string) {
					t.Helper()
					if line, err := lines.ReadString('\n'); line != want {
						t.Errorf("%q, %v, want %q", line, err, want)
					}
				}
				reads("taken\n")
				time.Sleep(5 * time.Hour)
				io.WriteString(conn, "key\n")
				reads("key\n")
				time.Sleep(29 * time.Second)
				reads("key\n")
				time.Sleep(31 * time.Second)
				reads("")
			})
		})
	}
}
