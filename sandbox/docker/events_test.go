package docker

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docker/docker/client"
)

// stream is an event stream of an engine whose /events handler answers.
func stream(t *testing.T, handler http.HandlerFunc) *eventStream {
	t.Helper()
	server := httptest.NewServer(handler)
	c, err := client.NewClientWithOpts(client.WithHost("tcp://"+server.Listener.Addr().(*net.TCPAddr).String()), client.WithVersion("1.41"))
	if err != nil {
		t.Fatal(err)
	}
	s := newEventStream(c)
	t.Cleanup(func() {
		s.close()
		c.Close()
		server.Close()
	})
	return s
}

func missed(w *watch) bool {
	now, _ := w.now()
	return now.missed
}

// A container that is made while the stream is down, or before the engine
// answered, is not watched, and knows it.
func TestWatchWhileTheStreamIsDown(t *testing.T) {
	var calls atomic.Int32
	breaks, again := make(chan struct{}), make(chan struct{})
	s := stream(t, func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) > 1 {
			select {
			case <-again:
			case <-r.Context().Done():
			}
			return
		}
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		<-breaks
	})
	s.start(t.Context())
	first := s.add("first")
	if missed(first) {
		t.Error("events are missed from the start")
	}
	close(breaks)
	<-first.lost
	if second := s.add("second"); !missed(second) {
		t.Error("made while the stream was down, and said to be watched")
	}
	close(again)
}

// An engine that does not answer holds up no one for longer than a call may.
func TestEventsOfAStalledEngine(t *testing.T) {
	s := stream(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		s.start(ctx)
		cancel()
	}
	if !missed(s.add("one")) {
		t.Error("said to be watched")
	}
}
