package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"belljar/cmd/internal/access"
	"belljar/sandbox"
	"belljar/sandbox/sandboxtest"

	"github.com/coder/websocket"
)

// onScreen is a client's terminal, and what it shows.
type onScreen struct {
	*websocket.Conn
	t       *testing.T
	shown   []byte // that no one looked at yet
	offset  int64
	after   uint64
	notices []string
	result  *sandbox.Result
}

// begin starts a command with a terminal. It returns its path.
func (s *sidecar) begin(t *testing.T, more fields) string {
	t.Helper()
	body := fields{"command": "play", "tty": fields{"rows": 10, "cols": 20}, "stdin_open": true}
	for name, v := range more {
		body[name] = v
	}
	var accepted struct{ ID string }
	s.get(t, "ann", "POST", "/v1/executions?wait=0", body, 202, &accepted)
	return "/v1/executions/" + accepted.ID
}

func (s *sidecar) dial(t *testing.T, path string, header http.Header, protocols ...string) (*websocket.Conn, *http.Response, error) {
	t.Helper()
	conn, response, err := websocket.Dial(t.Context(), s.URL+path, &websocket.DialOptions{HTTPClient: s.Client(), HTTPHeader: header, Subprotocols: protocols})
	if conn != nil {
		conn.SetReadLimit(-1)
		t.Cleanup(func() { conn.CloseNow() })
	}
	return conn, response, err
}

// sit opens the terminal where an earlier one of the client left it.
func (s *sidecar) sit(t *testing.T, of string, before *onScreen) *onScreen {
	t.Helper()
	o := &onScreen{t: t, offset: before.offset, after: before.after}
	conn, _, err := s.dial(t, fmt.Sprintf("%s/tty?offset=%d&after=%d", of, o.offset, o.after), http.Header{"Caller": {"ann"}}, "belljar.tty.v1") //nolint:bodyclose // Dial closes it
	if err != nil {
		t.Fatal(err)
	}
	if conn.Subprotocol() != "belljar.tty.v1" {
		t.Errorf("subprotocol %q", conn.Subprotocol())
	}
	o.Conn = conn
	return o
}

// next reads a message.
func (o *onScreen) next() error {
	kind, data, err := o.Read(o.t.Context())
	if err != nil {
		return err
	}
	if o.result != nil {
		o.t.Errorf("after the result: %q", data)
	}
	if kind == websocket.MessageBinary {
		o.shown = append(o.shown, data...)
		o.offset += int64(len(data))
		return nil
	}
	var e sandbox.Event
	if err := json.Unmarshal(data, &e); err != nil {
		o.t.Errorf("%q: %v", data, err)
	}
	o.after, o.offset = max(o.after, e.Seq), o.offset+e.LeftOut
	switch e.Type {
	case sandbox.EventNotice:
		o.notices = append(o.notices, string(e.Data))
	case sandbox.EventResult:
		o.result = e.Result
	default:
		o.t.Errorf("%s", data)
	}
	return nil
}

// sees reads until the text is shown.
func (o *onScreen) sees(text string) {
	o.t.Helper()
	for {
		if _, rest, found := bytes.Cut(o.shown, []byte(text)); found {
			o.shown = rest
			return
		}
		if err := o.next(); err != nil {
			o.t.Fatalf("%q is not shown: %v; %q is", text, err, o.shown)
		}
	}
}

// ends reads to the end.
func (o *onScreen) ends(status websocket.StatusCode) {
	o.t.Helper()
	for {
		if err := o.next(); err != nil {
			if websocket.CloseStatus(err) != status {
				o.t.Errorf("it ends with %v, want %v", err, status)
			}
			return
		}
	}
}

func (o *onScreen) sends(kind websocket.MessageType, text string) {
	o.t.Helper()
	if err := o.Write(o.t.Context(), kind, []byte(text)); err != nil {
		o.t.Fatal(err)
	}
}

func (o *onScreen) types(text string)   { o.sends(websocket.MessageBinary, text) }
func (o *onScreen) control(text string) { o.sends(websocket.MessageText, text) }

