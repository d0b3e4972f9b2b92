package executions

import (
	"runtime"
	"sync"
	"testing"

	"belljar/internal/names"
	"belljar/sandbox"
	"belljar/sandbox/sandboxtest"
)

// heap is what is in use.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Executions that ended are on the disk. What stays in memory is a record each: of 10,000 at most 64 MiB.
func TestManyEnded(t *testing.T) {
	const many, most = 2_000, 64 << 20 / 5
	dir := t.TempDir()
	l := runner(t, dir, func(p *sandboxtest.Proc) int { p.Stdout.Write(make([]byte, 8<<10)); return 0 })
	l.Admission = sandbox.Admission{MaxQueued: 100}
	b := openBook(t, dir, l)
	start(t, b, sandbox.Command{Script: "warm up"}, Request{Owner: "a"})
	before := heap()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range many / 4 {
				x, err := b.Start(t.Context(), sandbox.Command{Script: "write"}, Request{Owner: "a", Key: names.NewID()})
				if err != nil {
					t.Error(err)
					return
				}
				<-x.Done()
			}
		})
	}
	all.Wait()
	after := heap()
	if n := len(b.List(func(*Execution) bool { return true })); after > before+most {
		t.Errorf("%d executions take %d bytes", n, after-before)
	}
}
