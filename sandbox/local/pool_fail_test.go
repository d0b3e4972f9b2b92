package local_test

import (
	"context"
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

// quota is an engine with room for so many containers, which counts the refusals.
type quota struct {
	engine  *sandboxtest.Engine
	room    atomic.Int64
	refused atomic.Int64
}

func newQuota(room int) *quota {
	q := &quota{engine: playing(sleep(time.Second))}
	q.room.Store(int64(room))
	q.engine.MadeElsewhere = true
	var mu sync.Mutex
	making := 0
	q.engine.OnCreate = func(context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		if len(q.engine.Left())+making < int(q.room.Load()) {
			making++
			mu.Unlock()
			time.Sleep(2 * time.Second)
			mu.Lock()
			making--
			return nil
		}
		q.refused.Add(1)
		return &sandbox.Error{Cause: sandbox.CauseBusy, Message: "exceeded quota: q, limited: pods=3", Hint: "wait", RetryAfter: 5 * time.Second}
	}
	return q
}

// Where a quota has room for fewer than the pool is to have, it keeps those, says why, and asks for more once in a while: not for
// all that are missing, and not each second.
func TestPoolAtAQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuota(3)
		l := warm(t, q.engine, size(8, 8))
		time.Sleep(10 * time.Minute)
		s := pools(l)[0]
		if s.Ready != 3 || s.Target != 8 || s.Making != 0 || s.Error != "exceeded quota: q, limited: pods=3 (wait)" {
			t.Errorf("%+v", s)
		}
		if n := q.refused.Load(); n > 8+3+20 { // at first each that is missing; 5 s, 10 s and 20 s later, and then each 30 s, one
			t.Errorf("%d requests were refused in 10 minutes", n)
		}
	})
}

// A container's end makes room: the pool asks again then, once.
func TestPoolAtAQuotaTakesRoomThatIsMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuota(3)
		l := warm(t, q.engine, size(8, 8))
		time.Sleep(10 * time.Minute)
		before := q.refused.Load()
		wantRun(t, l, command(), true)
		time.Sleep(3 * time.Second)
		if s := pools(l)[0]; s.Ready != 3 || s.Made != 4 || s.Used != 1 {
			t.Errorf("after a command: %+v", s)
		}
		if n := q.refused.Load() - before; n > 3 {
			t.Errorf("%d requests were refused", n)
		}
	})
}

// Once a bug: the pool was not told of the end of a container that belljar ended with its command.
func TestPoolAtAQuotaTakesTheRoomOfAnEndedCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuota(3)
		q.engine.Script = sleep(time.Hour)
		l := warm(t, q.engine, size(8, 8))
		time.Sleep(10 * time.Minute)
		r, _ := sandbox.Run(cancelAfter(t, time.Second), l, command())
		wantFate(t, r, sandbox.StatusCanceled, sandbox.CauseCanceled, sandbox.ExitEnded)
		time.Sleep(3 * time.Second)
		if s := pools(l)[0]; !r.Container.Warm || s.Ready != 3 || s.Made != 4 {
			t.Errorf("%+v", s)
		}
	})
}

// More room, and the pool is full again soon: a success ends the trying one by one.
func TestPoolFillsOnceTheQuotaIsRaised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuota(3)
		l := warm(t, q.engine, size(8, 8))
		time.Sleep(10 * time.Minute)
		q.room.Store(8)
		time.Sleep(35 * time.Second)
		if s := pools(l)[0]; s.Ready != 8 || s.Error != "" {
			t.Errorf("%+v", s)
		}
	})
}

// Two pools of one quota: both go on asking.
func TestPoolsShareAQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuota(2)
		l := warm(t, q.engine, size(2, 2), func(l *local.Local) {
			other := l.Profiles["default"]
			other.Network = "bridge"
			l.Profiles["other"] = other
		})
		time.Sleep(time.Minute)
		for _, profile := range []string{"default", "other"} {
			c := command()
			c.Profile = profile
			if _, err := sandbox.Run(t.Context(), l, c); err != nil && sandbox.CauseOf(err) != sandbox.CauseBusy {
				t.Error(err)
			}
			time.Sleep(time.Minute)
		}
		ready := 0
		for _, s := range pools(l) {
			ready += s.Ready
		}
		if ready != 2 {
			t.Errorf("%+v", pools(l))
		}
	})
}

// Containers that other machines make are made many at once, also while commands run.
func TestPoolOfOtherMachines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := playing(sleep(time.Minute))
		engine.MadeElsewhere = true
		engine.OnCreate = func(context.Context) error { time.Sleep(2 * time.Second); return nil }
		l := warm(t, engine, size(12, 12))
		time.Sleep(2 * time.Second)
		wantPool(t, l, sandbox.PoolStatus{Ready: 12, Target: 12, Made: 12})
		x, err := l.Start(t.Context(), command())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2*time.Second + 100*time.Millisecond) // a short command would have ended first
		wantPool(t, l, sandbox.PoolStatus{Ready: 12, Target: 12, Made: 13, Used: 1})
		x.Wait()
	})
}

// waiting is an engine whose containers may wait before they start.
type waiting struct {
	*sandboxtest.Engine
	most time.Duration
}

func (w waiting) StartTimeout() time.Duration { return w.most }

// An engine that says how long a container may take to start is waited for as long, and its words are told, not a time limit of ours;
// the container has that much more time before its deadline.
func TestEngineThatStartsSlowly(t *testing.T) {
	const start = 10 * time.Minute
	full := &sandbox.Error{Cause: sandbox.CauseBusy, Message: "no node had room for the pod for 10m", Hint: "wait", RetryAfter: 20 * time.Second}
	slow := func(err error) *sandboxtest.Engine {
		e := playing(sleep(time.Second))
		e.OnCreate = func(ctx context.Context) error {
			select {
			case <-time.After(start):
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return e
	}
	on := func(dir string, e *sandboxtest.Engine) *local.Local {
		l := (&stage{e, dir}).runner()
		l.Engine = waiting{e, start}
		return l
	}
	for _, session := range []string{"", "dev"} {
		c := command()
		c.Session = session
		t.Run("command of session "+session, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				r := ran(t, on(dir, slow(full)), sandbox.StatusFatal, sandbox.CauseBusy, c)
				if !strings.HasPrefix(r.Message, full.Message) {
					t.Error(r.Message)
				}
			})
			synctest.Test(t, func(t *testing.T) {
				e := slow(nil)
				began := time.Now()
				succeeds(t, on(dir, e), c)
				if at := e.Specs()[0].Deadline; at.Before(began.Add(start + sandbox.Defaults().Profile.Timeout)) {
					t.Errorf("its deadline is after %v", at.Sub(began))
				}
			})
		})
	}
	t.Run("pool", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			e := slow(full)
			l := warm(t, e, size(1, 1), func(l *local.Local) { l.Engine = waiting{e, start} })
			time.Sleep(start + time.Second)
			if s := pools(l)[0]; s.Error != "no node had room for the pod for 10m (wait)" || s.Making != 0 {
				t.Errorf("%+v", s)
			}
			time.Sleep(10 * time.Second) // after another failure it tries again each second
			if s := pools(l)[0]; s.Making != 0 {
				t.Errorf("it does not wait for room: %+v", s)
			}
		})
	})
}