func TestTerminal(t *testing.T) {
	s := newSidecar(t, func(p *sandboxtest.Proc) int {
		_, resized := p.Sizes()
		got := p.Trap("SIGUSR1")
		two := make([]byte, 2)
		io.ReadFull(p.Stdin, two)
		fmt.Fprintf(p.Stdout, "typed %s\n", two)
		<-resized
		sizes, _ := p.Sizes()
		fmt.Fprintf(p.Stdout, "size %v\n", sizes[1])
		fmt.Fprintf(p.Stdout, "signal %v\n", <-got)
		rest, _ := io.ReadAll(p.Stdin)
		fmt.Fprintf(p.Stdout, "rest %s\n", rest)
		return 3
	})
	of := s.begin(t, nil)
	o := s.sit(t, of, &onScreen{})
	o.types("h")
	o.types("i")
	o.sees("typed hi\r\n")
	o.control(`{"type":"resize","rows":30,"cols":100}`)
	o.sees(fmt.Sprintf("size %v\r\n", sandbox.TerminalSize{Columns: 100, Rows: 30}))
	o.control(`{"type":"signal","signal":"SIGWHAT"}`)
	o.control(`{"type":"signal","signal":"SIGUSR1"}` + "\n")
	o.sees("signal SIGUSR1\r\n")
	o.types("bye")
	o.control(`{"type":"eof"}`)
	o.sees("rest bye\r\n")
	o.ends(websocket.StatusNormalClosure)
	if o.result == nil || o.result.ExitCode != 3 || o.result.Method != "pty" {
		t.Errorf("%+v", o.result)
	}
	if len(o.notices) != 1 || !strings.Contains(o.notices[0], "SIGWHAT") {
		t.Errorf("%q", o.notices)
	}
	again := s.sit(t, of, &onScreen{})
	again.sees("typed hi")
	again.sees("rest bye\r\n")
	again.ends(websocket.StatusNormalClosure)
	if again.result == nil || again.result.ExitCode != 3 {
		t.Errorf("after the end: %+v", again.result)
	}
}

// Who is cut off goes on where it was.
func TestTerminalAgain(t *testing.T) {
	want := make([]byte, 300_000)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range want {
		want[i] = byte('a' + random.IntN(26))
	}
	s := newSidecar(t, func(p *sandboxtest.Proc) int {
		key := make([]byte, 1)
		for at := 0; at < len(want); at += 10_000 {
			p.Stdout.Write(want[at : at+10_000])
			io.ReadFull(p.Stdin, key)
		}
		return 0
	})
	of := s.begin(t, nil)
	o, all, opened := &onScreen{}, []byte(nil), 0
	for o.result == nil {
		o = s.sit(t, of, o)
		opened++
		for range random.IntN(4) {
			o.types("k")
			if o.next() != nil {
				break
			}
		}
		o.CloseNow()
		all = append(all, o.shown...)
	}
	if !bytes.Equal(all, want) {
		t.Errorf("%d bytes, opened %d times", len(all), opened)
	}
}

// Two clients see the same, and their messages do not mix.
func TestTerminalShared(t *testing.T) {
	const messages, size = 100, 3000
	s := newSidecar(t, func(p *sandboxtest.Proc) int {
		io.Copy(p.Stdout, io.LimitReader(p.Stdin, 2*messages*size))
		return 0
	})
	of := s.begin(t, nil)
	clients := []*onScreen{s.sit(t, of, &onScreen{}), s.sit(t, of, &onScreen{})}
	done := make(chan error)
	for i, o := range clients {
		go func() {
			var err error
			for range messages {
				if err == nil {
					err = o.Write(t.Context(), websocket.MessageBinary, bytes.Repeat([]byte{byte('a' + i)}, size))
				}
			}
			done <- err
		}()
		go func() {
			var err error
			for err == nil {
				err = o.next()
			}
			done <- nil
		}()
	}
	for range 4 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if !bytes.Equal(clients[0].shown, clients[1].shown) || len(clients[0].shown) != 2*messages*size {
		t.Errorf("%d and %d bytes", len(clients[0].shown), len(clients[1].shown))
	}
	for shown := clients[0].shown; len(shown) >= size; shown = shown[size:] {
		if bytes.Count(shown[:size], shown[:1]) != size {
			t.Fatal("two messages are mixed")
		}
	}
}

func TestTerminalRefused(t *testing.T) {
	s := newSidecar(t, func(p *sandboxtest.Proc) int { <-p.Killed; return 0 })
	good, noTTY, closed := s.begin(t, nil)+"/tty", s.begin(t, fields{"tty": nil})+"/tty", s.begin(t, fields{"stdin_open": false})+"/tty"
	for name, test := range map[string]struct {
		path, caller, protocol string
		status                 int
	}{
		"another's":       {good, "ben", "belljar.tty.v1", 404},
		"only read":       {good, "reader", "belljar.tty.v1", 403},
		"no protocol":     {good, "ann", "", 426},
		"other protocol":  {good, "ann", "belljar.tty.v2", 426},
		"no terminal":     {noTTY, "ann", "belljar.tty.v1", 422},
		"closed stdin":    {closed, "ann", "belljar.tty.v1", 422},
		"negative offset": {good + "?offset=-1", "ann", "belljar.tty.v1", 422},
		"unknown":         {"/v1/executions/none/tty", "ann", "belljar.tty.v1", 404},
	} {
		_, response, err := s.dial(t, test.path, http.Header{"Caller": {test.caller}}, test.protocol) //nolint:bodyclose // Dial closes it
		if err == nil || response == nil || response.StatusCode != test.status || response.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %v, %v", name, response, err)
		}
	}
	s.get(t, "ann", "GET", good, nil, 426, nil)
}

