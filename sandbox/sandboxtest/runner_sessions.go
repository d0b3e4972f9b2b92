package sandboxtest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"belljar/sandbox"
)

func inSession(c *sandbox.Command) { c.Session = "dev" }

func (r *runner) remove(t *testing.T, name string) {
	t.Helper()
	if err := r.RemoveSession(r.ctx, name); err != nil {
		t.Errorf("RemoveSession: %v", err)
	}
}

var runnerSessionTests = map[string]func(*testing.T, *opener){
	"a session's files carry over": func(t *testing.T, o *opener) {
		r := o.runner(t)
		first := r.run(t, scriptSave, inSession)
		second := r.run(t, scriptLoad, inSession)
		wantOutput(t, "file", second.Stdout, "kept\n")
		if first.Session != "dev" || first.Container.Reused || !second.Container.Reused || first.Container.ID != second.Container.ID {
			t.Errorf("%+v, %+v", first.Container, second.Container)
		}
		wantOutput(t, "file of no session", r.run(t, scriptLoad).Stdout, "")
		r.remove(t, "dev")
		wantOutput(t, "file of the next", r.run(t, scriptLoad, inSession).Stdout, "")
		r.remove(t, "dev")
	},
	"sessions are listed with their running commands": func(t *testing.T, o *opener) {
		r := o.runner(t)
		if list, err := r.Sessions(r.ctx); err != nil || len(list) != 0 {
			t.Errorf("before: %+v, error %v", list, err)
		}
		r.run(t, scriptMarker, func(c *sandbox.Command) { c.Session = "other" })
		x := r.start(t, scriptStubborn, inSession)
		x.await(t, "ready")
		list, err := r.Sessions(r.ctx)
		if err != nil || len(list) != 2 || list[0].Name != "dev" || list[1].Name != "other" {
			t.Fatalf("%+v, error %v", list, err)
		}
		dev := list[0]
		if dev.Container == "" || dev.Image != "belljar/base" || dev.User != "65534:65534" || dev.Created.IsZero() || dev.Deadline.IsZero() || dev.Lost != "" || len(list[1].Runs) != 0 || list[1].Runs == nil {
			t.Errorf("%+v", list)
		}
		if len(dev.Runs) != 1 || dev.Runs[0].CommandID != x.ID() || dev.Runs[0].PID == 0 {
			t.Errorf("runs: %+v", dev.Runs)
		}
		x.Kill()
		wantCanceled(t, x)
		r.remove(t, "dev")
		r.remove(t, "other")
		if list, err := r.Sessions(r.ctx); err != nil || len(list) != 0 {
			t.Errorf("after: %+v, error %v", list, err)
		}
	},
	"a missing session": func(t *testing.T, o *opener) {
		r := o.runner(t)
		for _, name := range []string{"none", "", "a/b", ".."} {
			wantRefusal(t, "RemoveSession of "+name, r.RemoveSession(r.ctx, name), sandbox.CauseInvalid)
		}
	},
	"removing a session ends its commands": func(t *testing.T, o *opener) {
		r := o.runner(t)
		x := r.start(t, scriptStubborn, inSession)
		x.await(t, "ready")
		r.remove(t, "dev")
		if result := x.wait(t); result.Status == sandbox.StatusSuccess || string(result.Stdout.Bytes()) != "ready\n" {
			t.Errorf("%s, %s, stdout %q", result.Status, result.Cause, result.Stdout.Bytes())
		}
	},
	"a session's commands wait for each other": func(t *testing.T, o *opener) {
		r := o.runner(t)
		first := r.talk(t, inSession)
		first.awaitStart(t)
		second := r.start(t, scriptMarker, inSession)
		third := r.start(t, scriptMarker, inSession)
		third.cancel()
		wantFate(t, third.wait(t), sandbox.StatusCanceled, sandbox.CauseCanceled, sandbox.ExitNeverRan)
		first.typed.Close()
		first.wait(t)
		wantFate(t, second.wait(t), sandbox.StatusSuccess, sandbox.CauseExited, 0)
		r.remove(t, "dev")
	},
	"parallel commands of a session do not wait": func(t *testing.T, o *opener) {
		r := o.runner(t)
		parallel := func(c *sandbox.Command) { c.Session, c.Parallel = "dev", true }
		first := r.talk(t, parallel)
		first.awaitStart(t)
		wantFate(t, r.run(t, scriptMarker, parallel), sandbox.StatusSuccess, sandbox.CauseExited, 0)
		first.typed.Close()
		first.wait(t)
		r.remove(t, "dev")
	},
	"a command for an existing session makes none, also where it was lost meanwhile": func(t *testing.T, o *opener) {
		r := o.runner(t)
		existing := func(c *sandbox.Command) { c.Session, c.Existing = "dev", true }
		wantRefused := func(x *command, why string) {
			t.Helper()
			result := x.wait(t)
			wantFate(t, result, sandbox.StatusFatal, sandbox.CauseInvalid, sandbox.ExitNeverRan)
			if !strings.Contains(result.Message, why) {
				t.Errorf("message %q, want %q", result.Message, why)
			}
		}
		wantRefused(r.start(t, scriptMarker, existing), `no session "dev"`)
		x := r.start(t, scriptStubborn, inSession)
		x.await(t, "ready")
		waits := r.start(t, scriptMarker, existing)
		x.cancel()
		wantCanceled(t, x)
		wantRefused(waits, `session "dev" was lost`)
		if r.run(t, scriptMarker, inSession).SessionLost == "" {
			t.Error("the session was made anew")
		}
		wantFate(t, r.run(t, scriptMarker, existing), sandbox.StatusSuccess, sandbox.CauseExited, 0)
		r.remove(t, "dev")
	},
	"ending one command keeps its session": func(t *testing.T, o *opener) {
		r := o.runner(t)
		r.run(t, scriptSave, inSession)
		x := r.start(t, scriptStubborn, inSession, func(c *sandbox.Command) { c.OnTimeout = sandbox.EndCommand })
		x.await(t, "ready")
		x.cancel()
		wantCanceled(t, x)
		wantOutput(t, "file", r.run(t, scriptLoad, inSession).Stdout, "kept\n")
		r.remove(t, "dev")
	},
	"a lost session is reported": func(t *testing.T, o *opener) {
		r := o.runner(t)
		x := r.start(t, scriptStubborn, inSession)
		x.await(t, "ready")
		x.cancel()
		if lost := wantCanceled(t, x).SessionLost; lost == "" {
			t.Error("not by the command that lost it")
		}
		if r.run(t, scriptMarker, inSession).SessionLost == "" {
			t.Error("not by the next")
		}
		r.remove(t, "dev")
	},
}

