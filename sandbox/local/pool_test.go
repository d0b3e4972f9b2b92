package local_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"belljar/internal/target"
	"belljar/sandbox"
	"belljar/sandbox/local"
	"belljar/sandbox/sandboxtest"
)

// warm is a runner with a pool of that size for the default profile, filled as
// far as that takes no time. After the test nothing of it may be left.
func warm(t *testing.T, e *sandboxtest.Engine, size sandbox.PoolSize, change ...func(l *local.Local)) *local.Local {
	t.Helper()
	l, p := newLocal(e), profile()
	p.Pool = size
	l.Profiles["default"] = p
	for _, change := range change {
		change(l)
	}
	l.Warm()
	t.Cleanup(func() {
		l.Close()
		wantNoneLeft(t, e)
	})
	synctest.Wait()
	return l
}

func size(least, most int) sandbox.PoolSize {
	return sandbox.PoolSize{Min: least, Max: most, MaxAge: time.Hour}
}

// wantPool wants the default profile's pool in that state.
func wantPool(t *testing.T, l *local.Local, want sandbox.PoolStatus) {
	t.Helper()
	synctest.Wait()
	want.Profile = "default"
	if got := pools(l); len(got) != 1 || got[0] != want {
		t.Errorf("pools are\n%+v, want\n%+v", got, want)
	}
}

// wantRun runs a command that succeeds, warm or not.
func wantRun(t *testing.T, l *local.Local, c sandbox.Command, warm bool) sandbox.Result {
	t.Helper()
	r, err := sandbox.Run(t.Context(), l, c)
	if err != nil {
		t.Error(err)
	}
	wantFate(t, r, sandbox.StatusSuccess, sandbox.CauseExited, 0)
	if r.Container.Warm != warm || r.Container.Reused {
		t.Errorf("container %+v, want warm %v", r.Container, warm)
	}
	return r
}

func TestPoolIsFilled(t *testing.T) {
	eachWay(t, func(t *testing.T, way string) {
		engine := playing(sleep(time.Second))
		engine.Way = way
		l := warm(t, engine, size(3, 5), func(l *local.Local) {
			other := l.Profiles["default"]
			other.Network = "bridge"
			l.Profiles["other"] = other
			none := profile()
			l.Profiles["none"] = none
		})
		wantPool(t, l, sandbox.PoolStatus{Ready: 3, Target: 3, Made: 3})
		for _, spec := range engine.Specs() {
			if spec.Pool != "default" || spec.Session != "" {
				t.Errorf("made %+v", spec)
			}
		}
		r := wantRun(t, l, command(), true)
		if r.Timing.Start != 0 || r.Timing.Total != time.Second {
			t.Errorf("timing %+v", r.Timing)
		}
		wantPool(t, l, sandbox.PoolStatus{Ready: 3, Target: 3, Made: 4, Used: 1})

		for _, test := range []struct {
			profile string
			warm    bool
		}{{"none", false}, {"other", false}, {"other", true}, {"none", false}} {
			c := command()
			c.Profile = test.profile
			wantRun(t, l, c, test.warm)
			time.Sleep(time.Second)
		}
		if pools := pools(l); len(pools) != 2 || pools[1].Profile != "other" || pools[1].Ready < 3 || pools[1].Used != 1 {
			t.Errorf("pools %+v", pools)
		}
	})
}

// Each command runs once, each container is for one of them, and there are
// never more of them ready than may be.
func TestPoolBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callers, most = 50, 8
		var mu sync.Mutex
		ran := map[string]int{}
		var running atomic.Pointer[local.Local]
		engine := playing(func(p *sandboxtest.Proc) int {
			mu.Lock()
			ran[p.Script]++
			mu.Unlock()
			fmt.Fprint(p.Stdout, p.Script)
			p.Sleep(time.Second)
			return 0
		})
		engine.OnCreate = func(context.Context) error {
			time.Sleep(100 * time.Millisecond)
			if l := running.Load(); l != nil {
				for _, s := range pools(l) {
					if s.Ready+s.Making > most || s.Target > most {
						t.Errorf("too many: %+v", s)
					}
				}
			}
			return nil
		}
		l := warm(t, engine, size(most, most))
		running.Store(l)
		time.Sleep(time.Minute)
		wantPool(t, l, sandbox.PoolStatus{Ready: most, Target: most, Made: most})

		results := make([]sandbox.Result, callers)
		var all sync.WaitGroup
		for i := range results {
			all.Go(func() {
				results[i], _ = sandbox.Run(t.Context(), l, sandbox.Command{Script: fmt.Sprint("command ", i)})
			})
		}
		all.Wait()
		boxes, warmed := map[string]bool{}, 0
		for i, r := range results {
			wantFate(t, r, sandbox.StatusSuccess, sandbox.CauseExited, 0)
			wantStream(t, "stdout", r.Stdout, fmt.Sprint("command ", i))
			if boxes[r.Container.ID] || ran[r.Command] != 1 {
				t.Errorf("%s ran %d times, in %s again", r.Command, ran[r.Command], r.Container.ID)
			}
			boxes[r.Container.ID] = true
			if r.Container.Warm {
				warmed++
			}
		}
		if warmed < most {
			t.Errorf("%d were warm", warmed)
		}
		time.Sleep(time.Minute)
		if s := pools(l)[0]; s.Ready != most || s.Used != warmed || s.Used+s.Missed != callers || s.Lost+s.Drained != 0 {
			t.Errorf("afterwards: %+v", s)
		}
	})
}

