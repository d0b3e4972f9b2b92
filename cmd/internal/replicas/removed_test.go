package replicas_test

import (
	"errors"
	"net/http"
	"slices"
	"testing"
)

// remove is what DELETE does behind the replicas.
func (o *one) remove(session string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.has, session)
}

// Once a bug: a session that was removed while its home was about to end came back at another replica, as one that was lost, and its name
// stayed taken for a day.
func TestRemovedSessionStaysRemoved(t *testing.T) {
	for name, leave := range map[string]func(t *testing.T, a *one){
		"end": func(t *testing.T, a *one) {
			a.Drain()
			if err := a.Replicas.Close(); err != nil {
				t.Error(err)
			}
		},
		"given back": func(t *testing.T, a *one) {
			if err := a.GiveBack(t.Context(), "dev"); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 2)
			a, b := c.all[0], c.all[1]
			a.mustAsk("POST", "/v1/executions", "x", "Session: dev")
			a.remove("dev")
			leave(t, a)
			if list := c.leases("session"); len(list) != 0 {
				t.Errorf("left: %+v", list)
			}
			if err := b.Look(t.Context()); err != nil {
				t.Error(err)
			}
			if known, _ := b.Known(); len(known) != 0 {
				t.Errorf("it came back: %v", known)
			}
		})
	}
}

// Once a bug: the name of a session that was removed was its owner's for up to a minute more.
func TestRemovedSessionLeavesItsName(t *testing.T) {
	c := newCluster(t, 2)
	a, b := c.all[0], c.all[1]
	a.handle = func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			a.remove("dev")
		}
		w.WriteHeader(http.StatusNoContent)
	}
	a.mustAsk("POST", "/v1/executions", "x", "Session: dev")
	b.mustAsk("GET", "/v1/sessions/dev", "")
	if list := c.leases("session"); len(list) != 1 {
		t.Errorf("after a look at it: %+v", list)
	}
	if got := b.mustAsk("DELETE", "/v1/sessions/dev", ""); got.Status != http.StatusNoContent {
		t.Errorf("%+v", got)
	}
	a.mu.Lock()
	gaveUp := slices.Clone(a.gaveUp)
	a.mu.Unlock()
	if list := c.leases("session"); len(list) != 0 || !slices.Equal(gaveUp, []string{"dev"}) {
		t.Errorf("left: %+v; the owners of %q were forgotten", list, gaveUp)
	}
	if got := b.mustAsk("POST", "/v1/executions", "y", "Session: dev"); got.By != b.Name {
		t.Errorf("the next one: %+v", got)
	}
}

// A session of which giving back failed half-way is none that was removed: its entry still has its pod.
func TestSessionIsGivenBackLater(t *testing.T) {
	c := newCluster(t, 2)
	a, b := c.all[0], c.all[1]
	pod := a.mustAsk("POST", "/v1/executions", "x", "Session: dev").Pod
	a.failed = errors.New("no space left on device")
	if err := a.GiveBack(t.Context(), "dev"); err == nil {
		t.Error("it did not fail")
	}
	a.failed = nil
	if err := a.GiveBack(t.Context(), "dev"); err != nil {
		t.Error(err)
	}
	if got := b.mustAsk("POST", "/v1/executions", "y", "Session: dev"); got.By != b.Name || got.Pod != pod || pod == "" {
		t.Errorf("the next command: %+v, and not in %q", got, pod)
	}
}

// Once a bug: a session that was removed where it had been taken over a moment ago was still used by its earlier home, which knew nothing of
// that.
func TestRemovedWhereItWasTaken(t *testing.T) {
	c := newCluster(t, 2)
	a, b := c.all[0], c.all[1]
	b.handle = func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			b.remove("dev")
		}
		w.WriteHeader(http.StatusNoContent)
	}
	a.mustAsk("POST", "/v1/executions", "x", "Session: dev")
	if err := a.GiveBack(t.Context(), "dev"); err != nil {
		t.Fatal(err)
	}
	if got := b.mustAsk("POST", "/v1/executions", "y", "Session: dev"); got.By != b.Name {
		t.Fatalf("%+v", got)
	}
	if got := b.mustAsk("DELETE", "/v1/sessions/dev", ""); got.Status != http.StatusNoContent {
		t.Errorf("%+v", got)
	}
	if list := c.leases("session"); len(list) != 1 || list[0].Holder != b.Name {
		t.Errorf("its entry: %+v", list)
	}
}
