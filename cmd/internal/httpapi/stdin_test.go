package httpapi_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Once a bug: a part whose client had gone waited for its turn until the command read all before it, and took
// a request's place meanwhile.
func TestStdinOfOneWhoLeft(t *testing.T) {
	w := newWaiting()
	s := newSidecar(t, w.play)
	s.get(t, "ann", "POST", "/v1/executions?wait=0", fields{"command": "wait", "id": "x", "stdin_open": true}, 202, nil)
	<-w.begun
	ctx, leave := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/v1/executions/x/stdin", strings.NewReader(strings.Repeat("x", 256<<10)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Caller", "ann")
	r.Header.Set("Content-Type", "application/octet-stream")
	left := make(chan struct{})
	go func() {
		defer close(left)
		if answer, err := s.Client().Do(r); err == nil {
			answer.Body.Close()
		}
	}()
	x, err := s.book.Find("x")
	if err != nil {
		t.Fatal(err)
	}
	input, err := x.Input()
	if err != nil {
		t.Fatal(err)
	}
	for { // until the part has the turn
		select {
		case <-left:
			t.Fatal("the part was answered before its client left")
		default:
		}
		short, cancel := context.WithTimeout(t.Context(), 2*time.Second) // and by then some is typed
		_, err := input.Write(short, 0, strings.NewReader(""), false)
		if cancel(); err != nil {
			break
		}
	}
	leave()
	<-left
	var got struct{ Offset int64 }
	s.get(t, "ann", "POST", "/v1/executions/x/stdin?offset=0", nil, 200, &got)
	if got.Offset == 0 {
		t.Error("nothing was typed")
	}
	s.get(t, "ann", "DELETE", "/v1/executions/x", nil, 202, nil)
}
