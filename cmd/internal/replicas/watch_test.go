package replicas_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
)

// Once a bug: a caller that watched a session's directory kept it where it was: a replica that was to end did not give it back, and
// commands for it were refused.
func TestWatchedSessionLeaves(t *testing.T) {
	for name, leave := range map[string]func(t *testing.T, a, b *one){
		"drain": func(_ *testing.T, a, _ *one) { a.Drain() },
		"hand-over": func(t *testing.T, _, b *one) {
			if err := b.fetch("dev"); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 2)
			a, b := c.all[0], c.all[1]
			a.mustAsk("POST", "/v1/executions", "x", "Session: dev")
			watched := make(chan struct{}, 10)
			handle := func(w http.ResponseWriter, r *http.Request) {
				watched <- struct{}{}
				if strings.HasPrefix(r.URL.RawQuery, "watch") && r.URL.RawQuery != "watch=0" {
					<-r.Context().Done()
				}
				w.WriteHeader(http.StatusNoContent)
			}
			a.handle = handle
			var watching sync.WaitGroup
			for at, query := range map[*one]string{a: "watch=1", b: "watch"} { // one that was sent on, too
				watching.Go(func() {
					if got := at.mustAsk("GET", "/v1/sessions/dev/files/x?"+query, ""); got.Status != http.StatusNoContent {
						t.Errorf("%+v", got)
					}
				})
				<-watched
			}
			leave(t, a, b)
			watching.Wait()
			if got := a.mustAsk("POST", "/v1/executions", "y", "Session: dev"); got.By != b.Name {
				t.Errorf("the next command: %+v", got)
			}
			if got := a.mustAsk("GET", "/v1/sessions/dev/files/x?watch=0", ""); got.By != b.Name {
				t.Errorf("a file: %+v", got)
			}
		})
	}
}

// Where a command runs in the session, it stays, and so does who watches it.
func TestWatchOfASessionThatStays(t *testing.T) {
	c := newCluster(t, 2)
	a := c.all[0]
	a.mustAsk("POST", "/v1/executions", "x", "Session: dev")
	end := make(chan struct{})
	a.handle = func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-end:
			w.WriteHeader(http.StatusNoContent)
		case <-r.Context().Done():
			w.WriteHeader(http.StatusResetContent)
		}
	}
	a.mu.Lock()
	a.busy = "dev"
	a.mu.Unlock()
	var watching sync.WaitGroup
	watch := func() {
		watching.Go(func() {
			if got := a.mustAsk("GET", "/v1/sessions/dev/files/x?watch=1", ""); got.Status != http.StatusNoContent {
				t.Errorf("%+v", got)
			}
		})
		<-a.hits
	}
	watch()
	if err := a.GiveBack(t.Context(), "dev"); err == nil {
		t.Error("it is given back")
	}
	a.Drain()
	watch()
	close(end)
	watching.Wait()
}
