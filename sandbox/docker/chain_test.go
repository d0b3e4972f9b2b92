package docker_test

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"belljar/sandbox"
	"belljar/sandbox/docker"
	"belljar/sandbox/internal/proc"
)

// chains are three processes that each start another and end, again and again:
// none is ever there for long, and each is in a session of its own. Beside them
// are one that is stopped, one that sleeps, and one that ended and is not waited
// for.
const chains = `
for i in 1 2 3; do setsid sh -c 'f() { f & }; f' chain & done
sh -c 'kill -STOP $$; exit' stopped &
sh -c 'sleep 0.01 & exec sleep 1000' &
echo`

// withChains is a container in which these run.
func withChains(t *testing.T) *inside {
	engine := connect(t)
	spec := specOf(baseImage(t, engine))
	spec.Limits.Pids, spec.Limits.CPUs = 1000, 2 // no fork is to be refused, and none to wait long
	c := enterAs(t, engine, spec)
	begun, says := io.Pipe()
	exec, err := c.box.Exec(t.Context(), sandbox.Exec{Script: chains + "; exec >/dev/null 2>&1; sleep 1000", Dir: "/", User: c.spec.User, Stdout: says, Stderr: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := begun.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := c.box.Remove(ctx); err != nil {
			t.Error(err)
		}
		exec.Wait(ctx)
	})
	quiet := 0
	waitFor(t, "everything has begun, and is in its state to stay", func() bool {
		list, _ := docker.ListByEngine(t.Context(), c.box) // which freezes nothing
		if quiet++; len(changed(list)) > 0 {
			quiet = 0
		}
		return quiet == 2
	})
	return c
}

// lacks says what of the above is not in a list.
func lacks(list []sandbox.Process) (missing []string) {
	sessions, found := map[int]bool{}, map[string]int{}
	for _, p := range list {
		if strings.HasSuffix(p.Command, " chain") {
			sessions[p.SID] = true
		}
		found[p.Command]++
	}
	if len(sessions) < 3 {
		missing = append(missing, "a chain")
	}
	for command, n := range map[string]int{"sleep 1000": 2, "sh -c kill -STOP $$; exit stopped": 1} {
		if found[command] < n {
			missing = append(missing, command)
		}
	}
	return missing
}

// changed says what of it is not in the state in which it was before anything
// was frozen.
func changed(list []sandbox.Process) (missing []string) {
	found := map[string]int{}
	for _, p := range list {
		found[p.State+" "+p.Command]++
	}
	for process, n := range map[string]int{"S sleep 1000": 2, "T sh -c kill -STOP $$; exit stopped": 1} {
		if found[process] < n {
			missing = append(missing, process)
		}
	}
	return missing
}

// TestForkChain: a process that starts another and ends, again and again, is in
// every list.
func TestForkChain(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("NOT TESTED: takes root, to freeze")
	}
	c := withChains(t)
	outran := 0
	for i := range 200 {
		list, err := c.box.Processes(t.Context())
		if errors.Is(err, proc.ErrMissed) && outran < 100 { // a busy host does not freeze them in time, and that is said
			outran++
			continue
		}
		if missing := changed(list); i == 0 && len(missing) > 0 {
			t.Errorf("%v is missing in the first list, %+v", missing, list)
		}
		if missing := lacks(list); err != nil || len(missing) > 0 {
			counters, _ := c.box.Counters(t.Context())
			t.Fatalf("%v is missing in %+v, error %v, evidence %+v", missing, list, err, counters.Evidence)
		}
	}
	if docker.Frozen(c.box) {
		t.Error("the processes stayed frozen")
	}
}

// TestForkChainUnfrozen: where processes cannot be frozen, as by a user other
// than root or far away, a list has them all, or says that it may lack some.
func TestForkChainUnfrozen(t *testing.T) {
	c := withChains(t)
	said := 0
	check := func(list []sandbox.Process, err error) {
		t.Helper()
		sids := slices.ContainsFunc(list, func(p sandbox.Process) bool { return p.SID != 0 })
		if missing := lacks(list); err == nil && sids && len(missing) > 0 {
			t.Fatalf("%v is missing in %+v", missing, list)
		} else if err == nil && !sids && len(list) < 6 {
			t.Fatalf("only %+v", list)
		} else if err != nil {
			said++
		}
	}
	docker.CannotFreeze(c.box)
	for range 200 {
		check(c.box.Processes(t.Context()))
	}
	for range 5 {
		check(docker.ListByEngine(t.Context(), c.box))
	}
	if said == 0 {
		t.Error("no list said that it may lack some")
	}
}

// TestListByEngine: the engine's list is whole where nothing comes and goes. What starts and
// ends is the engine's own, for a while.
func TestListByEngine(t *testing.T) {
	t.Parallel()
	engine := connect(t)
	c := enter(t, engine, baseImage(t, engine))
	whole := func() (list []sandbox.Process) {
		waitFor(t, "a whole list", func() (is bool) {
			var err error
			list, err = docker.ListByEngine(t.Context(), c.box)
			return err == nil
		})
		return list
	}
	if list := whole(); len(list) > 0 {
		t.Errorf("in an empty container: %+v", list)
	}
	c.run(t, "sleep 1000 >/dev/null 2>&1 & "+sleeps+"; setsid sleep 1001 >/dev/null 2>&1 & "+sleeps)
	list := whole()
	for len(list) == 2 && list[0].State != "S" { // it may still be loading
		list = whole()
	}
	if len(list) != 2 || !strings.HasPrefix(list[0].Command, "sleep 100") {
		t.Errorf("%+v", list)
	}
}

// TestFrozenByOthers: a paused container stays paused when it is listed,
// and one that was frozen by a belljar that was killed then continues once it is adopted.
func TestFrozenByOthers(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("NOT TESTED: takes root, to freeze")
	}
	c := withChains(t)
	waitFor(t, "a pause", func() bool { // runc gives up on chains that outrun its tries
		return c.engine.Client().ContainerPause(t.Context(), c.box.Info().ID) == nil
	})
	if _, err := c.box.Processes(t.Context()); err != nil || !docker.Frozen(c.box) {
		t.Errorf("after a list, frozen: %v, error %v", docker.Frozen(c.box), err)
	}
	if err := c.engine.Client().ContainerUnpause(t.Context(), c.box.Info().ID); err != nil {
		t.Fatal(err)
	}
	if err := docker.Freeze(c.box); err != nil {
		t.Fatal(err)
	}
	again, err := c.engine.Adopt(t.Context(), sandbox.Kept{ID: c.box.Info().ID})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if docker.Frozen(c.box) {
		t.Error("the processes stayed frozen")
	}
}