// What does not fit the pool goes cold, and leaves the pool alone.
func TestPoolFits(t *testing.T) {
	dir := t.TempDir()
	for name, test := range map[string]struct {
		change func(c *sandbox.Command)
		warm   bool
	}{
		"nothing":          {func(*sandbox.Command) {}, true},
		"directory":        {func(c *sandbox.Command) { c.Dir = "/it's\nhere" }, true},
		"variables":        {func(c *sandbox.Command) { c.Env = []string{"A=1", "B='\n"} }, true},
		"stdin":            {func(c *sandbox.Command) { c.Stdin = strings.NewReader("in") }, true},
		"timeouts":         {func(c *sandbox.Command) { c.Timeout, c.IdleTimeout = time.Hour, sandbox.NoIdleTimeout }, true},
		"output":           {func(c *sandbox.Command) { c.Limits.Output = 2048 }, true},
		"the same, named":  {func(c *sandbox.Command) { c.Image, c.Network = "belljar/base", "none" }, true},
		"pull":             {func(c *sandbox.Command) { c.Pull = sandbox.PullAlways }, true},
		"image":            {func(c *sandbox.Command) { c.Image = "other" }, false},
		"mounts":           {func(c *sandbox.Command) { c.Mounts = []sandbox.Mount{{Source: dir, Target: "/src"}} }, false},
		"a volume":         {func(c *sandbox.Command) { c.Mounts = []sandbox.Mount{{Source: "cache", Target: "/src"}} }, false},
		"memory":           {func(c *sandbox.Command) { c.Limits.Memory = 1 << 30 }, false},
		"cpus":             {func(c *sandbox.Command) { c.Limits.CPUs = 2 }, false},
		"pids":             {func(c *sandbox.Command) { c.Limits.Pids = 20 }, false},
		"tmp":              {func(c *sandbox.Command) { c.Limits.Tmp = 1 << 20 }, false},
		"files":            {func(c *sandbox.Command) { c.Limits.Files = 99 }, false},
		"user":             {func(c *sandbox.Command) { c.User = sandbox.User{UID: 7, GID: 7} }, false},
		"network":          {func(c *sandbox.Command) { c.Network = "bridge" }, false},
		"runtime":          {func(c *sandbox.Command) { c.Runtime = "runsc" }, false},
		"exotic variable":  {func(c *sandbox.Command) { c.Env = []string{"a.b-c=1"} }, false},
		"shell's variable": {func(c *sandbox.Command) { c.Env = []string{"UID=1"} }, false},
		"long delivery":    {func(c *sandbox.Command) { c.Env = large(2) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got sandbox.Exec
				engine := playing(func(p *sandboxtest.Proc) int { got = p.Exec; return 0 })
				l := warm(t, engine, size(1, 1), func(l *local.Local) {
					p := l.Profiles["default"]
					p.Policy = policy{}
					l.Profiles["default"] = p
				})
				c := command()
				test.change(&c)
				wantRun(t, l, c, test.warm)
				want := sandbox.PoolStatus{Ready: 1, Target: 1, Made: 1}
				if test.warm {
					want.Made, want.Used = 2, 1
				}
				time.Sleep(time.Minute)
				wantPool(t, l, want)
				dir := c.Dir
				if dir == "" {
					dir = "/work"
				}
				if got.Script != c.Script || got.Dir != dir || len(got.Env) != len(c.Env)+1 {
					t.Errorf("ran %+.300v", got)
				}
			})
		})
	}
}

func TestPoolMaxAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := playing(sleep(time.Second))
		l := warm(t, engine, size(2, 2))
		time.Sleep(time.Hour - 1)
		wantPool(t, l, sandbox.PoolStatus{Ready: 2, Target: 2, Made: 2})
		old := engine.Left()
		time.Sleep(time.Second)
		wantPool(t, l, sandbox.PoolStatus{Ready: 2, Target: 2, Made: 4, Drained: 2})
		r := wantRun(t, l, command(), true)
		for _, box := range old {
			if box.Info().ID == r.Container.ID {
				t.Errorf("the command ran in %s, which was too old", r.Container.ID)
			}
		}
		// It may begin in the last moment of its age, for the longest command.
		p := profile()
		for _, spec := range engine.Specs() {
			if left := time.Until(spec.Deadline); left < p.MaxTimeout-time.Minute {
				t.Errorf("swept away after %v", left)
			}
		}
	})
}

