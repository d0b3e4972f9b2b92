package local_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/sandboxtest"
)

func TestExit(t *testing.T) {
	for _, test := range []struct {
		exit   int
		status sandbox.Status
		cause  sandbox.Cause
		signal string
	}{
		{0, sandbox.StatusSuccess, sandbox.CauseExited, ""},
		{1, sandbox.StatusError, sandbox.CauseExited, ""},
		{137, sandbox.StatusError, sandbox.CauseSignaled, "SIGKILL"},
		{255, sandbox.StatusError, sandbox.CauseExited, ""},
	} {
		engine := playing(func(p *sandboxtest.Proc) int {
			fmt.Fprint(p.Stdout, "out")
			fmt.Fprint(p.Stderr, "err")
			return test.exit
		})
		r := run(t, engine, sandbox.Command{ID: "mine", Script: "x", Dir: "/tmp"})
		wantFate(t, r, test.status, test.cause, test.exit)
		wantStream(t, "stdout", r.Stdout, "out")
		wantStream(t, "stderr", r.Stderr, "err")
		if r.Signal != test.signal || r.ID != "mine" || r.Command != "x" || r.Dir != "/tmp" || r.Profile != "default" ||
			r.Container.Image != "belljar/base" || r.Evidence.Source != "script" || len(r.Lingering) != 0 {
			t.Errorf("%+v", r)
		}
	}
}

func TestLingering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, playing(func(p *sandboxtest.Proc) int {
			p.Start("quiet", func(p *sandboxtest.Proc) int { p.CloseOutput(); p.Sleep(time.Hour); return 0 })
			p.Start("holder", sleep(time.Hour))
			return 0
		}), command())
		wantFate(t, r, sandbox.StatusSuccess, sandbox.CauseExited, 0)
		if len(r.Lingering) != 2 || r.Lingering[0].Command != "quiet" || r.Lingering[1].Command != "holder" {
			t.Errorf("lingering: %+v", r.Lingering)
		}
	})
}

func TestOutputLimit(t *testing.T) {
	write := func(sizes ...int) func(p *sandboxtest.Proc) int {
		return func(p *sandboxtest.Proc) int {
			for _, n := range sizes {
				fmt.Fprint(p.Stdout, strings.Repeat("x", n))
			}
			return 0
		}
	}
	for name, test := range map[string]struct {
		action     sandbox.OutputAction
		play       func(p *sandboxtest.Proc) int
		status     sandbox.Status
		cause      sandbox.Cause
		exit       int
		head, tail int
		total      int64
	}{
		"truncated":          {sandbox.OutputTruncate, write(1000, 3096), sandbox.StatusSuccess, sandbox.CauseExited, 0, 512, 512, 4096},
		"just not truncated": {sandbox.OutputTruncate, write(1000, 24), sandbox.StatusSuccess, sandbox.CauseExited, 0, 1024, 0, 1024},
		"ended":              {sandbox.OutputEnd, func(p *sandboxtest.Proc) int { write(1000, 100)(p); p.Sleep(time.Hour); return 0 }, sandbox.StatusError, sandbox.CauseOutputLimit, sandbox.ExitEnded, 1024, 0, 1100},
		"just not ended":     {sandbox.OutputEnd, write(1000, 24), sandbox.StatusSuccess, sandbox.CauseExited, 0, 1024, 0, 1024},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := command()
				c.OnOutputLimit, c.Limits.Output = test.action, 1024
				r := run(t, playing(test.play), c)
				wantFate(t, r, test.status, test.cause, test.exit)
				o := r.Stdout
				if len(o.Head) != test.head || len(o.Tail) != test.tail || o.Total != test.total || o.Dropped != test.total-int64(test.head+test.tail) {
					t.Errorf("head %d, tail %d, dropped %d, total %d", len(o.Head), len(o.Tail), o.Dropped, o.Total)
				}
			})
		})
	}
}

