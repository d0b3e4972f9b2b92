package docker_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"belljar/sandbox"
	"belljar/sandbox/docker"
	"belljar/sandbox/internal/proc"
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

// A list is whole while processes start and end all the time, whose files are gone when they are read,
// or it says that it may not be: on a slow machine more of them start and end while it is made.
func TestListInsideInChurn(t *testing.T) {
	t.Parallel()
	engine := connect(t)
	c := enter(t, engine, baseImage(t, engine))
	p, err := c.box.Exec(t.Context(), sandbox.Exec{
		Script: "(while :; do sleep 0.3; sleep 0.4; done) & (while :; do sleep 0.5; done) & echo ready; exec sleep 102",
		Dir:    "/", User: c.spec.User, Stdout: io.Discard, Stderr: io.Discard,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Wait(t.Context())
	defer c.box.Remove(t.Context())
	for found := 0; found < 20; {
		list, err := docker.ListInside(t.Context(), c.box)
		if errors.Is(err, proc.ErrMissed) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		kept := 0
		for _, p := range list {
			if p.Command == "sleep 102" || strings.HasPrefix(p.Command, "sh -c ") {
				kept++
			}
		}
		if found > 0 && kept < 3 {
			t.Fatalf("%+v", list)
		}
		if kept == 3 {
			found++
		}
	}
}