// A container that ends or stands still while it waits is replaced at once.
func TestPoolMemberIsLost(t *testing.T) {
	for name, lose := range map[string]func(c *sandboxtest.Container){
		"ended": (*sandboxtest.Container).End, "stopped": (*sandboxtest.Container).Stop,
	} {
		t.Run(name, func(t *testing.T) {
			eachWay(t, func(t *testing.T, way string) {
				engine := playing(sleep(time.Second))
				engine.Way = way
				l := warm(t, engine, size(2, 2))
				time.Sleep(time.Minute)
				began, old := time.Now(), engine.Left()
				for _, box := range old {
					lose(box)
				}
				wantPool(t, l, sandbox.PoolStatus{Ready: 2, Target: 2, Made: 4, Lost: 2})
				wantAfter(t, began, 0)
				if n := len(engine.Left()); n != 2 {
					t.Errorf("%d containers, want 2", n)
				}
				for range 2 {
					if r := wantRun(t, l, command(), true); r.Container.ID == old[0].Info().ID || r.Container.ID == old[1].Info().ID {
						t.Errorf("ran in %s, which was lost", r.Container.ID)
					}
				}
			})
		})
	}
}

// A container that goes in the moment it is taken: the command runs once, here
// or there, or is honestly lost.
func TestPoolMemberEndsAsItIsTaken(t *testing.T) {
	eachWay(t, func(t *testing.T, way string) {
		var ran atomic.Int32
		engine := playing(func(*sandboxtest.Proc) int { ran.Add(1); return 0 })
		engine.Way = way
		l := warm(t, engine, size(1, 1))
		for i := range 50 {
			ran.Store(0)
			box := engine.Left()[0]
			var all sync.WaitGroup
			all.Go(box.End)
			r, _ := sandbox.Run(t.Context(), l, command())
			all.Wait()
			if n := ran.Load(); n > 1 || r.Status == sandbox.StatusSuccess && n != 1 || r.Status != sandbox.StatusSuccess && r.Cause != sandbox.CauseEngineLost {
				t.Errorf("turn %d: ran %d times, %s, %s", i, n, r.Status, r.Message)
			}
			time.Sleep(time.Minute)
		}
	})
}

func TestGateDoesNotAnswer(t *testing.T) {
	for silent := range 4 {
		t.Run(fmt.Sprintf("%d of 3", silent), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked, ran atomic.Int32
				engine := playing(func(*sandboxtest.Proc) int { ran.Add(1); return 0 })
				engine.OnAnswer = func(context.Context) error {
					if int(asked.Add(1)) <= silent {
						return errors.New("silent")
					}
					return nil
				}
				l := warm(t, engine, size(3, 3))
				engine.OnCreate = func(context.Context) error { time.Sleep(10 * time.Second); return nil }
				began := time.Now()
				r := wantRun(t, l, command(), silent < 3)
				want := time.Duration(silent) * 2 * time.Second
				if silent == 3 {
					want += 10 * time.Second
				}
				wantAfter(t, began, want)
				if ran.Load() != 1 || r.Timing.Start != want {
					t.Errorf("ran %d times, timing %+v", ran.Load(), r.Timing)
				}
				time.Sleep(time.Minute)
				used := silent + 1
				if silent == 3 {
					used = 3
				}
				if s := pools(l)[0]; s.Lost != silent || s.Ready != 3 || s.Used != used {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

// Once a bug of execution.warm: a caller that gives up while a gate is asked costs the
// pool all its containers: each counts as one that did not answer.
func TestCancelCostsOneContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := playing(sleep(time.Second))
		engine.OnAnswer = sandboxtest.Fail(errors.New("silent"))
		l := warm(t, engine, size(4, 4))
		r, _ := sandbox.Run(cancelAfter(t, time.Second), l, command())
		wantFate(t, r, sandbox.StatusCanceled, sandbox.CauseCanceled, sandbox.ExitNeverRan)
		synctest.Wait()
		if s := pools(l)[0]; s.Lost+s.Used > 2 || s.Made > 5 {
			t.Errorf("more than one container was spent: %+v", s)
		}
	})
}

// Once a bug of execution.warm: where no gate answers, the pool makes new ones faster than
// the command tries them, so that it tries for ever, with no clock to end that.
func TestMuteGatesHoldNoCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := playing(sleep(time.Second))
		engine.OnCreate = func(context.Context) error { time.Sleep(100 * time.Millisecond); return nil }
		engine.OnAnswer = sandboxtest.Fail(errors.New("mute"))
		l := warm(t, engine, size(2, 2))
		time.Sleep(time.Minute)
		r, _ := sandbox.Run(cancelAfter(t, time.Minute), l, command())
		wantFate(t, r, sandbox.StatusSuccess, sandbox.CauseExited, 0)
		if r.Container.Warm || r.Timing.Start > 10*time.Second {
			t.Errorf("%+v, %+v", r.Container, r.Timing)
		}
	})
}