func TestCancel(t *testing.T) {
	for name, test := range map[string]struct {
		engine  *sandboxtest.Engine
		resolve sandboxtest.Fault
		after   time.Duration
		exit    int
	}{
		"before the start":   {engine: playing(say("never"))},
		"in the image":       {engine: playing(say("never")), resolve: sandboxtest.Hang, after: time.Second, exit: sandbox.ExitNeverRan},
		"in the creation":    {engine: &sandboxtest.Engine{OnCreate: sandboxtest.Hang}, after: time.Second, exit: sandbox.ExitNeverRan},
		"in the exec":        {engine: &sandboxtest.Engine{OnExec: sandboxtest.Hang}, after: time.Second, exit: sandbox.ExitNeverRan},
		"while it runs":      {engine: playing(say("partial")), after: time.Second, exit: sandbox.ExitEnded},
		"while it is listed": {engine: &sandboxtest.Engine{Script: say("partial"), OnProcesses: sandboxtest.Hang}, after: time.Second, exit: sandbox.ExitEnded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := cancelAfter(t, test.after)
				if test.after == 0 {
					test.exit = sandbox.ExitNeverRan
					synctest.Wait()
				}
				runner := newLocal(test.engine)
				runner.Images = &sandboxtest.Images{OnResolve: test.resolve}
				r, err := sandbox.Run(ctx, runner, command())
				if err != nil {
					t.Errorf("error %v", err)
				}
				wantFate(t, r, sandbox.StatusCanceled, sandbox.CauseCanceled, test.exit)
				if test.exit == sandbox.ExitEnded {
					wantStream(t, "stdout", r.Stdout, "partial")
				}
				wantNoneLeft(t, test.engine)
			})
		})
	}
}

// An engine that does not list what runs costs 2 seconds, and none after a
// Kill.
func TestKillCutsTheListingShort(t *testing.T) {
	for _, test := range []struct{ kill, end time.Duration }{{0, 12 * time.Second}, {11 * time.Second, 11 * time.Second}, {5 * time.Second, 5 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			began, c := time.Now(), command()
			c.Timeout = 10 * time.Second
			engine := playing(say("partial"))
			engine.OnProcesses = sandboxtest.Hang
			x := begin(t, engine, c)
			if test.kill > 0 {
				time.AfterFunc(test.kill, x.Kill)
			}
			r, err := x.Wait()
			if err != nil || r.Evidence.ListError == "" || r.Lingering != nil {
				t.Errorf("error %v, evidence %+v, lingering %+v", err, r.Evidence, r.Lingering)
			}
			wantStream(t, "stdout", r.Stdout, "partial")
			wantAfter(t, began, test.end)
			wantNoneLeft(t, engine)
		})
	}
}

func TestEngineFaults(t *testing.T) {
	refusal := &sandbox.Error{Cause: sandbox.CauseEngine, Message: "no", Hint: "none"}
	lost := &sandbox.Error{Cause: sandbox.CauseEngineLost, Message: "away", Hint: "none"}
	partial := func(p *sandboxtest.Proc) int {
		fmt.Fprint(p.Stdout, "partial")
		p.Lose(lost)
		p.Sleep(time.Hour)
		return 0
	}
	outside := func(p *sandboxtest.Proc) int { fmt.Fprint(p.Stdout, "partial"); p.KillContainer(); return 0 }
	for name, test := range map[string]struct {
		engine *sandboxtest.Engine
		cause  sandbox.Cause
		stdout string
	}{
		"create":           {&sandboxtest.Engine{OnCreate: sandboxtest.Fail(refusal)}, sandbox.CauseEngine, ""},
		"create, unknown":  {&sandboxtest.Engine{OnCreate: sandboxtest.Fail(errors.New("odd"))}, sandbox.CauseEngine, ""},
		"create hangs":     {&sandboxtest.Engine{OnCreate: sandboxtest.Hang}, sandbox.CauseEngine, ""},
		"exec":             {&sandboxtest.Engine{OnExec: sandboxtest.Fail(lost)}, sandbox.CauseEngineLost, ""},
		"engine lost":      {playing(partial), sandbox.CauseEngineLost, "partial"},
		"removed by other": {playing(outside), sandbox.CauseEngineLost, "partial"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := run(t, test.engine, command())
				wantFate(t, r, sandbox.StatusFatal, test.cause, sandbox.ExitNeverRan)
				wantStream(t, "stdout", r.Stdout, test.stdout)
				if name == "create hangs" && !strings.HasPrefix(r.Message, "creating the container took longer than 1m:") {
					t.Errorf("message %q", r.Message)
				}
			})
		})
	}
}

func TestUncertainCountersAreNoSource(t *testing.T) {
	engine := playing(func(*sandboxtest.Proc) int { return 1 })
	engine.OnCounters = sandboxtest.Fail(errors.New("odd"))
	r := run(t, engine, command())
	wantFate(t, r, sandbox.StatusError, sandbox.CauseExited, 1)
	if r.Evidence.Source != "" {
		t.Errorf("source %q", r.Evidence.Source)
	}
}