var runnerCallerTests = map[string]func(*testing.T, *opener){
	"many callers at once": func(t *testing.T, o *opener) {
		r := o.runner(t, func(b *Behind) { b.Admission.MaxRunning = 4 })
		var all sync.WaitGroup
		for i := range 16 {
			all.Go(func() {
				want := strings.Repeat(fmt.Sprintf("caller %d\n", i), 1000)
				result, err := sandbox.Run(r.ctx, r, sandbox.Command{Script: scriptCat, Stdin: strings.NewReader(want)})
				if err != nil {
					t.Errorf("caller %d: %v", i, err)
				}
				wantOutput(t, "stdout", result.Stdout, want)
			})
		}
		all.Wait()
	},
	"a slow caller does not delay others": func(t *testing.T, o *opener) {
		r := o.runner(t)
		slow := r.start(t, scriptMuch) // whose events are not read
		wantFate(t, r.run(t, scriptMarker), sandbox.StatusSuccess, sandbox.CauseExited, 0)
		wantFate(t, slow.wait(t), sandbox.StatusSuccess, sandbox.CauseExited, 0)
	},
	"a pool reports its state": func(t *testing.T, o *opener) {
		r := o.runner(t, func(b *Behind) { b.Profile.Pool = sandbox.PoolSize{Min: 1, Max: 1, MaxAge: time.Hour} })
		for {
			list, err := r.Pools(r.ctx)
			if err != nil {
				t.Fatal(err)
			}
			if slices.ContainsFunc(list, func(p sandbox.PoolStatus) bool { return p.Profile == sandbox.DefaultProfile && p.Ready == 1 }) {
				break
			}
			select {
			case <-time.After(5 * time.Millisecond):
			case <-r.ctx.Done():
				t.Fatalf("%+v", list)
			}
		}
		result := r.run(t, scriptCat, stdinFrom(strings.NewReader("in")))
		if wantOutput(t, "stdout", result.Stdout, "in"); !result.Container.Warm {
			t.Errorf("%+v", result.Container)
		}
		if list, err := r.Pools(r.ctx); err != nil || len(list) != 1 || list[0].Used != 1 {
			t.Errorf("%+v, error %v", list, err)
		}
	},
	"no pool": func(t *testing.T, o *opener) {
		r := o.runner(t)
		if list, err := r.Pools(r.ctx); err != nil || len(list) != 0 {
			t.Errorf("%+v, error %v", list, err)
		}
	},
}
