package local_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/sandboxtest"
)

// slowEngine takes that long to make each container, in turn; the last goes for
// all that follow.
func slowEngine(play func(p *sandboxtest.Proc) int, takes ...time.Duration) *sandboxtest.Engine {
	engine := playing(play)
	var mu sync.Mutex
	engine.OnCreate = func(ctx context.Context) error {
		mu.Lock()
		d := takes[0]
		if len(takes) > 1 {
			takes = takes[1:]
		}
		mu.Unlock()
		if d < 0 {
			time.Sleep(-d)
			return errors.New("the engine refuses")
		}
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return engine
}

// A command that comes while a container is being made takes that one: no second one
// is made.
func TestCommandWaitsForTheOneBeingMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := slowEngine(sleep(time.Second), 500*time.Millisecond)
		l := warm(t, engine, size(1, 1))
		time.Sleep(200 * time.Millisecond)
		r := wantRun(t, l, command(), true)
		if r.Timing.Start != 300*time.Millisecond {
			t.Errorf("started after %v, want the rest of 500ms", r.Timing.Start)
		}
		if s := pools(l)[0]; s.Used != 1 || s.Missed != 0 {
			t.Errorf("%+v", s)
		}
		if n := len(engine.Specs()); n > 2 {
			t.Errorf("%d containers made, want the command's and the next", n)
		}
	})
}

// Of two commands that come then, one waits. The other has nothing to wait for.
func TestOnlyOneWaitsForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := slowEngine(sleep(time.Second), 500*time.Millisecond)
		l := warm(t, engine, size(1, 1))
		time.Sleep(200 * time.Millisecond)
		results := make([]sandbox.Result, 2)
		var all sync.WaitGroup
		for i := range results {
			all.Go(func() { results[i], _ = sandbox.Run(t.Context(), l, command()) })
		}
		all.Wait()
		warm := 0
		for _, r := range results {
			wantFate(t, r, sandbox.StatusSuccess, sandbox.CauseExited, 0)
			want := 500 * time.Millisecond
			if r.Container.Warm {
				want = 300 * time.Millisecond
				warm++
			}
			if r.Timing.Start != want {
				t.Errorf("warm %v: started after %v, want %v", r.Container.Warm, r.Timing.Start, want)
			}
		}
		if warm != 1 {
			t.Errorf("%d of 2 were warm, want 1", warm)
		}
	})
}

// One that takes too long costs a command the fallback and no more, and later
// commands nothing.
func TestWaitFallsBackToCold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := slowEngine(sleep(time.Second), 30*time.Second, 500*time.Millisecond)
		l := warm(t, engine, size(1, 1))
		time.Sleep(200 * time.Millisecond)
		for _, want := range []time.Duration{1500 * time.Millisecond, 500 * time.Millisecond} {
			if r := wantRun(t, l, command(), false); r.Timing.Start != want {
				t.Errorf("started after %v, want %v", r.Timing.Start, want)
			}
		}
		if s := pools(l)[0]; s.Used != 0 || s.Missed != 2 {
			t.Errorf("%+v", s)
		}
	})
}

// One that cannot be made is not waited for any longer.
func TestWaitEndsWithTheFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := slowEngine(sleep(time.Second), -500*time.Millisecond, 500*time.Millisecond)
		l := warm(t, engine, size(1, 1))
		time.Sleep(200 * time.Millisecond)
		if r := wantRun(t, l, command(), false); r.Timing.Start != 800*time.Millisecond {
			t.Errorf("started after %v, want 300ms and 500ms", r.Timing.Start)
		}
	})
}

// A pool that ends leaves no one waiting.
func TestWaitEndsWithThePool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := slowEngine(sleep(time.Second), 900*time.Millisecond, 500*time.Millisecond)
		l := warm(t, engine, size(1, 1))
		time.Sleep(200 * time.Millisecond)
		x, err := l.Start(t.Context(), command())
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		l.Reload(map[string]sandbox.Profile{"default": profile()})
		r, err := x.Wait()
		if err != nil || r.Container.Warm || r.Timing.Start != 500*time.Millisecond {
			t.Errorf("%v, %+v, %+v", err, r.Container, r.Timing)
		}
	})
}

// A command that is canceled while it waits does not run.
func TestCanceledWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := slowEngine(func(*sandboxtest.Proc) int { t.Error("it ran"); return 0 }, 500*time.Millisecond)
		l := warm(t, engine, size(1, 1))
		time.Sleep(200 * time.Millisecond)
		r, _ := sandbox.Run(cancelAfter(t, 100*time.Millisecond), l, command())
		if r.Status != sandbox.StatusCanceled {
			t.Errorf("%s: %s", r.Status, r.Message)
		}
		wantPool(t, l, sandbox.PoolStatus{Ready: 0, Making: 1, Target: 1, Missed: 1})
	})
}

// However containers come, each command runs once, in one that no other has, and
// no later than the fallback allows.
func TestWaitersRunOnce(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			var mu sync.Mutex
			var takes []time.Duration
			for range 200 {
				d := time.Duration(random.IntN(1400)) * time.Millisecond
				if random.IntN(8) == 0 {
					d = -d
				}
				takes = append(takes, d)
			}
			ran := map[string]int{}
			engine := slowEngine(func(p *sandboxtest.Proc) int {
				mu.Lock()
				ran[p.Script]++
				mu.Unlock()
				p.Sleep(50 * time.Millisecond)
				return 0
			}, append(takes, 100*time.Millisecond)...)
			l := warm(t, engine, size(1, 3))
			var all sync.WaitGroup
			used, failed := map[string]bool{}, 0
			for i := range 60 {
				time.Sleep(time.Duration(random.IntN(200)) * time.Millisecond)
				ctx := t.Context()
				if random.IntN(6) == 0 {
					ctx = cancelAfter(t, time.Duration(random.IntN(1000))*time.Millisecond)
				}
				all.Go(func() {
					c := sandbox.Command{Script: fmt.Sprint("command ", i)}
					r, err := sandbox.Run(ctx, l, c)
					mu.Lock()
					defer mu.Unlock()
					if err != nil || r.Status == sandbox.StatusCanceled {
						failed++
						return
					}
					if ran[c.Script] != 1 || used[r.Container.ID] {
						t.Errorf("%s ran %d times, in %s", c.Script, ran[c.Script], r.Container.ID)
					}
					used[r.Container.ID] = true
					if r.Timing.Start > 2400*time.Millisecond {
						t.Errorf("started after %v", r.Timing.Start)
					}
				})
			}
			all.Wait()
			for script, n := range ran {
				if n != 1 {
					t.Errorf("%s ran %d times", script, n)
				}
			}
			if len(used) < 20 {
				t.Errorf("only %d ran, %d did not", len(used), failed)
			}
		})
	}
}
