package docker_test

import (
	"io"
	"strings"
	"testing"

	"belljar/sandbox"
	"belljar/sandbox/docker"
)

// The two ways of listing agree, and no name of a process's forges another.
func TestListInside(t *testing.T) {
	t.Parallel()
	engine := connect(t)
	c := enter(t, engine, baseImage(t, engine))
	script := "sh -c 'sleep 100; : \"\n9 (x) S 1 1\"' & exec sleep 101"
	p, err := c.box.Exec(t.Context(), sandbox.Exec{Script: script, Dir: "/", User: c.spec.User, Stdout: io.Discard, Stderr: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Wait(t.Context())
	defer c.box.Remove(t.Context())

	var outside []sandbox.Process
	for len(outside) < 3 { // until all have started; the test's deadline bounds it
		if outside, err = c.box.Processes(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	inside, err := docker.ListInside(t.Context(), c.box)
	if err != nil || len(inside) != len(outside) {
		t.Fatalf("%+v, %v, want %+v", inside, err, outside)
	}
	for i, p := range inside {
		o := outside[i]
		if p.PID != o.PID || p.PPID != o.PPID || p.PGID != o.PGID || p.UID != o.UID || p.UID == 0 || p.User != o.User || !strings.Contains(p.Command, "sleep 10") {
			t.Errorf("inside %+v, outside %+v", p, o)
		}
	}
}
