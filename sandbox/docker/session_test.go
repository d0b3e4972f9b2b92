package docker_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/docker"

	"github.com/docker/docker/api/types/container"
)

// sessionOf makes a session's container, which is removed after the test.
func sessionOf(t *testing.T, engine *docker.Engine, deadline time.Duration) (sandbox.Container, sandbox.Spec) {
	t.Helper()
	spec := specOf(baseImage(t, engine))
	spec.Session, spec.Deadline = spec.Command, time.Now().Add(deadline)
	box, err := engine.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := box.Remove(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return box, spec
}

// sleeps is a script that waits until what it last put into the background is sleep: a
// shell's child is a copy of the shell at first.
const sleeps = "until grep -q ^sleep /proc/$!/cmdline; do :; done"

// there reports whether a container is there, in any state.
func there(t *testing.T, engine *docker.Engine, id string) bool {
	t.Helper()
	_, err := engine.Client().ContainerInspect(context.WithoutCancel(t.Context()), id)
	return err == nil
}

func managedAs(t *testing.T, engine *docker.Engine, id string) docker.Managed {
	t.Helper()
	list, err := engine.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list {
		if m.ID == id {
			return m
		}
	}
	t.Fatalf("container %s is not listed", id)
	return docker.Managed{}
}

func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for !is() {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("still not: %s", what)
		}
	}
}

// makerEnv has TestMakeSession, in a process that is killed, make a session.
const makerEnv = "BELLJAR_TEST_MAKER"

