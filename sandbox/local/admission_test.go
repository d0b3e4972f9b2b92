package local_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/local"
	"belljar/sandbox/sandboxtest"
)

// crowd is a runner with these bounds, and what happens on it.
type crowd struct {
	*local.Local
	mu      sync.Mutex
	order   []string // of the commands that started
	running atomic.Int32
	most    atomic.Int32
}

// newCrowd runs scripts that are durations.
func newCrowd(t *testing.T, bounds sandbox.Admission) *crowd {
	t.Helper()
	c := &crowd{}
	engine := playing(func(p *sandboxtest.Proc) int {
		c.mu.Lock()
		c.order = append(c.order, p.Script)
		c.mu.Unlock()
		c.most.Store(max(c.most.Load(), c.running.Add(1)))
		defer c.running.Add(-1)
		script, _, _ := strings.Cut(p.Script, " ")
		d, err := time.ParseDuration(script)
		if err != nil {
			t.Error(err)
		}
		p.Sleep(d)
		return 0
	})
	c.Local = newLocal(engine)
	c.Admission = bounds
	t.Cleanup(func() {
		c.Close()
		wantNoneLeft(t, engine)
	})
	return c
}

func (c *crowd) start(ctx context.Context, t *testing.T, script string) sandbox.Execution {
	t.Helper()
	x, err := c.Start(ctx, sandbox.Command{Script: script, Timeout: 10 * time.Hour, IdleTimeout: sandbox.NoIdleTimeout})
	if err != nil {
		t.Fatalf("starting %s: %v", script, err)
	}
	synctest.Wait()
	return x
}

func wantBusy(t *testing.T, err error, message string) {
	t.Helper()
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Cause != sandbox.CauseBusy || !strings.HasPrefix(e.Message, "busy: "+message) {
		t.Fatalf("error %v, want busy: %s", err, message)
	}
	if e.RetryAfter < time.Second || e.RetryAfter%time.Second != 0 || e.Hint != "retry after "+sandbox.FormatDuration(e.RetryAfter) {
		t.Errorf("retry after %v, hint %q", e.RetryAfter, e.Hint)
	}
}

// No more than max_running run, and they begin in the order they came.
func TestAdmissionInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, sandbox.Admission{MaxRunning: 3, MaxQueued: 20, MaxWait: time.Hour})
		began := time.Now()
		var want []string
		var all []sandbox.Execution
		for i := range 20 {
			script := fmt.Sprintf("1s %d", i)
			want = append(want, script)
			all = append(all, c.start(t.Context(), t, script))
		}
		for i, x := range all {
			r, err := x.Wait()
			if err != nil {
				t.Error(err)
			}
			wantFate(t, r, sandbox.StatusSuccess, sandbox.CauseExited, 0)
			if queued := time.Duration(i/3) * time.Second; r.Timing.Queued != queued || r.Timing.Total != queued+time.Second {
				t.Errorf("command %d: %+v, want %v queued", i, r.Timing, queued)
			}
		}
		wantAfter(t, began, 7*time.Second)
		slices.Sort(c.order[:3]) // these three began at once
		if c.most.Load() != 3 {
			t.Errorf("%d ran at once", c.most.Load())
		}
		for i := 0; i < len(want); i += 3 { // and each three ended at once
			part := c.order[i:min(i+3, len(want))]
			slices.Sort(part)
			expected := slices.Clone(want[i:min(i+3, len(want))])
			slices.Sort(expected)
			if !slices.Equal(part, expected) {
				t.Errorf("began as %v, want %v", part, expected)
			}
		}
	})
}

// One that is short does not pass one that came before it.
func TestAdmissionIsFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, sandbox.Admission{MaxRunning: 1, MaxQueued: 20, MaxWait: time.Hour})
		want := []string{"10s a", "5m b", "1s c", "1s d"}
		for _, script := range want[:3] {
			c.start(t.Context(), t, script)
		}
		time.Sleep(30 * time.Second) // b runs
		c.start(t.Context(), t, want[3]).Wait()
		if !slices.Equal(c.order, want) {
			t.Errorf("began as %v, want %v", c.order, want)
		}
	})
}

func TestAdmissionQueueIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, sandbox.Admission{MaxRunning: 2, MaxQueued: 3, MaxWait: 10 * time.Hour})
		began := time.Now()
		var all []sandbox.Execution
		for range 5 {
			all = append(all, c.start(t.Context(), t, "1h"))
		}
		for range 3 {
			_, err := c.Start(t.Context(), command())
			wantBusy(t, err, "2 commands running, 3 waiting")
		}
		r, err := sandbox.Run(t.Context(), c, command())
		wantBusy(t, err, "2 commands run")
		wantFate(t, r, sandbox.StatusFatal, sandbox.CauseBusy, sandbox.ExitNeverRan)
		if r.Message != err.Error() || !strings.Contains(r.Message, "(retry after ") {
			t.Errorf("message %q", r.Message)
		}
		wantAfter(t, began, 0) // at once

		all[0].Wait()
		all[1].Wait()
		time.Sleep(time.Second)
		// Once commands were seen to end, the answer knows how long they take.
		for range 2 {
			all = append(all, c.start(t.Context(), t, "1h"))
		}
		_, err = c.Start(t.Context(), command())
		wantBusy(t, err, "2 commands running, 3 waiting")
		if after := retryAfter(err); after != time.Minute {
			t.Errorf("retry after %v, want the most", after)
		}
		for _, x := range all {
			x.Wait()
		}
		wantAfter(t, began, 4*time.Hour) // of 7 commands, 2 at once
		if c.most.Load() != 2 {
			t.Errorf("%d ran at once", c.most.Load())
		}
	})
}

func retryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*sandbox.Error](err); ok {
		return e.RetryAfter
	}
	return 0
}

func TestAdmissionMaxWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, sandbox.Admission{MaxRunning: 1, MaxQueued: 2, MaxWait: 30 * time.Second})
		first := c.start(t.Context(), t, "1h")
		began := time.Now()
		r, err := c.start(t.Context(), t, "1s").Wait()
		wantBusy(t, err, "no free slot within 30s")
		wantFate(t, r, sandbox.StatusFatal, sandbox.CauseBusy, sandbox.ExitNeverRan)
		wantAfter(t, began, 30*time.Second)

		// It left the queue: there is room for two again, and their turns come.
		began = time.Now()
		second := c.start(t.Context(), t, "1s")
		third := c.start(t.Context(), t, "1s")
		_, err = c.Start(t.Context(), command())
		wantBusy(t, err, "1 commands running, 2 waiting")
		first.Kill()
		for _, x := range []sandbox.Execution{second, third} {
			r, _ := x.Wait()
			wantFate(t, r, sandbox.StatusSuccess, sandbox.CauseExited, 0)
		}
		wantAfter(t, began, 2*time.Second)
	})
}

// The wait is for the turn only: what comes after it takes its time.
func TestAdmissionMaxWaitIsNoTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, sandbox.Admission{MaxRunning: 1, MaxQueued: 1, MaxWait: time.Second})
		r, err := c.start(t.Context(), t, "1h").Wait()
		if err != nil {
			t.Error(err)
		}
		wantFate(t, r, sandbox.StatusSuccess, sandbox.CauseExited, 0)
	})
}

func TestAdmissionCancelWhileQueued(t *testing.T) {
	for _, kill := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := newCrowd(t, sandbox.Admission{MaxRunning: 1, MaxQueued: 2, MaxWait: time.Hour})
			first := c.start(t.Context(), t, "1m")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			second := c.start(ctx, t, "1m b")
			third := c.start(t.Context(), t, "1m c")
			if _, err := c.Start(t.Context(), command()); err == nil {
				t.Error("the queue is not full")
			}
			began := time.Now()
			if kill {
				second.Kill()
			} else {
				cancel()
			}
			r, err := second.Wait()
			if err != nil {
				t.Error(err)
			}
			wantFate(t, r, sandbox.StatusCanceled, sandbox.CauseCanceled, sandbox.ExitNeverRan)
			wantAfter(t, began, 0)
			fourth := c.start(t.Context(), t, "1m d") // its place is free
			for _, x := range []sandbox.Execution{first, third, fourth} {
				r, _ := x.Wait()
				wantFate(t, r, sandbox.StatusSuccess, sandbox.CauseExited, 0)
			}
			wantAfter(t, began, 3*time.Minute)
			if want := []string{"1m", "1m c", "1m d"}; !slices.Equal(c.order, want) {
				t.Errorf("began as %v, want %v", c.order, want)
			}
		})
	}
}

// Turns that come while their commands are canceled are passed on.
func TestAdmissionLosesNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, sandbox.Admission{MaxRunning: 2, MaxQueued: 100, MaxWait: time.Hour})
		var all sync.WaitGroup
		for i := range 100 {
			ctx, cancel := context.WithCancel(t.Context())
			timer := time.AfterFunc(time.Duration(1+i%7)*time.Second, cancel)
			all.Go(func() {
				defer cancel()
				defer timer.Stop()
				sandbox.Run(ctx, c, sandbox.Command{Script: "1s"})
			})
		}
		all.Wait()
		if c.most.Load() > 2 {
			t.Errorf("%d ran at once", c.most.Load())
		}
		began := time.Now()
		one, two := c.start(t.Context(), t, "1s"), c.start(t.Context(), t, "1s")
		one.Wait()
		two.Wait()
		wantAfter(t, began, time.Second)
	})
}

// A command that cannot run passes its turn on, whatever it fails at.
func TestAdmissionAfterFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, sandbox.Admission{MaxRunning: 1, MaxQueued: 1, MaxWait: time.Hour})
		c.Engine.(*sandboxtest.Engine).OnCreate = sandboxtest.Fail(errors.New("no"))
		for range 5 {
			r, _ := c.start(t.Context(), t, "1s").Wait()
			wantFate(t, r, sandbox.StatusFatal, sandbox.CauseEngine, sandbox.ExitNeverRan)
		}
	})
}

// A zero Admission is 32, 256 and a minute: nothing unset is unlimited.
func TestAdmissionDefaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, sandbox.Admission{})
		var all []sandbox.Execution
		for range 32 + 256 {
			all = append(all, c.start(t.Context(), t, "90s"))
		}
		_, err := c.Start(t.Context(), command())
		wantBusy(t, err, "32 commands running, 256 waiting")
		for i, x := range all {
			r, err := x.Wait()
			if i < 32 {
				wantFate(t, r, sandbox.StatusSuccess, sandbox.CauseExited, 0)
			} else {
				wantFate(t, r, sandbox.StatusFatal, sandbox.CauseBusy, sandbox.ExitNeverRan)
				wantBusy(t, err, "no free slot within 1m")
			}
		}
		if c.most.Load() != 32 {
			t.Errorf("%d ran at once", c.most.Load())
		}
	})
}