// A page of another site gets no terminal, also not with a user's token.
func TestTerminalOrigin(t *testing.T) {
	s := newSidecar(t, func(p *sandboxtest.Proc) int { io.Copy(io.Discard, p.Stdin); return 0 })
	of := s.begin(t, nil)
	guard := &access.Guard{Tokens: &access.Tokens{}, Origins: []string{"https://ci.example.com"}, Log: slog.New(slog.DiscardHandler)}
	guarded := httptest.NewUnstartedServer(guard.Wrap(s.Config.Handler))
	guarded.Listener.Close()
	var err error
	if guarded.Listener, err = (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(t.TempDir(), "s")); err != nil {
		t.Fatal(err)
	}
	guarded.Start()
	defer guarded.Close()
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", guarded.Listener.Addr().String())
	}}}
	defer client.CloseIdleConnections()
	for origin, status := range map[string]int{
		"https://evil.example.com": 403, "null": 403, "http://localhost.evil.com": 403,
		"https://ci.example.com": 101, "http://localhost": 101, "": 101,
	} {
		header := http.Header{"Caller": {"ann"}}
		if origin != "" {
			header.Set("Origin", origin)
		}
		conn, response, err := websocket.Dial(t.Context(), "http://localhost"+of+"/tty", &websocket.DialOptions{HTTPClient: client, HTTPHeader: header, Subprotocols: []string{"belljar.tty.v1"}}) //nolint:bodyclose // Dial closes it
		if response == nil || response.StatusCode != status || (conn != nil) != (status == 101) {
			t.Errorf("%s: %v, %v", origin, response, err)
		}
		if conn != nil {
			conn.CloseNow()
		}
	}
}

// cancel_on_disconnect: the last of its terminals counts.
func TestTerminalDisconnect(t *testing.T) {
	s := newSidecar(t, func(p *sandboxtest.Proc) int {
		key := make([]byte, 1)
		for {
			if _, err := p.Stdin.Read(key); err != nil || key[0] == 'q' {
				return 0
			}
			p.Stdout.Write(key)
		}
	})
	for _, cancel := range []bool{false, true} {
		of := s.begin(t, fields{"cancel_on_disconnect": cancel})
		first, second := s.sit(t, of, &onScreen{}), s.sit(t, of, &onScreen{})
		second.types("a")
		second.sees("a")
		first.sees("a")
		first.Close(websocket.StatusNormalClosure, "")
		second.types("b")
		second.sees("b")
		second.CloseNow()
		if !cancel {
			third := s.sit(t, of, second)
			third.types("q")
			third.ends(websocket.StatusNormalClosure)
		}
		var x struct{ Result sandbox.Result }
		s.get(t, "ann", "GET", of+"?wait=60", nil, 200, &x)
		if want := map[bool]sandbox.Cause{false: sandbox.CauseExited, true: sandbox.CauseCanceled}[cancel]; x.Result.Cause != want {
			t.Errorf("%v: %s %s", cancel, x.Result.Cause, x.Result.Message)
		}
	}
}

// Close waits for terminals, and refuses new ones.
func TestTerminalClose(t *testing.T) {
	s := newSidecar(t, func(p *sandboxtest.Proc) int { io.Copy(io.Discard, p.Stdin); return 4 })
	of := s.begin(t, nil)
	o := s.sit(t, of, &onScreen{})
	closed := make(chan struct{})
	go func() {
		s.api.Close()
		close(closed)
	}()
	now, cancel := context.WithCancel(t.Context())
	cancel()
	s.book.Drain(now)
	o.ends(websocket.StatusNormalClosure)
	<-closed
	if o.result == nil || o.result.Cause != sandbox.CauseCanceled {
		t.Errorf("%+v", o.result)
	}
	if _, response, err := s.dial(t, of+"/tty", http.Header{"Caller": {"ann"}}, "belljar.tty.v1"); err == nil || response.StatusCode != http.StatusServiceUnavailable { //nolint:bodyclose // Dial closes it
		t.Errorf("%v, %v", response, err)
	}
}
