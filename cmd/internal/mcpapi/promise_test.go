package mcpapi

import (
	"testing"
	"time"
)

func TestPromise(t *testing.T) {
	var one, two Server
	one.open()
	two.open()
	p := promise{ID: "id", Expires: 1000, Who: "ann", Call: callSum("shell_run", runInput{Command: "ls"})}
	state := one.seal(p)
	if got, err := one.unseal(state, time.Unix(1000, 0)); err != nil || got != p {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := one.unseal(state, time.Unix(1001, 0)); err == nil {
		t.Error("it never expires")
	}
	if _, err := two.unseal(state, time.Unix(0, 0)); err == nil {
		t.Error("another server takes it")
	}
	if callSum("shell_run", runInput{Command: "ls"}) == callSum("shell_run", runInput{Command: "ls", Session: "x"}) || callSum("a", 1) == callSum("b", 1) {
		t.Error("different calls are the same")
	}
}

// Whatever a client brings, it is a promise of this server or nothing.
func FuzzPromise(f *testing.F) {
	var s Server
	s.open()
	state := s.seal(promise{ID: "id", Expires: 1 << 40, Who: "ann"})
	f.Add(state)
	f.Add(state[1:])
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		if p, err := s.unseal(text, time.Unix(0, 0)); err == nil && text != state {
			t.Errorf("%q is %+v", text, p)
		}
	})
}
