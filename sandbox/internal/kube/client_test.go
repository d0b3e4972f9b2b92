package kube

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve is a client of a server that answers like that.
func serve(t *testing.T, answer http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	c, err := New(&Access{Server: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestRequests(t *testing.T) {
	var got []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		got = append(got, r.Method+" "+r.URL.String()+" "+string(text))
		w.Header().Set("Date", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))
		io.WriteString(w, `{"metadata":{"name":"a","uid":"u"}}`)
	})
	var pod Pod
	path := PodPath("n", "a?b")
	if err := errors.Join(c.Get(t.Context(), path, nil, &pod), c.Create(t.Context(), PodsPath("n"), map[string]int{"x": 1}, &pod), c.Try(t.Context(), PodsPath("n"), 1),
		c.Update(t.Context(), LeasePath("n", "l"), 2, nil), c.Delete(t.Context(), path, Meta{Name: "a", UID: "u", ResourceVersion: "7"}, 0)); err != nil || pod.Metadata.UID != "u" {
		t.Errorf("%+v, error %v", pod, err)
	}
	for i, want := range []string{
		"GET /api/v1/namespaces/n/pods/a%3Fb ", `POST /api/v1/namespaces/n/pods?fieldValidation=Strict {"x":1}`,
		"POST /api/v1/namespaces/n/pods?dryRun=All&fieldValidation=Strict 1", "PUT /apis/coordination.k8s.io/v1/namespaces/n/leases/l?fieldValidation=Strict 2",
		`DELETE /api/v1/namespaces/n/pods/a%3Fb {"apiVersion":"v1","gracePeriodSeconds":0,"kind":"DeleteOptions","preconditions":{"uid":"u","resourceVersion":"7"},"propagationPolicy":"Background"}`,
	} {
		if i >= len(got) || got[i] != want {
			t.Errorf("got %q, want %q", got, want)
			break
		}
	}
	if ahead := time.Until(c.Now()); ahead < 59*time.Minute || ahead > time.Hour {
		t.Errorf("its clock is ahead by %v", ahead)
	}
}

func TestRefusal(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3")
		w.WriteHeader(http.StatusTooManyRequests)
		io.WriteString(w, `{"kind":"Status","reason":"TooManyRequests","message":"later"}`)
	})
	err := c.Get(t.Context(), "/x", nil, nil)
	var refused *StatusError
	if !errors.As(err, &refused) || *refused != (StatusError{429, "TooManyRequests", "later", 3 * time.Second}) || CodeOf(err) != 429 {
		t.Errorf("%+v", err)
	}
	if _, err := c.Attach(t.Context(), "n", "p", "c"); CodeOf(err) != 429 {
		t.Errorf("attaching: %v", err)
	}
}

// A connection that says nothing any more, as where a firewall forgot it, is given up: the next request takes a new one.
func TestSilentConnection(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto) }))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	front, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var silent atomic.Bool
	var all sync.WaitGroup
	pass := func(to, from net.Conn, mute bool) {
		defer to.Close()
		buffer := make([]byte, 4096)
		for {
			n, err := from.Read(buffer)
			if err != nil {
				return
			}
			if !mute || !silent.Load() {
				to.Write(buffer[:n])
			}
		}
	}
	all.Go(func() {
		for n := 0; ; n++ {
			ours, err := front.Accept()
			if err != nil {
				return
			}
			theirs, err := net.Dial("tcp", server.Listener.Addr().String())
			if err != nil {
				t.Error(err)
				return
			}
			first := n == 0
			all.Go(func() { pass(theirs, ours, first) })
			all.Go(func() { pass(ours, theirs, first) })
		}
	})
	c, err := open(&Access{Server: "https://" + front.Addr().String(), Insecure: true}, 500*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		front.Close()
		all.Wait()
	})
	ask := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		answer, err := c.request(ctx, http.MethodGet, "/", nil, nil)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if text, err := io.ReadAll(answer.Body); err != nil || string(text) != "HTTP/2.0" {
			t.Errorf("%s, error %v", text, err)
		}
		return nil
	}
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	silent.Store(true)
	if err := ask(); errors.Is(err, context.DeadlineExceeded) { // it may be sent again by itself
		t.Error("it hangs")
	}
	if err := ask(); err != nil {
		t.Errorf("the next one: %v", err)
	}
}