// A shell that is not a gate: its output is not the command's, and it never gets
// the command where it says too much.
func TestHostileGate(t *testing.T) {
	pid := func(p *sandboxtest.Proc) { fmt.Fprintln(p.Stdout, 7) }
	for name, gate := range map[string]func(p *sandboxtest.Proc) int{
		"silent":         sleep(24 * time.Hour),
		"ends":           func(*sandboxtest.Proc) int { return 0 },
		"PID and end":    func(p *sandboxtest.Proc) int { pid(p); p.Sleep(10 * time.Second); return 0 },
		"PID only":       func(p *sandboxtest.Proc) int { pid(p); p.Sleep(24 * time.Hour); return 0 },
		"no line's end":  say("7"),
		"no PID":         say("hostile\n"),
		"long":           say(strings.Repeat("7", 1<<20) + "\n"),
		"on stderr only": func(p *sandboxtest.Proc) int { fmt.Fprintln(p.Stderr, 7); p.Sleep(24 * time.Hour); return 0 },
		"flood": func(p *sandboxtest.Proc) int {
			for {
				fmt.Fprint(p.Stdout, strings.Repeat("hostile", 10000))
				p.Sleep(time.Second)
			}
		},
		"flood of lines":            func(p *sandboxtest.Proc) int { pid(p); return say(strings.Repeat("hostile\n", 1000))(p) },
		"flood of ends":             func(p *sandboxtest.Proc) int { pid(p); return say(strings.Repeat("\n", 1000))(p) },
		"answers before the answer": func(p *sandboxtest.Proc) int { pid(p); return say("\n\n")(p) },
		"another answer":            func(p *sandboxtest.Proc) int { pid(p); p.Stdin.Read(make([]byte, 1)); return say("hostile\n")(p) },
		"answers twice": func(p *sandboxtest.Proc) int {
			pid(p)
			p.Stdin.Read(make([]byte, 1))
			return say("\n\n")(p)
		},
		"answers and more": func(p *sandboxtest.Proc) int {
			pid(p)
			p.Stdin.Read(make([]byte, 1))
			return say("\nhostile")(p)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ran atomic.Int32
				engine := playing(func(p *sandboxtest.Proc) int { ran.Add(1); fmt.Fprint(p.Stdout, "right"); return 0 })
				engine.Gate = gate
				l := warm(t, engine, size(2, 2))
				time.Sleep(5 * time.Minute)
				began := time.Now()
				r, _ := sandbox.Run(cancelAfter(t, time.Minute), l, command())
				want := "right"
				if r.Status != sandbox.StatusSuccess {
					want = ""
					// It is honest at least, and soon.
					wantFate(t, r, sandbox.StatusFatal, sandbox.CauseEngineLost, sandbox.ExitNeverRan)
				}
				if n := int(ran.Load()); n > 1 || n != len(want)/5 || r.Container.Warm == (r.Status == sandbox.StatusSuccess) {
					t.Errorf("ran %d times, %+v", n, r.Container)
				}
				if took := time.Since(began); took > 10*time.Second {
					t.Errorf("took %v", took)
				}
				wantStream(t, "stdout", r.Stdout, want)
				wantStream(t, "stderr", r.Stderr, "")
			})
		})
	}
}

// What the gate said before its command is not the command's, however it comes.
func TestGateNoiseIsNotTheCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, asked := playing(nil), 0
		engine.Gate = func(p *sandboxtest.Proc) int {
			fmt.Fprint(p.Stderr, "warning: cannot change locale\n")
			fmt.Fprint(p.Stdout, "1")
			fmt.Fprint(p.Stdout, "2\n")
			in := bufio.NewReader(p.Stdin)
			for line := "\n"; line == "\n"; line, _ = in.ReadString('\n') {
				fmt.Fprint(p.Stderr, "more")
				fmt.Fprint(p.Stdout, "\n"[:min(1, asked)])
				asked++
			}
			fmt.Fprint(p.Stdout, "\nout\n\n")
			fmt.Fprint(p.Stderr, "err")
			return 0
		}
		l := warm(t, engine, size(1, 1))
		r := wantRun(t, l, command(), true)
		wantStream(t, "stdout", r.Stdout, "out\n\n")
		wantStream(t, "stderr", r.Stderr, "err")
	})
}

func TestWarmDirectoryIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := &sandboxtest.Engine{Etc: map[string]string{"/no/such/directory/file": ""}} // which another user may enter
		l := warm(t, engine, size(1, 1))
		c := command()
		c.Dir = "/no/such/directory"
		r, err := sandbox.Run(t.Context(), l, c)
		wantFate(t, r, sandbox.StatusFatal, sandbox.CauseInvalid, sandbox.ExitNeverRan)
		if want := target.NoDirError(c.Dir).Error(); err == nil || err.Error() != want || r.Message != want {
			t.Errorf("error %v, message %q", err, r.Message)
		}
		wantStream(t, "stdout", r.Stdout, "")
	})
}

func TestPoolImageChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, images := playing(sleep(time.Second)), &sandboxtest.Images{}
		l := warm(t, engine, size(2, 2), func(l *local.Local) { l.Images = images })
		for i := range 5 {
			id := fmt.Sprint("sha256:new", i)
			images.Change("belljar/base", id)
			r, err := sandbox.Run(t.Context(), l, command()) // warm or not
			if err != nil || r.Container.ImageDigest != id {
				t.Errorf("ran on %s, want %s; error %v", r.Container.ImageDigest, id, err)
			}
			time.Sleep(time.Second)
			if r = wantRun(t, l, command(), true); r.Container.ImageDigest != id {
				t.Errorf("ran on %s, want %s", r.Container.ImageDigest, id)
			}
			time.Sleep(time.Second)
			if n := len(engine.Left()); n != 2 || pools(l)[0].Ready != 2 {
				t.Errorf("%d containers, %+v", n, pools(l))
			}
		}
	})
}

// No command is needed for that.
func TestPoolDrainsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, images := playing(sleep(time.Second)), &sandboxtest.Images{}
		l := warm(t, engine, size(2, 2), func(l *local.Local) { l.Images = images })
		images.Change("belljar/base", "sha256:new")
		time.Sleep(time.Second)
		wantPool(t, l, sandbox.PoolStatus{Ready: 2, Target: 2, Made: 4, Drained: 2})
		images.Change("another", "sha256:newer")
		time.Sleep(time.Second)
		wantPool(t, l, sandbox.PoolStatus{Ready: 2, Target: 2, Made: 4, Drained: 2})
	})
}

// Containers of the old image that are being made when it changes are not used.
func TestPoolImageChangesMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, images := playing(sleep(time.Millisecond)), &sandboxtest.Images{}
		engine.OnCreate = func(context.Context) error { time.Sleep(100 * time.Millisecond); return nil }
		l := warm(t, engine, size(4, 4), func(l *local.Local) { l.Images = images })
		for i := range 100 {
			time.Sleep(time.Duration(i) * 7 * time.Millisecond)
			id := fmt.Sprint("sha256:new", i)
			images.Change("belljar/base", id)
			for range 3 {
				r, err := sandbox.Run(t.Context(), l, command())
				if err != nil || r.Container.ImageDigest != id {
					t.Fatalf("ran on %s, want %s (%v)", r.Container.ImageDigest, id, err)
				}
			}
		}
		time.Sleep(time.Minute)
		if s := pools(l)[0]; s.Ready != 4 || s.Target != 4 || s.Error != "" || len(engine.Left()) != 4 {
			t.Errorf("%+v, %d containers", s, len(engine.Left()))
		}
	})
}

func TestReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := playing(sleep(time.Second))
		l := warm(t, engine, size(2, 2))
		same := profile()
		same.Pool, same.Timeout, same.Env = size(2, 2), time.Hour, []string{"NEW=1"}
		l.Reload(map[string]sandbox.Profile{"default": same})
		synctest.Wait()
		wantPool(t, l, sandbox.PoolStatus{Ready: 2, Target: 2, Made: 2})

		other := same
		other.Limits.Memory = 1 << 30
		l.Reload(map[string]sandbox.Profile{"default": other})
		synctest.Wait()
		for _, box := range engine.Left() {
			if id := box.Info().ID; id == "fake1" || id == "fake2" {
				t.Errorf("%s is there still", id)
			}
		}
		wantRun(t, l, command(), len(pools(l)) > 0)
		time.Sleep(time.Second)
		wantRun(t, l, command(), true)
		for _, spec := range engine.Specs()[2:] {
			if spec.Limits.Memory != 1<<30 {
				t.Errorf("made %+v", spec)
			}
		}
		time.Sleep(time.Second)
		if n := len(engine.Left()); n < 1 || n > 2 {
			t.Errorf("%d containers", n)
		}

		l.Reload(map[string]sandbox.Profile{})
		synctest.Wait()
		wantNoneLeft(t, engine)
		if pools := pools(l); len(pools) > 0 {
			t.Errorf("pools %+v", pools)
		}
	})
}

