package docker_test

import (
	"io"
	"testing"

	"belljar/sandbox"
)

// TestForkChain: a process that starts another and ends, again and again, is in
// every list, or the list says that it lacks some.
func TestForkChain(t *testing.T) {
	engine := connect(t)
	c := enter(t, engine, baseImage(t, engine))
	begun, says := io.Pipe()
	chain, err := c.box.Exec(t.Context(), sandbox.Exec{
		Script: `f() { f & }; f >/dev/null 2>&1; echo; while :; do sleep 1; done`, Dir: "/", User: c.spec.User, Stdout: says, Stderr: io.Discard,
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := begun.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	lacking := 0
	for range 200 {
		list, err := c.box.Processes(t.Context())
		if err != nil {
			lacking++
			continue
		}
		forks := 0
		for _, p := range list {
			if p.Command != "sleep 1" {
				forks++
			}
		}
		if forks < 2 { // the first shell, and the chain
			t.Fatalf("only %+v", list)
		}
	}
	t.Logf("%d lists of 200 said that they lacked some", lacking)
	if err := c.box.Remove(t.Context()); err != nil {
		t.Error(err)
	}
	chain.Wait(t.Context())
}