// TestMakeSession is no test: see TestSessionSurvivesItsMaker.
func TestMakeSession(t *testing.T) {
	name := os.Getenv(makerEnv)
	if name == "" {
		return // it is a part of TestSessionSurvivesItsMaker
	}
	engine, err := docker.Connect(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	engine.Dir, engine.OwnSessions = os.Getenv(makerEnv+"_DIR"), os.Getenv(makerEnv+"_OWN") != ""
	spec := specOf(baseImage(t, engine))
	spec.Session, spec.Deadline = name, time.Now().Add(time.Hour)
	box, err := engine.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	p, err := box.Exec(t.Context(), sandbox.Exec{Script: "echo kept >/work/file; sleep 1234 >/dev/null 2>&1 & " + sleeps, Dir: "/work", User: spec.User, Stdout: io.Discard, Stderr: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	p.Wait(t.Context())
	fmt.Printf("\nmade %s\n", box.Info().ID)
	select {} // until it is killed
}

func TestSessionSurvivesItsMaker(t *testing.T) {
	engine := connect(t)
	baseImage(t, engine)
	name := fmt.Sprintf("maker-%d", time.Now().UnixNano())
	maker := exec.Command(os.Args[0], "-test.run=^TestMakeSession$")
	maker.Env = append(os.Environ(), makerEnv+"="+name, makerEnv+"_DIR="+engine.Dir)
	madeBy(t, maker)
	maker.Process.Kill()
	maker.Wait()

	list, err := engine.Sessions(t.Context(), name)
	if err != nil || len(list) != 1 {
		t.Fatalf("%+v, error %v", list, err)
	}
	box, err := engine.Adopt(t.Context(), list[0])
	if err != nil {
		t.Fatal(err)
	}
	defer box.Remove(context.WithoutCancel(t.Context()))
	// Its owner is gone, but it is not an orphan.
	if m := managedAs(t, engine, box.Info().ID); m.Orphaned || m.Session != name {
		t.Errorf("%+v", m)
	}
	if _, err := engine.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	c := &inside{engine, box, specOf(baseImage(t, engine))}
	c.wants(t, check{"cat /work/file", "kept"})
	if runs, err := box.Processes(t.Context()); err != nil || len(runs) != 1 || runs[0].Command != "sleep 1234" {
		t.Errorf("%+v, error %v", runs, err)
	}
	// An adopted container keeps its lock-down.
	c.wants(t, check{"id -u; grep CapEff /proc/self/status | tr -d '\t'", "65534\nCapEff:0{16}"})
}

// Once it is there, a session is swept only past its deadline; before its start
// it is like any other that was never made.
func TestSweepOfSessions(t *testing.T) {
	engine := connect(t)
	made := func(deadline time.Duration, start bool) string {
		t.Helper()
		spec := specOf(baseImage(t, engine))
		spec.Session, spec.Deadline = spec.Command, time.Now().Add(deadline)
		// The PID is this process's, which began at another time.
		id, err := docker.MakeAs(t.Context(), engine, fmt.Sprintf("%d@1", os.Getpid()), spec)
		if err != nil {
			t.Fatal(err)
		}
		removeAfter(t, engine, id)
		if start {
			if err := engine.Client().ContainerStart(t.Context(), id, container.StartOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		return id
	}
	// A keeper ends at its deadline, even if it never started.
	live, late, unborn := made(time.Hour, true), made(-time.Second, false), made(time.Hour, false)
	if _, err := engine.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	for name, test := range map[string]struct {
		id   string
		want bool
	}{"live": {live, true}, "past its deadline": {late, false}, "never started": {unborn, false}} {
		if got := there(t, engine, test.id); got != test.want {
			t.Errorf("%s: there is %v, want %v", name, got, test.want)
		}
	}
}

func removeAfter(t *testing.T, engine *docker.Engine, id string) {
	t.Cleanup(func() {
		engine.Client().ContainerRemove(context.WithoutCancel(t.Context()), id, container.RemoveOptions{Force: true})
	})
}

// A keeper ends by itself, also where no belljar is left to end it, and what
// runs there with it.
func TestSessionEndsAtItsDeadline(t *testing.T) {
	t.Parallel()
	engine := connect(t)
	box, spec := sessionOf(t, engine, 30*time.Second)
	if _, err := box.Exec(t.Context(), sandbox.Exec{Script: "trap '' TERM; sleep 1000", Dir: "/work", User: spec.User, Stdout: io.Discard, Stderr: io.Discard}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-box.Lost():
	case <-time.After(2 * time.Minute):
		t.Fatal("it lives on")
	}
	if left := time.Until(spec.Deadline); left > time.Second { // it counts whole seconds
		t.Errorf("it ended %v before its deadline", left)
	}
	waitFor(t, "container gone", func() bool { return !there(t, engine, box.Info().ID) })
}

func TestPausedSession(t *testing.T) {
	t.Parallel()
	engine := connect(t)
	box, spec := sessionOf(t, engine, time.Hour)
	if err := engine.Client().ContainerPause(t.Context(), box.Info().ID); err != nil {
		t.Fatal(err)
	}
	select {
	case <-box.Lost():
	case <-time.After(time.Minute):
		t.Error("that it stands still is not told")
	}
	list, err := engine.Sessions(t.Context(), spec.Session)
	if err != nil || len(list) != 1 {
		t.Fatalf("%+v, error %v", list, err)
	}
	_, err = engine.Adopt(t.Context(), list[0])
	want := fmt.Sprintf("the container of session %q is paused (docker unpause %s)", spec.Session, box.Info().ID)
	if sandbox.CauseOf(err) != sandbox.CauseEngine || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	if err := engine.Client().ContainerUnpause(t.Context(), box.Info().ID); err != nil {
		t.Fatal(err)
	}
	again, err := engine.Adopt(t.Context(), list[0])
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	(&inside{engine, again, spec}).wants(t, check{"echo alive", "alive"})
}

// Where this host does not see the processes, they are killed from inside, by
// the PIDs there, and only as the process's own user may.
func TestKillFromInside(t *testing.T) {
	t.Parallel()
	engine := connect(t)
	box, spec := sessionOf(t, engine, time.Hour)
	c := &inside{engine, box, spec}
	c.run(t, "sleep 1001 >/dev/null 2>&1 & "+sleeps+"; sleep 1002 >/dev/null 2>&1 & "+sleeps)
	list, err := docker.ListInside(t.Context(), box)
	if err != nil {
		t.Fatal(err)
	}
	var doomed []sandbox.Process
	for _, p := range list {
		if p.SID == 0 || p.StartTicks == 0 {
			t.Errorf("%+v", p)
		}
		if p.Command == "sleep 1001" {
			doomed = append(doomed, p)
		}
	}
	if len(doomed) != 1 {
		t.Fatalf("%+v", list)
	}
	other := doomed[0] // had the PID before
	other.StartTicks--
	for _, list := range [][]sandbox.Process{{other}, doomed, doomed} {
		if err := docker.SignalInside(t.Context(), box, list, "SIGKILL"); err != nil {
			t.Error(err)
		}
		want := 1
		if list[0] == other {
			want = 2
		}
		waitFor(t, fmt.Sprintf("%d processes run", want), func() bool {
			runs, err := box.Processes(t.Context())
			return err == nil && len(runs) == want
		})
	}
	runs, err := box.Processes(t.Context())
	if err != nil || len(runs) != 1 || runs[0].Command != "sleep 1002" {
		t.Errorf("%+v, error %v", runs, err)
	}
	err = docker.SignalInside(t.Context(), box, []sandbox.Process{{HostPID: 1}}, "SIGKILL")
	if err == nil || !strings.Contains(err.Error(), "its PID in the container is unknown") {
		t.Errorf("error %v", err)
	}
}

// Where only the engine lists, no PID inside is known. All that runs gets the signal
// where it is one command's.
func TestSignalWithoutPIDs(t *testing.T) {
	t.Parallel()
	engine := connect(t)
	c := enter(t, engine, baseImage(t, engine))
	defer c.box.Remove(context.WithoutCancel(t.Context()))
	var out bytes.Buffer
	p, err := c.box.Exec(t.Context(), sandbox.Exec{
		Script: "sleep 1000 & trap 'echo got it; kill $!; exit 5' TERM; echo >/tmp/ready; while :; do sleep 0.1; done",
		Dir:    "/", User: c.spec.User, Stdout: &out, Stderr: io.Discard,
	})
	if err != nil {
		t.Fatal(err)
	}
	c.run(t, "until [ -e /tmp/ready ]; do sleep 0.05; done")
	list, err := docker.ListByEngine(t.Context(), c.box)
	if len(list) < 2 || list[0].PID != 0 { // which may lack a sleep that came or went
		t.Fatalf("%+v, error %v", list, err)
	}
	if err := docker.SignalInside(t.Context(), c.box, list, "SIGTERM"); err != nil {
		t.Error(err)
	}
	if status, err := p.Wait(t.Context()); status != 5 || err != nil || out.String() != "got it\n" {
		t.Errorf("status %d, error %v, output %q", status, err, &out)
	}
	waitFor(t, "nothing runs", func() bool {
		runs, err := c.box.Processes(t.Context())
		return err == nil && len(runs) == 0
	})
}

// What commands of other users left is killed as them, and nothing as root.
func TestKillFromInsideAsEachUser(t *testing.T) {
	engine := connect(t)
	box, spec := sessionOf(t, engine, time.Hour)
	for _, uid := range []int{65534, 1000, 2000} {
		spec.User = sandbox.User{UID: uid, GID: 50}
		c := &inside{engine, box, spec}
		c.run(t, "sleep 1001 >/dev/null 2>&1 &")
	}
	list, err := docker.ListInside(t.Context(), box)
	if err != nil || len(list) != 3 {
		t.Fatalf("%+v, error %v", list, err)
	}
	if err := docker.SignalInside(t.Context(), box, list, "SIGKILL"); err != nil {
		t.Error(err)
	}
	waitFor(t, "nothing runs", func() bool {
		runs, err := box.Processes(t.Context())
		return err == nil && len(runs) == 0
	})
	list[0].UID = 0
	if err := docker.SignalInside(t.Context(), box, list[:1], "SIGKILL"); sandbox.CauseOf(err) != sandbox.CauseInvalid {
		t.Errorf("error %v", err)
	}
}
