package replicas_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"belljar/cmd/internal/problem"
	"belljar/cmd/internal/replicas"
)

// Once a bug: an execution whose ID its caller had chosen was said to be none, though a replica had not said whether it has it.
func TestChosenIDIsNotKnown(t *testing.T) {
	for name, handle := range map[string]func(http.ResponseWriter, *http.Request){
		"unavailable":  func(w http.ResponseWriter, _ *http.Request) { problem.New(problem.Unavailable, "no room", "").Write(w) },
		"unauthorized": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
		"breaks":       func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"hangs":        func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 3)
			var says atomic.Bool
			c.all[2].handle = func(w http.ResponseWriter, r *http.Request) {
				if says.Load() {
					problem.New(problem.NotFound, "no execution", "").Write(w)
					return
				}
				handle(w, r)
			}
			for _, path := range []string{"/v1/executions/mine", "/v1/approvals/mine"} {
				if got := c.all[0].mustAsk("GET", path, ""); got.Status != 503 || got.Code != "unavailable" {
					t.Errorf("%s: %+v", path, got)
				}
			}
			says.Store(true)
			if got := c.all[0].mustAsk("GET", "/v1/executions/mine", ""); got.Status != 404 {
				t.Errorf("%+v", got)
			}
		})
	}
}

// Once a bug: a replica that had joined since the last look was not asked for chosen IDs, nor for lists.
func TestNewReplicaIsAsked(t *testing.T) {
	c := newCluster(t, 2)
	late := c.add()
	late.ids["mine"] = true
	if got := c.all[0].mustAsk("GET", "/v1/executions/mine", ""); got.By != late.Name {
		t.Errorf("%+v", got)
	}
	c = newCluster(t, 1)
	c.all[0].handle = func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(`{"sessions": []}`)) }
	late = c.add()
	late.handle = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }
	if got := c.all[0].mustAsk("GET", "/v1/sessions", ""); len(got.Unanswered) != 1 || got.Unanswered[0] != late.Name {
		t.Errorf("%+v", got)
	}
}

// Once a bug: who had a chosen ID was asked, and the others waited for.
func TestFirstAnswerIsEnough(t *testing.T) {
	c := newCluster(t, 3)
	end := make(chan struct{})
	c.all[1].handle = func(http.ResponseWriter, *http.Request) { <-end }
	c.all[2].ids["mine"] = true
	begun := time.Now()
	if got := c.all[0].mustAsk("GET", "/v1/executions/mine", ""); got.By != c.all[2].Name || time.Since(begun) > 3*time.Second {
		t.Errorf("%+v after %v", got, time.Since(begun))
	}
	close(end)
}

// Once a bug: where an execution had been was remembered after it was forgotten there.
func TestChosenIDIsForgotten(t *testing.T) {
	c := newCluster(t, 3)
	a, b, other := c.all[0], c.all[1], c.all[2]
	for _, has := range []*one{b, other} {
		has.mu.Lock()
		has.ids["mine"] = true
		has.mu.Unlock()
		if got := a.mustAsk("GET", "/v1/executions/mine", ""); got.By != has.Name {
			t.Errorf("%+v", got)
		}
		has.mu.Lock()
		has.ids["mine"] = false
		has.mu.Unlock()
		if got := a.mustAsk("GET", "/v1/executions/mine", ""); got.Status != 404 {
			t.Errorf("%+v", got)
		}
	}
}

// Once a bug: an execution was not found whose ID another one had had at another replica, which was still asked for it.
func TestChosenIDMoves(t *testing.T) {
	c := newCluster(t, 3)
	a, b, other := c.all[0], c.all[1], c.all[2]
	for _, has := range []*one{b, other} {
		for _, o := range c.all {
			o.mu.Lock()
			o.ids["mine"] = o == has
			o.mu.Unlock()
		}
		if got := a.mustAsk("GET", "/v1/executions/mine", ""); got.By != has.Name {
			t.Errorf("%+v", got)
		}
	}
}

// Once a bug: who may answer questions and answered one where it waits was sent to another replica, if the execution was another caller's.
func TestQuestionThatWaitsHere(t *testing.T) {
	c := newCluster(t, 2)
	a, b := c.all[0], c.all[1]
	a.asks = map[string]bool{"mine": true}
	if got := a.mustAsk("POST", "/v1/approvals/mine", "{}", "Authorization: Bearer judge"); got.By != a.Name || len(b.hits) > 0 {
		t.Errorf("%+v; another replica was asked %d times", got, len(b.hits))
	}
}

// What a replica has that starts again with it may be there soon, also under an ID that a caller chose.
func TestChosenIDOfAReplicaThatReturns(t *testing.T) {
	c := newCluster(t, 2)
	a, first := c.all[0], c.all[1]
	if err := first.Replicas.Close(); err != nil {
		t.Fatal(err)
	}
	first.Server.Close()
	again := c.add(func(config *replicas.Config) { config.Name = first.Name })
	again.ids["mine"] = true
	if got := a.mustAsk("GET", "/v1/executions/mine", ""); got.By != again.Name {
		t.Errorf("%+v", got)
	}
	if err := again.Replicas.Close(); err != nil {
		t.Fatal(err)
	}
	again.Listener.Close()
	if err := a.Look(t.Context()); err != nil {
		t.Error(err)
	}
	for _, id := range []string{"mine", again.NewID()} {
		if got := a.mustAsk("GET", "/v1/executions/"+id, ""); got.Status != http.StatusServiceUnavailable {
			t.Errorf("%s: %+v", id, got)
		}
	}
}
