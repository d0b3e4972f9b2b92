package e2e

import (
	"archive/tar"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// killer repeatedly kills all processes of its user, except itself.
const killer = `setsid sh -c 'while :; do kill -9 -1; sleep 0.01; done' >/dev/null 2>&1 & sleep 1000`

// Once a bug of sessionTurn.openGate: if a leftover process kills the
// shell that waits for the next command, the session can run no command any more.
func TestSessionWithALeftoverThatKills(t *testing.T) {
	t.Parallel()
	name, use := newSession(t)
	asks(t, use, "--session", name, killer).ended(t, 137, "signaled")
	for _, flags := range [][]string{nil, {"--on-timeout", "command"}, {"-i"}} {
		a := asks(t, use, append(flags, "--session", name, "sleep 1000")...)
		killed := a.code == 137 && a.Cause == "signaled" || a.Cause == "engine_lost" && strings.Contains(string(a.json), "ended with SIGKILL before the command started")
		if s := a.session(t); !killed || s.Lost != "" || !s.Container.Reused {
			t.Errorf("%q: %s", flags, a.json)
		}
	}
	for _, p := range listed(t, use, name).Runs {
		if !strings.HasPrefix(p.Command, "sh -c while") && !strings.HasPrefix(p.Command, "sleep") {
			t.Errorf("runs %q", p.Command)
		}
	}
}

// The same, but the killing stops after a while: the session continues.
func TestSessionAfterALeftoverThatKilled(t *testing.T) {
	t.Parallel()
	name, use := newSession(t)
	once := strings.Replace(killer, "while :", "for i in 1 2 3", 1)
	asks(t, use, "--session", name, once).ended(t, 137, "signaled")
	eventually(t, "a command is not killed", func() bool {
		a := asks(t, use, "--session", name, "while pgrep -f 'for i in' >/dev/null; do :; done; echo kept >/work/file")
		return a.code == 0
	})
	a := asks(t, use, "--session", name, "cat /work/file")
	a.ended(t, 0, "")
	a.says(t, "kept\n")
}

// What a command leaves running may write to its output without end: the command has ended all the same.
func TestSessionWithALeftoverThatWrites(t *testing.T) {
	t.Parallel()
	name, use := newSession(t)
	for _, pause := range []string{"sleep 0.02", ":"} {
		a := asks(t, use, "--session", name, "--timeout", "5m", "--max-output", "1GiB", "echo started; while echo more; do "+pause+"; done & exit 3")
		a.ended(t, 3, "exited")
		if !strings.HasPrefix(a.Stdout, "started\n") || a.Evidence.OutputError != "the stream stayed open after the command ended" {
			t.Errorf("%s", a.json)
		}
	}
	asks(t, use, "--session", name, "true").ended(t, 0, "exited")
}

// A shell that prints more than a gate does is no gate, and the command needs none.
func TestSessionOfAnOddShell(t *testing.T) {
	t.Parallel()
	name, use := newSession(t)
	odd := newTree()
	odd.add(tar.Header{Typeflag: tar.TypeDir, Name: "bin/", Mode: 0o755}, nil)
	odd.add(tar.Header{Name: "bin/busybox", Mode: 0o755}, busybox(t))
	odd.add(tar.Header{Name: "bin/sh", Mode: 0o755}, []byte("#!/bin/busybox sh\necho hello\nexec /bin/busybox sh \"$@\"\n"))
	image := imageOf(t, odd, v1.Config{})
	for range 2 {
		a := asks(t, use, "--session", name, "--image", image, "echo hi")
		a.ended(t, 0, "")
		a.says(t, "hello\nhi\n")
	}
	if runs := listed(t, use, name).Runs; len(runs) > 0 {
		t.Errorf("runs %+v", runs)
	}
}

// Once a bug of sessionTurn: a session that never began is listed as one that was lost,
// from outside.
func TestSessionOfAnImageWithoutAShell(t *testing.T) {
	needEngine(t)
	t.Parallel()
	none, noProgram := newTree(), newTree()
	none.add(tar.Header{Typeflag: tar.TypeDir, Name: "etc/", Mode: 0o755}, nil)
	noProgram.add(tar.Header{Typeflag: tar.TypeDir, Name: "bin/", Mode: 0o755}, nil)
	noProgram.add(tar.Header{Name: "bin/sh", Mode: 0o644}, []byte("no program"))
	state := t.TempDir()
	use := func(c *exec.Cmd) { c.Env = append(os.Environ(), stateIn(t, state)) }
	for i, tree := range []*tree{none, noProgram} {
		image := imageOf(t, tree, v1.Config{})
		for _, env := range []string{"gate=1", "no.gate=1"} { // as no shell sets a variable of that name
			name := fmt.Sprintf("e2e-%d-%d", time.Now().UnixNano(), i)
			a := asks(t, use, "--session", name, "--image", image, "-e", env, "echo hi")
			if a.ended(t, 125, "image_error"); a.session(t).Lost != "" {
				t.Errorf("%s", a.json)
			}
			ls := exec.Command(binary, "session", "ls", "--format", "json")
			use(ls)
			if out, err := ls.CombinedOutput(); err != nil || strings.Contains(string(out), name) {
				t.Errorf("%v: %s", err, out)
			}
		}
	}
}

// A process that stops all of its user's stops the process with which the engine starts
// a command, too, and the engine then answers nothing more about the container. The session
// can still be removed, as newSession does.
func TestSessionWithALeftoverThatStops(t *testing.T) {
	t.Parallel()
	name, use := newSession(t)
	asks(t, use, "--session", name, `(while [ -e /proc/$$ ]; do :; done; while :; do kill -STOP -1; done) >/dev/null 2>&1 & echo begun`).ended(t, 0, "")
	for range 2 {
		a := asks(t, use, "--session", name, "--timeout", "20s", "echo hi")
		stopped := a.Cause == "engine_error" && strings.Contains(a.Message, "kill -STOP -1") && a.Stdout == ""
		began := a.Cause == "wall_timeout" || a.Cause == "exited" && a.Stdout == "hi\n" // before it was stopped
		if !stopped && !began {
			t.Errorf("%s", a.json)
		}
	}
}