// A command whose profile changes while it waits is warm only where the pool's
// containers, the old or the new, are as it asks.
func TestReloadBeforeTheContainer(t *testing.T) {
	for name, test := range map[string]struct {
		change func(p *sandbox.Profile)
		warm   bool
	}{
		"nothing":              {func(*sandbox.Profile) {}, true},
		"pool":                 {func(p *sandbox.Profile) { p.Pool.Max = 3 }, true},
		"no pool":              {func(p *sandbox.Profile) { p.Pool = sandbox.PoolSize{Max: sandbox.NoPool} }, false},
		"directory":            {func(p *sandbox.Profile) { p.Workdir = "/src" }, true},
		"memory":               {func(p *sandbox.Profile) { p.Limits.Memory = 1 << 30 }, false},
		"image":                {func(p *sandbox.Profile) { p.Image = "other" }, false},
		"longer max timeout":   {func(p *sandbox.Profile) { p.MaxTimeout *= 2 }, true},
		"shorter, old pool":    {func(p *sandbox.Profile) { p.MaxTimeout = time.Hour / 2 }, true},
		"enough, new pool":     {func(p *sandbox.Profile) { p.MaxTimeout, p.Pool.Max = time.Hour, 3 }, true},
		"not enough, new pool": {func(p *sandbox.Profile) { p.MaxTimeout, p.Pool.Max = time.Hour-1, 3 }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				engine, images := playing(sleep(time.Second)), &sandboxtest.Images{}
				var waits atomic.Bool
				images.OnResolve = func(context.Context) error {
					if waits.Swap(false) {
						time.Sleep(time.Minute)
					}
					return nil
				}
				l := warm(t, engine, size(1, 2), func(l *local.Local) { l.Images = images })
				c := command()
				c.Pull, c.Timeout = sandbox.PullAlways, time.Hour
				waits.Store(true)
				x, err := l.Start(t.Context(), c)
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				p := l.Profiles["default"]
				test.change(&p)
				l.Reload(map[string]sandbox.Profile{"default": p})
				wantRun(t, l, sandbox.Command{Script: "begins the pool", Image: "another", Timeout: time.Second * 10}, false)
				r, _ := x.Wait()
				wantFate(t, r, sandbox.StatusSuccess, sandbox.CauseExited, 0)
				if r.Container.Warm != test.warm {
					t.Errorf("container %+v, want warm %v", r.Container, test.warm)
				}
				// A warm one may be swept away only after the longest that the command may take.
				for _, spec := range engine.Specs() {
					if left := time.Until(spec.Deadline); test.warm && spec.Pool != "" && left < c.Timeout {
						t.Errorf("swept away after %v", left)
					}
				}
			})
		})
	}
}

// A command that runs when its profile goes keeps its container.
func TestReloadSparesWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := playing(sleep(time.Minute))
		l := warm(t, engine, size(1, 1))
		x, err := l.Start(t.Context(), command())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		l.Reload(map[string]sandbox.Profile{})
		r, _ := x.Wait()
		wantFate(t, r, sandbox.StatusSuccess, sandbox.CauseExited, 0)
	})
}

// The engine is restarted: everything ends, and nothing can be made for a
// while.
func TestPoolEngineRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		var tries []time.Duration
		var began time.Time
		var mu sync.Mutex
		engine := playing(sleep(time.Second))
		engine.OnCreate = func(context.Context) error {
			mu.Lock()
			defer mu.Unlock()
			if away.Load() {
				tries = append(tries, time.Since(began))
				return &sandbox.Error{Cause: sandbox.CauseEngine, Message: "the engine is away"}
			}
			return nil
		}
		l := warm(t, engine, size(1, 1))
		time.Sleep(time.Minute)
		began = time.Now()
		away.Store(true)
		engine.Left()[0].End()
		time.Sleep(2 * time.Minute)
		wantPool(t, l, sandbox.PoolStatus{Target: 1, Made: 1, Lost: 1, Error: "the engine is away", Cause: sandbox.CauseEngine})
		want := []time.Duration{0, 1, 3, 7, 15, 31, 61, 91}
		for i, d := range want {
			if i >= len(tries) || tries[i] != d*time.Second {
				t.Fatalf("tried after %v, want %v s", tries, want)
			}
		}
		r, _ := sandbox.Run(t.Context(), l, command())
		wantFate(t, r, sandbox.StatusFatal, sandbox.CauseEngine, sandbox.ExitNeverRan)
		away.Store(false)
		wantRun(t, l, command(), false)
		time.Sleep(30 * time.Second)
		wantPool(t, l, sandbox.PoolStatus{Ready: 1, Target: 1, Made: 2, Lost: 1, Missed: 2})
		wantRun(t, l, command(), true)
	})
}

// Once a bug of pool.failed: the pause doubles with each container that fails, not with
// each try, so that an engine that is away for a moment costs a pool of 8 its
// whole refillPauseMost.
func TestPoolPauseGrowsByTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		engine := playing(sleep(time.Second))
		engine.OnCreate = func(context.Context) error {
			if away.Load() {
				return errors.New("away")
			}
			return nil
		}
		away.Store(true)
		l := warm(t, engine, size(8, 8))
		time.Sleep(500 * time.Millisecond)
		away.Store(false)
		time.Sleep(5 * time.Second)
		wantPool(t, l, sandbox.PoolStatus{Ready: 8, Target: 8, Made: 8})
	})
}

// Once a bug of pool.lose: a container that ends as soon as it is ready, as with a limit
// that it cannot live in, is made again without a pause, for ever.
func TestPoolPausesWhereContainersEndAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := playing(sleep(time.Second))
		engine.Gate = func(p *sandboxtest.Proc) int {
			fmt.Fprintln(p.Stdout, 7)
			p.Sleep(50 * time.Millisecond)
			return 0
		}
		l := warm(t, engine, size(2, 2))
		time.Sleep(time.Minute)
		if n := len(engine.Specs()); n > 60 {
			t.Errorf("%d containers in a minute", n)
		}
		if s := pools(l)[0]; s.Error == "" {
			t.Errorf("nothing is said of it: %+v", s)
		}
	})
}

func TestPoolTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := playing(sleep(time.Minute))
		l := warm(t, engine, size(1, 6))
		burst := func(n int) {
			var all sync.WaitGroup
			for range n {
				all.Go(func() { sandbox.Run(t.Context(), l, command()) })
				time.Sleep(time.Millisecond)
			}
			all.Wait()
			time.Sleep(time.Minute)
		}
		for _, want := range []int{2, 4, 6} {
			before := pools(l)[0].Missed
			burst(pools(l)[0].Ready + 1)
			if s := pools(l)[0]; s.Target != want || s.Ready != want || s.Missed != before+1 {
				t.Fatalf("%+v, want target %d", s, want)
			}
		}
		burst(20)
		if s := pools(l)[0]; s.Target != 6 || s.Ready != 6 {
			t.Fatalf("%+v, want no more than max", s)
		}
		for _, want := range []int{6, 3, 1} {
			if s := pools(l)[0]; s.Target != want || s.Ready != want || len(engine.Left()) != want {
				t.Errorf("%+v, %d containers, want %d", s, len(engine.Left()), want)
			}
			time.Sleep(time.Hour)
		}
		time.Sleep(24 * time.Hour)
		if s := pools(l)[0]; s.Target != 1 || s.Ready != 1 {
			t.Errorf("%+v, want min", s)
		}
	})
}

// A pool of which nothing is kept at rest begins with the first miss.
func TestPoolWithoutMin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := playing(sleep(time.Minute))
		l := warm(t, engine, size(0, 2))
		wantPool(t, l, sandbox.PoolStatus{})
		wantRun(t, l, command(), false)
		wantPool(t, l, sandbox.PoolStatus{Ready: 1, Target: 1, Made: 1, Missed: 1})
		time.Sleep(3 * time.Hour)
		if s := pools(l)[0]; s.Target != 0 || s.Ready != 0 {
			t.Errorf("%+v", s)
		}
		wantNoneLeft(t, engine)
	})
}

func TestRefillIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int32
		engine := playing(sleep(time.Second))
		engine.OnCreate = func(context.Context) error {
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			time.Sleep(time.Second)
			now.Add(-1)
			return nil
		}
		l := warm(t, engine, size(16, 16))
		time.Sleep(time.Minute)
		wantPool(t, l, sandbox.PoolStatus{Ready: 16, Target: 16, Made: 16})
		if want := int32(max(1, runtime.NumCPU()/2)); most.Load() > want {
			t.Errorf("%d at once, want at most %d", most.Load(), want)
		}
	})
}

// Making warm containers waits for a command that makes its own, a second at
// most, and 20 ms for one that runs.
func TestRefillHoldsBack(t *testing.T) {
	for _, test := range []struct{ create, run, refill time.Duration }{
		{500 * time.Millisecond, 0, 500 * time.Millisecond},
		{10 * time.Second, 0, time.Second},
		{500 * time.Millisecond, time.Hour, 500 * time.Millisecond},
		{0, time.Hour, 100 * time.Millisecond},
		{0, 10 * time.Millisecond, 10 * time.Millisecond},
	} {
		t.Run(fmt.Sprint(test), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var made []time.Time
				engine := playing(sleep(test.run))
				engine.OnCreate = func(context.Context) error {
					mu.Lock()
					made = append(made, time.Now())
					n := len(made)
					mu.Unlock()
					if n == 2 { // the command's
						time.Sleep(test.create)
					}
					return nil
				}
				l := warm(t, engine, size(1, 1))
				time.Sleep(time.Minute)
				began, c := time.Now(), command()
				c.Image, c.Timeout, c.IdleTimeout = "other", 2*time.Hour, sandbox.NoIdleTimeout
				x, err := l.Start(t.Context(), c)
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				engine.Left()[0].End()
				time.Sleep(time.Minute)
				x.Kill()
				x.Wait()
				mu.Lock()
				defer mu.Unlock()
				if len(made) != 3 {
					t.Fatalf("%d containers made", len(made))
				}
				if d := made[2].Sub(began); d < test.refill || d > test.refill+4*time.Millisecond {
					t.Errorf("after %v, want %v", d, test.refill)
				}
			})
		})
	}
}

// Close leaves nothing behind, at any moment.
func TestClose(t *testing.T) {
	for name, engine := range map[string]*sandboxtest.Engine{
		"at rest":    {},
		"in create":  {OnCreate: sandboxtest.Hang},
		"in exec":    {OnExec: sandboxtest.Hang},
		"slow":       {OnCreate: func(context.Context) error { time.Sleep(time.Second); return nil }},
		"failing":    {OnCreate: sandboxtest.Fail(errors.New("no"))},
		"mute gates": {Gate: sleep(24 * time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := warm(t, engine, size(4, 4))
				time.Sleep(1500 * time.Millisecond)
				began := time.Now()
				l.Close()
				wantNoneLeft(t, engine)
				if d := time.Since(began); d > 5*time.Second { // drainTimeout, for a gate that says nothing
					t.Errorf("took %v", d)
				}
			})
		})
	}
}