// A container that may still be there is said so, and the command's fate
// stays.
func TestRemoveFails(t *testing.T) {
	for name, fault := range map[string]sandboxtest.Fault{"error": sandboxtest.Fail(errors.New("busy")), "hang": sandboxtest.Hang} {
		for _, play := range []func(p *sandboxtest.Proc) int{sleep(time.Second), sleep(time.Hour)} {
			synctest.Test(t, func(t *testing.T) {
				engine := playing(play)
				engine.OnRemove = fault
				x := begin(t, engine, command())
				var notices []string
				for _, e := range wantEvents(t, x) {
					if e.Type == sandbox.EventNotice {
						notices = append(notices, string(e.Data))
					}
				}
				r, err := x.Wait()
				want := "removing container fake1 failed, it may still exist: "
				if err != nil || !strings.HasPrefix(r.Evidence.RemoveError, want) || len(notices) != 1 || !strings.HasPrefix(notices[0], want) {
					t.Errorf("%s: error %v, remove error %q, notices %q", name, err, r.Evidence.RemoveError, notices)
				}
				if r.Status != sandbox.StatusSuccess && r.Status != sandbox.StatusTimeout {
					t.Errorf("%s: status %s", name, r.Status)
				}
				engine.OnRemove = nil
				for _, box := range engine.Left() {
					box.Remove(context.Background())
				}
			})
		}
	}
}

// What explains a command's end is what was counted up to then: what it left running may reach a limit later. Only
// what the kernel killed because it was out of memory may be heard of later.
func TestCountedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, playing(func(p *sandboxtest.Proc) int {
			p.Start("bomb", func(p *sandboxtest.Proc) int {
				<-p.Killed
				p.Count(func(c *sandbox.Counters) { c.PidsLimitHits = 7 })
				return 0
			})
			return 1
		}), command())
		wantFate(t, r, sandbox.StatusError, sandbox.CauseExited, 1)
		if r.Evidence.PidsLimitHits != 7 {
			t.Errorf("%+v", r.Evidence)
		}
	})
	for _, lingers := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var mine *sandboxtest.Proc
			asked := 0
			engine := playing(func(p *sandboxtest.Proc) int {
				mine = p
				if lingers {
					p.Start("holder", sleep(time.Hour))
				}
				return statusKilled
			})
			engine.OnCounters = func(context.Context) error {
				if asked++; asked == 2 {
					mine.Count(func(c *sandbox.Counters) { c.OOMKills = 1 })
				}
				return nil
			}
			r := run(t, engine, command())
			wantFate(t, r, sandbox.StatusError, sandbox.CauseOOMKilled, statusKilled)
			if r.Evidence.OOMKills != 1 || r.Evidence.KilledBy != "oom" {
				t.Errorf("%+v", r.Evidence)
			}
		})
	}
}

const statusKilled = 137

// The command lines of what lingers are bounded, all together, and the first ones whole.
func TestManyLongCommandLines(t *testing.T) {
	const count, long = 400, 4000
	for name, test := range map[string]struct{ size, whole, cut int }{
		"too long": {long, (1 << 20) / long, count - (1<<20)/long},
		"not":      {(1 << 20) / count, count, 0},
		"short":    {64, count, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := run(t, playing(func(p *sandboxtest.Proc) int {
				for range count {
					p.Start(strings.Repeat("é", test.size/2), func(p *sandboxtest.Proc) int { p.CloseOutput(); p.Sleep(time.Hour); return 0 })
				}
				return 0
			}), command())
			whole, cut := 0, 0
			for _, p := range r.Lingering {
				if len(p.Command) == test.size/2*2 {
					whole++
				} else if len(p.Command) <= 64+len("…") && strings.HasSuffix(p.Command, "é…") {
					cut++
				}
			}
			if near := test.cut - cut; near < -20 || near > 20 || whole+cut != count {
				t.Errorf("%s: %d whole, %d cut", name, whole, cut)
			}
			said := fmt.Sprintf("truncated: the command lines of %d processes are cut, as all take more than 1 MiB", cut)
			if cut == 0 {
				said = ""
			}
			if r.Evidence.ListError != said {
				t.Errorf("%s: %q", name, r.Evidence.ListError)
			}
		})
	}
}
