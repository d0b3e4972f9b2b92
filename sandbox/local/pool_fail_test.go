package local_test

import (
	"context"
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
		time.Sleep(2 * time.Second)
		wantPool(t, l, sandbox.PoolStatus{Ready: 12, Target: 12, Made: 13, Used: 1})
		x.Wait()
	})
}