// countedImages are Images that know how many watch them.
type countedImages struct {
	sandboxtest.Images
	watched atomic.Int32
}

func (i *countedImages) Watch(ctx context.Context, changed func(watching bool)) {
	i.watched.Add(1)
	i.Images.Watch(ctx, changed)
}

// Once a bug of Local.Warm: called twice, it watches twice, and it reads the profiles
// while Reload changes them.
func TestWarmTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p, images := newLocal(&sandboxtest.Engine{}), profile(), &countedImages{}
		p.Pool = size(1, 1)
		l.Images, l.Profiles = images, map[string]sandbox.Profile{"default": p}
		var all sync.WaitGroup
		all.Go(l.Warm)
		all.Go(l.Warm)
		all.Go(func() { l.Reload(map[string]sandbox.Profile{"default": p}) })
		all.Wait()
		wantPool(t, l, sandbox.PoolStatus{Ready: 1, Target: 1, Made: 1})
		if n := images.watched.Load(); n != 1 {
			t.Errorf("images are watched %d times", n)
		}
		l.Close()
	})
}

// It closes without ever having been warm, or used.
func TestCloseUnused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		newLocal(&sandboxtest.Engine{}).Close()
		l := newLocal(playing(sleep(time.Second)))
		wantRun(t, l, command(), false)
		l.Close()
	})
}

// A command's clocks begin with its delivery, and its processes are as old as
// that.
func TestWarmClocks(t *testing.T) {
	eachWay(t, func(t *testing.T, way string) {
		engine := playing(func(p *sandboxtest.Proc) int {
			p.Start("child", sleep(time.Hour))
			p.Sleep(time.Hour)
			return 0
		})
		engine.Way = way
		l := warm(t, engine, size(1, 1))
		for _, change := range []func(c *sandbox.Command){
			func(c *sandbox.Command) { c.Timeout = 10 * time.Second },
			func(c *sandbox.Command) { c.IdleTimeout = 10 * time.Second },
		} {
			time.Sleep(50 * time.Minute)
			began, c := time.Now(), command()
			change(&c)
			r, err := sandbox.Run(t.Context(), l, c)
			if err != nil || r.Status != sandbox.StatusTimeout || !r.Container.Warm {
				t.Errorf("%s, %+v, error %v", r.Status, r.Container, err)
			}
			wantAfter(t, began, 10*time.Second)
			if len(r.Lingering) != 2 {
				t.Fatalf("lingering %+v", r.Lingering)
			}
			for _, p := range r.Lingering {
				if p.ElapsedSeconds != 10 || p.CommandID != r.ID {
					t.Errorf("lingering %+v", p)
				}
			}
			if r.Lingering[0].Command != "sh -c the script" || r.Evidence.KilledBy != "belljar" || r.Evidence.RemoveError != "" {
				t.Errorf("lingering %+v, evidence %+v", r.Lingering[0], r.Evidence)
			}
		}
	})
}

// lines is a place for a log.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

// A pool's container is removed in the background: a failed removal is tried
// again, and logged.
func TestWarmRemoveIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries atomic.Int32
		var log lines
		engine := playing(sleep(time.Second))
		engine.OnRemove = func(context.Context) error {
			if tries.Add(1) <= 3 {
				return errors.New("device busy")
			}
			return nil
		}
		l := warm(t, engine, size(1, 1), func(l *local.Local) { l.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		r := wantRun(t, l, command(), true)
		time.Sleep(7*time.Second + 1)
		synctest.Wait()
		if tries.Load() != 4 || log.count(`msg="removing a container failed" container=`+r.Container.ID+` error="device busy"`) != 3 {
			t.Errorf("%d tries, log:\n%s", tries.Load(), log.text.String())
		}
		if left := engine.Left(); len(left) != 1 || left[0].Info().ID == r.Container.ID {
			t.Errorf("%d containers left", len(left))
		}
	})
}

// A removal that never succeeds is given up, and Close does not wait for it.
func TestWarmRemoveIsGivenUp(t *testing.T) {
	for _, wait := range []time.Duration{time.Second, time.Hour / 2} {
		synctest.Test(t, func(t *testing.T) {
			var tries atomic.Int32
			var broken atomic.Bool
			engine := playing(sleep(time.Second))
			engine.OnRemove = func(context.Context) error {
				if broken.Load() {
					tries.Add(1)
					return errors.New("device busy")
				}
				return nil
			}
			l := warm(t, engine, size(1, 1))
			broken.Store(true)
			wantRun(t, l, command(), true)
			time.Sleep(wait)
			synctest.Wait()
			began, before := time.Now(), tries.Load()
			broken.Store(false)
			l.Close()
			wantAfter(t, began, 0)
			if wait > time.Minute && before != 6 {
				t.Errorf("%d tries", before)
			}
			for _, box := range engine.Left() {
				box.Remove(context.Background())
			}
		})
	}
}