func TestWatch(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if q := r.URL.Query(); q.Get("resourceVersion") != "7" { // without one, an API server waits until it has the newest of all
			t.Errorf("%s", r.URL)
		}
		io.WriteString(w, `{"type":"ADDED","object":{"metadata":{"name":"a"}}}`+"\n"+`{"type":"MODIFIED","object":{"metadata":{"name":"b"}}}`+"\n")
	})
	var names []string
	if err := c.WatchPod(t.Context(), "n", "a", "7", func(e Event) bool { names = append(names, e.Pod.Metadata.Name); return false }); err != nil || len(names) != 2 {
		t.Errorf("%q, error %v", names, err)
	}
	if err := c.WatchPod(t.Context(), "n", "a", "7", func(Event) bool { return true }); err != nil {
		t.Error(err)
	}
	c = serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("resourceVersion") != "7" {
			t.Errorf("it asks %s", r.URL)
		}
		io.WriteString(w, `{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old resource version"}}`+"\n")
	})
	if err := c.WatchPod(t.Context(), "n", "a", "7", func(Event) bool { return true }); CodeOf(err) != http.StatusGone {
		t.Error(err)
	}
}

// attached is an attachment to a server that does that.
func attached(t *testing.T, serving func(ctx context.Context, conn *websocket.Conn)) *Stream {
	t.Helper()
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{protocol}})
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.CloseNow()
		serving(r.Context(), conn)
	})
	s, err := c.Attach(t.Context(), "n", "p", "c")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestStream(t *testing.T) {
	in := bytes.Repeat([]byte("x"), 100_000)
	s := attached(t, func(ctx context.Context, conn *websocket.Conn) {
		for _, message := range []string{"\x00", "\x01", "\x01one ", "\x02said", "\x01two ", "\x09odd", ""} {
			conn.Write(ctx, websocket.MessageBinary, []byte(message))
		}
		var got []byte
		for len(got) < len(in) {
			_, text, err := conn.Read(ctx)
			if err != nil || text[0] != stdin {
				return
			}
			got = append(got, text[1:]...)
		}
		conn.Write(ctx, websocket.MessageBinary, append([]byte{stdout}, got...))
		conn.Write(ctx, websocket.MessageBinary, []byte("\x03{\"status\":\"Failure\",\"message\":\"it ended\"}"))
		conn.Close(websocket.StatusNormalClosure, "")
	})
	if n, err := s.Write(in); n != len(in) || err != nil {
		t.Fatal(n, err)
	}
	out, err := io.ReadAll(s)
	if err != nil || !bytes.Equal(out, append([]byte("one two "), in...)) {
		t.Errorf("%d bytes, error %v", len(out), err)
	}
	if s.Said() != "said" || s.Failed() == nil || s.Failed().Error() != "it ended" {
		t.Errorf("%q, %v", s.Said(), s.Failed())
	}
}

// Answers that do not come end a stream, but not while something else does: they may be behind it.
func TestStreamWithoutPongs(t *testing.T) {
	const lively, pieces = 20 * time.Millisecond, 50
	ended := make(chan struct{})
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{protocol}})
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.CloseNow()
		for range pieces { // without reading, which is what answers
			conn.Write(r.Context(), websocket.MessageBinary, []byte("\x01x"))
			time.Sleep(lively / 4)
		}
		<-ended
	})
	c.conns.lively = lively
	s, err := c.Attach(t.Context(), "n", "p", "c")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	out, err := io.ReadAll(s)
	close(ended)
	if err != nil || len(out) != pieces {
		t.Errorf("%d bytes, error %v", len(out), err)
	}
}

func TestStreamCloses(t *testing.T) {
	s := attached(t, func(ctx context.Context, conn *websocket.Conn) { conn.Read(ctx) })
	go func() {
		time.Sleep(20 * time.Millisecond)
		s.Close()
	}()
	if n, err := s.Read(make([]byte, 10)); n != 0 || !errors.Is(err, io.EOF) {
		t.Error(n, err)
	}
	if _, err := s.Write([]byte("x")); err == nil {
		t.Error("it takes more")
	}
}
