package httpapi_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"belljar/cmd/internal/access"
	"belljar/sandbox"
)

// A held command that began ends with its connection, too, if it asked for that.
func TestHeldDisconnect(t *testing.T) {
	w := newWaiting()
	s := newSidecar(t, w.play)
	held := s.do(t, "ann", "POST", "/v1/executions?hold=1", fields{"command": "wait", "id": "x", "cancel_on_disconnect": true})
	s.get(t, "ann", "POST", "/v1/executions/x/start", nil, 204, nil)
	<-w.begun
	held.Body.Close()
	s.wantCanceled(t, "x")
}

// A request to hold that is repeated, because its connection broke, takes the place of the first:
// while that waits for an approval, and also after it.
func TestHoldAgain(t *testing.T) {
	s := newSidecar(t, hello)
	answered := make(chan int)
	hold := func() {
		answered <- s.do(t, "ann", "POST", "/v1/executions?hold=1", fields{"command": "echo asked", "id": "q"}, "Idempotency-Key", "k").StatusCode
	}
	asked := func() {
		var list struct{ Approvals []any }
		for len(list.Approvals) == 0 {
			s.get(t, "judge", "GET", "/v1/approvals", nil, 200, &list)
		}
	}
	go hold()
	asked()
	go hold()
	if status := <-answered; status != http.StatusConflict {
		t.Errorf("the first: %d", status)
	}
	for range 2 {
		asked()
		s.answers(t, "q", "once")
		if status := <-answered; status != http.StatusOK {
			t.Errorf("%d", status)
		}
		go hold()
	}
	asked()
	s.answers(t, "q", "deny")
	if status := <-answered; status != http.StatusForbidden {
		t.Errorf("denied: %d", status)
	}
	s.get(t, "ann", "POST", "/v1/executions/q/start", nil, 404, nil)
}

// An answer is to the question that was read. Once a bug: a caller could put another command in its place.
func TestAnswerIsToItsQuestion(t *testing.T) {
	for _, key := range [][]string{nil, {"Idempotency-Key", "k"}} {
		s := newSidecar(t, hello)
		hold := func(ctx context.Context, command string) int {
			h, _ := s.api.Handler()
			r := httptest.NewRequestWithContext(access.With(ctx, callers["ann"]), http.MethodPost, "/v1/executions?hold=1", strings.NewReader(`{"id": "q", "command": "`+command+`"}`))
			r.Header.Set("Content-Type", "application/json")
			if key != nil {
				r.Header.Set(key[0], key[1])
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w.Code
		}
		ctx, leave := context.WithCancel(t.Context())
		first, second := make(chan int, 1), make(chan int, 1)
		go func() { first <- hold(ctx, "echo asked") }()
		read := s.question(t, "q", "")
		if key != nil { // while the first still waits
			if status := hold(t.Context(), "echo asked; echo evil"); status != http.StatusConflict {
				t.Errorf("another command by the same key: %d", status)
			}
		}
		leave()
		<-first
		go func() { second <- hold(t.Context(), "echo asked; echo evil") }()
		other := s.question(t, "q", read)
		s.get(t, "judge", "POST", "/v1/approvals/q", fields{"answer": "once", "question": read}, 404, nil)
		s.get(t, "judge", "POST", "/v1/approvals/q", fields{"answer": "deny", "question": other}, 204, nil)
		if status := <-second; status != http.StatusForbidden {
			t.Errorf("%d", status)
		}
	}
}

// question waits for one about an execution, other than that.
func (s *sidecar) question(t *testing.T, id, other string) string {
	t.Helper()
	for {
		var list struct {
			Approvals []struct{ ID, Question string }
		}
		s.get(t, "judge", "GET", "/v1/approvals", nil, 200, &list)
		for _, q := range list.Approvals {
			if q.ID == id && q.Question != other {
				return q.Question
			}
		}
	}
}

// answers the question about an execution, which waits.
func (s *sidecar) answers(t *testing.T, id, answer string) {
	t.Helper()
	s.get(t, "judge", "POST", "/v1/approvals/"+id, fields{"answer": answer, "question": s.question(t, id, "")}, 204, nil)
}

func (s *sidecar) wantCanceled(t *testing.T, id string) {
	t.Helper()
	var x struct{ Result sandbox.Result }
	s.get(t, "ann", "GET", "/v1/executions/"+id+"?wait=60", nil, 200, &x)
	if x.Result.Cause != sandbox.CauseCanceled || !strings.Contains(x.Result.Message, "disconnected") {
		t.Errorf("%s %s", x.Result.Cause, x.Result.Message)
	}
}

// broken is a connection that is cut: nothing can be written, but no one has noticed yet.
type broken struct{ http.ResponseWriter }

func (broken) Write([]byte) (int, error) { return 0, errors.New("it is cut") }

// A caller whose answer cannot be sent has left.
func TestCutDisconnects(t *testing.T) {
	w := newWaiting()
	s := newSidecar(t, w.play)
	h, _ := s.api.Handler()
	r := httptest.NewRequestWithContext(access.With(t.Context(), callers["ann"]), http.MethodPost, "/v1/executions", strings.NewReader(`{"command": "wait", "id": "x", "cancel_on_disconnect": true}`))
	r.Header.Set("Accept", "application/x-ndjson")
	r.Header.Set("Content-Type", "application/json")
	func() {
		defer func() { recover() }() // as net/http does
		h.ServeHTTP(broken{httptest.NewRecorder()}, r)
	}()
	s.wantCanceled(t, "x")
}
