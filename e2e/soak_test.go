package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"belljar"
	"belljar/config"
	"belljar/internal/enginetest"
	"belljar/sandbox"
	"belljar/sandbox/local"
)

const soakPool = 4

// soakCommands is how long a soak is: brief, which is enough to see that each result is
// right and nothing piles up, or, by make soak, as many as a user of a warm pool has in
// a long task.
func soakCommands(brief int) int {
	if n, err := strconv.Atoi(longSoak); err == nil {
		return n
	}
	return brief
}

// warmRunner is a runner in this process, on the engine in use or the one at host, with a pool.
func warmRunner(t *testing.T, host string, pool sandbox.PoolSize) (*local.Local, func()) {
	t.Helper()
	c, err := config.Load(config.Options{Workdir: t.TempDir(), NoWorkdir: true})
	if err != nil {
		t.Fatal(err)
	}
	state := t.TempDir()
	stateIn(t, state)
	c.StateDir, c.Engine.Host = filepath.Join(state, "belljar"), host
	at, err := belljar.Connect(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	p := c.Profiles[sandbox.DefaultProfile]
	p.Pool = pool
	runner := &local.Local{
		Engine: at.Engine, Images: at.Images, Admission: sandbox.Admission{MaxRunning: 64},
		Profiles: map[string]sandbox.Profile{sandbox.DefaultProfile: p},
	}
	runner.Warm()
	closed := sync.OnceFunc(func() {
		runner.Close()
		at.Close()
	})
	t.Cleanup(closed)
	return runner, closed
}

// TestBurst: 50 callers at once and a pool of 8. Each command runs once, and
// none hangs.
func TestBurst(t *testing.T) {
	needEngine(t)
	runner, _ := warmRunner(t, "", sandbox.PoolSize{Min: 8, Max: 8, MaxAge: time.Hour})
	eventually(t, "pool is full", func() bool { return pool(runner).Ready == 8 })
	var all sync.WaitGroup
	var mu sync.Mutex
	used := map[string]bool{}
	var took []time.Duration
	warm := 0
	for i := range 50 {
		all.Go(func() {
			r, err := sandbox.Run(t.Context(), runner, sandbox.Command{Script: fmt.Sprintf("echo %d >/work/once; cat /work/*; exit %d", i, i)})
			mu.Lock()
			defer mu.Unlock()
			if want := fmt.Sprintf("%d\n", i); err != nil || string(r.Stdout.Bytes()) != want || r.ExitCode != i || used[r.Container.ID] {
				t.Errorf("command %d: exit code %d, stdout %q, error %v; container used before: %v", i, r.ExitCode, r.Stdout.Bytes(), err, used[r.Container.ID])
			}
			used[r.Container.ID] = true
			took = append(took, r.Timing.Total)
			if r.Container.Warm {
				warm++
			}
		})
	}
	all.Wait()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	if memory.HeapInuse > 128<<20 {
		t.Errorf("%d MiB of memory", memory.HeapInuse>>20)
	}
	if warm < 8 {
		t.Errorf("only %d were warm", warm)
	}
	slices.Sort(took)
	t.Logf("%d warm, p50 %v, p99 %v, heap %d MiB", warm, took[25], took[49], memory.HeapInuse>>20)
}

// soak is what TestSoak counts.
type soak struct {
	lost, down int
	took       []time.Duration
	restarting atomic.Bool
	kills      int // of containers
}

// TestSoak: warm commands in a row, while a container is killed every ten
// seconds, and the engine once. Each result is right or says that it is not
// known, and nothing piles up. It is alone, because it counts what this process
// has.
func TestSoak(t *testing.T) {
	commands := soakCommands(60)
	d := privateEngine(t)
	runner, closed := warmRunner(t, d.Host, sandbox.PoolSize{Min: soakPool, Max: soakPool, MaxAge: 5 * time.Minute})
	ctx, stop := context.WithCancel(t.Context())
	var killer sync.WaitGroup
	var s soak
	killer.Go(func() { s.kills = killNow(ctx, d) })
	var before, after usage
	for i := range commands {
		switch i {
		case commands / 10:
			before = used()
		case commands / 2:
			eventually(t, "pool is full", func() bool { return pool(runner).Ready == soakPool })
			s.restarting.Store(true)
			d.Signal(t, syscall.SIGKILL)
			killer.Go(func() {
				// A new engine takes the dead containerd for a living one where
				// no one has reaped it.
				eventually(t, "containerd is gone", func() bool { return !d.Runs("containerd --config") })
				os.Remove(d.Dir + "/exec/containerd/containerd.pid")
				d.Start(t)
				s.restarting.Store(false)
			})
		}
		for !s.one(t, runner, i) {
			time.Sleep(100 * time.Millisecond) // no one calls an engine that is down without a pause
		}
	}
	stop()
	killer.Wait()
	after = used()
	closed()
	eventually(t, "nothing is left", func() bool {
		left, err := d.Left()
		return len(left) == 0 && err == nil
	})
	if after.goroutines > before.goroutines+20 || after.heap > before.heap+16<<20 || after.files > before.files+20 {
		t.Errorf("after %d commands %+v, after a tenth of them %+v", commands, after, before)
	}
	slices.Sort(s.took)
	status := pool(runner)
	t.Logf("p50 %v, p95 %v, p99 %v; engine lost %d, engine down %d; %+v; %+v, then %+v",
		s.took[len(s.took)/2], s.took[len(s.took)*95/100], s.took[len(s.took)*99/100], s.lost, s.down, status, before, after)
	if status.Lost < soakPool {
		t.Errorf("the pool lost %d containers, and the engine's end alone cost it %d", status.Lost, soakPool)
	}
	if s.lost > s.kills+soakPool+1 || len(s.took) < commands/2 { // the engine's end costs what is ready, and what runs
		t.Errorf("%d lost, %d right, %d containers killed", s.lost, len(s.took), s.kills)
	}
}

// one runs a command once the pool has a container, and checks its result. It returns
// false if the engine was down.
func (s *soak) one(t *testing.T, runner *local.Local, i int) bool {
	eventually(t, "a container is ready", func() bool { return pool(runner).Ready > 0 || s.restarting.Load() })
	down := s.restarting.Load()
	begun := time.Now()
	r, _ := sandbox.Run(t.Context(), runner, sandbox.Command{Script: fmt.Sprintf("echo %d; exit %d", i, i%7)})
	took := time.Since(begun)
	down = down || s.restarting.Load()
	outside := r.Evidence.KilledBy == "outside" && r.ExitCode == 137
	switch {
	case r.Cause == sandbox.CauseEngineLost || outside:
		s.lost++
	case down && r.Cause == sandbox.CauseEngine:
		s.down++
		return false
	case r.Cause != sandbox.CauseExited || r.ExitCode != i%7 || string(r.Stdout.Bytes()) != fmt.Sprintf("%d\n", i):
		text, _ := r.MarshalJSON()
		t.Errorf("command %d: %s", i, text)
	default:
		s.took = append(s.took, took)
	}
	return true
}

// killNow kills a random container of the engine every ten seconds, and counts them.
func killNow(ctx context.Context, d *enginetest.Engine) (kills int) {
	for {
		select {
		case <-ctx.Done():
			return kills
		case <-time.After(10 * time.Second):
		}
		out, _ := d.Docker("ps", "-q")
		if ids := strings.Fields(out); len(ids) > 0 {
			d.Docker("kill", ids[rand.IntN(len(ids))]) // it may go by itself meanwhile
			kills++
		}
	}
}

type usage struct {
	goroutines, files int
	heap              int64
}

func used() usage {
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	files, _ := os.ReadDir("/proc/self/fd")
	return usage{runtime.NumGoroutine(), len(files), int64(memory.HeapAlloc)}
}

// pool is the state of the runner's only one.
func pool(runner sandbox.Pools) sandbox.PoolStatus {
	list, _ := runner.Pools(context.Background()) // which has no error
	return list[0]
}
