package executions

import (
	"slices"
	"sync/atomic"
	"testing"

	"belljar/cmd/internal/problem"
	"belljar/sandbox"
	"belljar/sandbox/sandboxtest"
)

// Once a bug: the key of a held execution was not known, so that the Lease which says where it is was removed before it began, and the
// request ran again at another replica.
func TestHeldKeyIsKnown(t *testing.T) {
	dir := t.TempDir()
	var ran atomic.Int32
	b := openBook(t, dir, runner(t, dir, func(*sandboxtest.Proc) int { ran.Add(1); return 0 }))
	request := Request{Owner: "ann", Key: "k", Body: []byte("one")}
	h, err := b.Hold(t.Context(), sandbox.Command{Script: "true"}, request)
	if err != nil {
		t.Fatal(err)
	}
	known := func(want bool) {
		t.Helper()
		keys := b.Keys()
		if b.KnowsKey("ann", "k") != want || slices.Equal(keys, [][2]string{{"ann", "k"}}) != want || b.KnowsKey("ben", "k") || b.KnowsKey("ann", "") {
			t.Errorf("keys %q, known %t", keys, b.KnowsKey("ann", "k"))
		}
	}
	known(true)
	other := Request{Owner: "ann", Key: "k", Body: []byte("another")}
	if _, err := b.Start(t.Context(), sandbox.Command{Script: "true"}, other); problem.Of(err).Code != problem.Conflict {
		t.Errorf("another request with its key: %v", err)
	}
	if _, err := b.Hold(t.Context(), sandbox.Command{Script: "true"}, other); problem.Of(err).Code != problem.Conflict {
		t.Errorf("another one to hold with its key: %v", err)
	}
	if err := b.StartHeld(t.Context(), h.ID, func(string) bool { return true }); err != nil {
		t.Fatal(err)
	}
	known(true)
	x := start(t, b, sandbox.Command{Script: "true"}, request)
	if _, err := x.Result(t.Context()); err != nil || x.ID != h.ID || ran.Load() != 1 {
		t.Errorf("%s, and %s was held, ran %d times, %v", x.ID, h.ID, ran.Load(), err)
	}
	refused, err := b.Hold(t.Context(), sandbox.Command{Script: "true"}, Request{Owner: "ann", Key: "later", Body: []byte("one")})
	if err != nil {
		t.Fatal(err)
	}
	refused.Close()
	known(true)
}
