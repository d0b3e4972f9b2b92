package local_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/local"
	"belljar/sandbox/sandboxtest"
)

// ways are those in which an engine may start commands.
var ways = []string{sandbox.WayInit, sandbox.WayExec}

// eachWay is a test in a bubble of its own for each of them.
func eachWay(t *testing.T, test func(t *testing.T, way string)) {
	for _, way := range ways {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, way) })
		})
	}
}

// An init takes what no gate can read, so that it is as warm as any other command.
func TestInitTakesEveryCommand(t *testing.T) {
	for name, change := range map[string]func(c *sandbox.Command){
		"exotic variable":  func(c *sandbox.Command) { c.Env = []string{"a.b-c=1"} },
		"shell's variable": func(c *sandbox.Command) { c.Env = []string{"UID=1"} },
		"long":             func(c *sandbox.Command) { c.Env = large(2) },
		"bytes":            func(c *sandbox.Command) { c.Script = "echo \xff" },
		"terminal":         func(c *sandbox.Command) { c.TTY = &sandbox.TerminalSize{Rows: 24, Columns: 80} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got sandbox.Exec
				engine := playing(func(p *sandboxtest.Proc) int { got = p.Exec; return 0 })
				engine.Way = sandbox.WayInit
				l := warm(t, engine, size(1, 1), func(l *local.Local) {
					p := l.Profiles["default"]
					p.Policy = policy{}
					l.Profiles["default"] = p
				})
				c := command()
				change(&c)
				if r := wantRun(t, l, c, true); r.Container.Way != sandbox.WayInit || r.Container.Engine != "fake" {
					t.Errorf("%+v", r.Container)
				}
				if got.Script != c.Script || c.TTY == nil && len(got.Env) != len(c.Env)+1 || (got.TTY != nil) != (c.TTY != nil) {
					t.Errorf("ran %+.300v", got)
				}
			})
		})
	}
}

// A container whose init does not answer is replaced, and the next one gets the command.
func TestInitDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := playing(sleep(time.Second))
		engine.Way = sandbox.WayInit
		asked := 0
		engine.OnAnswer = func(ctx context.Context) error {
			if asked++; asked == 1 {
				return errors.New("silent")
			}
			if asked == 2 {
				return sandboxtest.Hang(ctx)
			}
			return nil
		}
		l := warm(t, engine, size(3, 3))
		r := wantRun(t, l, command(), true)
		if r.Timing.Start != 2*time.Second || asked != 3 {
			t.Errorf("timing %+v, asked %d times", r.Timing, asked)
		}
		time.Sleep(time.Minute)
		wantPool(t, l, sandbox.PoolStatus{Ready: 3, Target: 3, Made: 6, Used: 3, Lost: 2, Error: pools(l)[0].Error, Cause: pools(l)[0].Cause})
	})
}

// Where containers are elsewhere, the one that is next is asked ahead: a command does not wait for that, and one that is gone is
// replaced before.
func TestNextIsAskedAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := playing(sleep(time.Second))
		engine.Way, engine.MadeElsewhere = sandbox.WayInit, true
		var asked, silent atomic.Int64
		engine.OnAnswer = func(ctx context.Context) error {
			asked.Add(1)
			if silent.Add(-1) >= 0 {
				return sandboxtest.Hang(ctx)
			}
			return nil
		}
		l := warm(t, engine, size(3, 3))
		time.Sleep(10*time.Second + 500*time.Millisecond)
		synctest.Wait()
		if n := asked.Load(); n < 10 || n > 12 {
			t.Errorf("asked %d times in 10 s", n)
		}
		before := asked.Load()
		x, err := l.Start(t.Context(), command())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(500 * time.Millisecond)
		if asked.Load() != before+1 { // the one after it
			t.Errorf("asked %d times meanwhile", asked.Load()-before)
		}
		if r, _ := x.Wait(); !r.Container.Warm || r.Timing.Start != 0 {
			t.Errorf("%+v", r)
		}
		for missed, lost := range []int{0, 0, 1} {
			silent.Store(int64(missed))
			time.Sleep(10 * time.Second)
			wantPool(t, l, sandbox.PoolStatus{Ready: 3, Target: 3, Made: 4 + lost, Used: 1, Lost: lost})
		}
		if r := wantRun(t, l, command(), true); r.Timing.Start != 0 {
			t.Errorf("%+v", r.Timing)
		}
	})
}

// What waits where it is not wanted any more is made elsewhere, once. A command that runs there is not ended.
func TestUnwantedAreMadeElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := playing(sleep(10 * time.Second))
		engine.Way, engine.MadeElsewhere = sandbox.WayInit, true
		l := warm(t, engine, size(2, 2))
		x, err := l.Start(t.Context(), command())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		engine.Cordon()
		synctest.Wait()
		if r, err := x.Wait(); err != nil || r.Status != sandbox.StatusSuccess || !r.Container.Warm {
			t.Errorf("%+v, error %v", r, err)
		}
		time.Sleep(time.Minute)
		wantPool(t, l, sandbox.PoolStatus{Ready: 2, Target: 2, Made: 5, Used: 1, Drained: 2})
		if r := wantRun(t, l, command(), true); r.Container.ID == "" {
			t.Errorf("%+v", r.Container)
		}
	})
}

// Where each new one is not wanted either, it is not made again and again.
func TestUnwantedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := playing(sleep(time.Second))
		engine.Way, engine.MadeElsewhere = sandbox.WayInit, true
		l := warm(t, engine, size(1, 1))
		for range 6000 {
			engine.Cordon()
			time.Sleep(10 * time.Millisecond)
		}
		if s := pools(l)[0]; s.Made < 3 || s.Made > 10 || !strings.Contains(s.Error, "node that is being drained") {
			t.Errorf("%+v", s)
		}
		time.Sleep(time.Minute)
		if s := pools(l)[0]; s.Ready != 1 || s.Error != "" {
			t.Errorf("%+v", s)
		}
	})
}

// An engine that gives up its init has gates from then on.
func TestInitIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := playing(sleep(time.Second))
		engine.Way = sandbox.WayInit
		l := warm(t, engine, size(1, 1))
		engine.Way = sandbox.WayExec
		for _, change := range []func(c *sandbox.Command){
			func(*sandbox.Command) {}, func(*sandbox.Command) {}, func(c *sandbox.Command) { c.Env = []string{"UID=1"} },
		} {
			c := command()
			change(&c)
			wantRun(t, l, c, c.Env == nil)
			time.Sleep(time.Minute)
		}
	})
}
