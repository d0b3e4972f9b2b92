package httpapi_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"belljar/cmd/internal/access"
	"belljar/cmd/internal/executions"
	"belljar/sandbox"
	"belljar/sandbox/sandboxtest"

	"github.com/coder/websocket"
)

// oneConn is a listener with one connection, in memory.
type oneConn struct {
	conn   chan net.Conn
	closed chan struct{}
}

func (o *oneConn) Accept() (net.Conn, error) {
	select {
	case conn := <-o.conn:
		return conn, nil
	case <-o.closed:
		return nil, net.ErrClosed
	}
}

func (o *oneConn) Close() error   { close(o.closed); return nil }
func (o *oneConn) Addr() net.Addr { return &net.UnixAddr{Net: "unix"} }

// onClock starts a command with a terminal, and a client of it whose connection runs on
// the test's clock.
func onClock(t *testing.T, s *sidecar, options websocket.DialOptions) *websocket.Conn {
	t.Helper()
	input, err := executions.NewInput(nil)
	if err == nil {
		err = input.Append(t.Context(), strings.NewReader(""), true) // who reads a pipe stops the clock
	}
	if err != nil {
		t.Fatal(err)
	}
	x, err := s.book.Start(t.Context(), sandbox.Command{
		Script: "play", TTY: &sandbox.TerminalSize{Rows: 10, Columns: 20}, Timeout: time.Hour, IdleTimeout: sandbox.NoIdleTimeout,
	}, executions.Request{Owner: "ann", Input: input})
	if err != nil {
		t.Fatal(err)
	}
	client, server := net.Pipe()
	at := &oneConn{conn: make(chan net.Conn, 1), closed: make(chan struct{})}
	at.conn <- server
	h, _ := s.api.Handler()
	web := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(access.With(r.Context(), callers["ann"])))
	})}
	done := make(chan error)
	go func() { done <- web.Serve(at) }()
	options.HTTPClient = &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return client, nil }}}
	options.Subprotocols = []string{"belljar.tty.v1"}
	conn, _, err := websocket.Dial(t.Context(), "http://x/v1/executions/"+x.ID+"/tty", &options) //nolint:bodyclose // Dial closes it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.CloseNow()
		web.Close()
		<-done
	})
	return conn
}

// A client that never reads is cut off, and the command does not wait for it.
func TestTerminalNeverRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, wrote := time.Now(), make(chan time.Duration, 1)
		s := newAPI(t, func(p *sandboxtest.Proc) int {
			p.Sleep(time.Second)
			for range 100 {
				p.Stdout.Write(make([]byte, 64<<10))
			}
			wrote <- time.Since(began)
			p.Sleep(50 * time.Minute)
			return 0
		})
		onClock(t, s, websocket.DialOptions{})
		s.api.Close() // waits until it is cut
		if took, ready := time.Since(began), <-wrote; took != 31*time.Second || ready != time.Second {
			t.Errorf("it is cut after %v, and the command had written all after %v", took, ready)
		}
	})
}

// A terminal lives without a key, as long as its client answers pings.
func TestTerminalSilent(t *testing.T) {
	for answers, want := range map[bool]time.Duration{true: 50 * time.Minute, false: 135 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			s := newAPI(t, func(p *sandboxtest.Proc) int { p.Sleep(50 * time.Minute); return 0 })
			conn := onClock(t, s, websocket.DialOptions{OnPingReceived: func(context.Context, []byte) bool { return answers }})
			kind, _, err := conn.Read(t.Context())
			if answers && (err != nil || kind != websocket.MessageText) {
				t.Errorf("no result: %v", err)
			}
			if took := time.Since(began); took != want || !answers && err == nil {
				t.Errorf("answers %v: it ends after %v with %v, want %v", answers, took, err, want)
			}
		})
	}
}
