package docker_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"belljar/sandbox"
)

// lateWriter takes nothing before a time.
type lateWriter struct {
	open <-chan struct{}
	n    int
}

func (w *lateWriter) Write(p []byte) (int, error) {
	<-w.open
	w.n += len(p)
	return len(p), nil
}

// Output that is taken only long after its process ended is whole: of some size, its end is
// still in the engine's pipe then, which the engine cuts after 2 s.
func TestLateReaderGetsAll(t *testing.T) {
	t.Parallel()
	engine := connectBy(t, sandbox.WayExec)
	c := enter(t, engine, baseImage(t, engine))
	open := make(chan struct{})
	release := sync.OnceFunc(func() { close(open) })
	t.Cleanup(release)
	type written struct {
		size int
		to   *lateWriter
		x    sandbox.Running
	}
	var all []written
	for size := 1_050_000; size < 1_650_000; size += 25_000 {
		w := written{size: size, to: &lateWriter{open: open}}
		var err error
		script := fmt.Sprintf("head -c %d /dev/zero", size)
		if w.x, err = c.box.Exec(t.Context(), sandbox.Exec{Script: script, Dir: "/", User: c.spec.User, Stdout: w.to, Stderr: w.to}); err != nil {
			t.Fatal(err)
		}
		all = append(all, w)
	}
	time.AfterFunc(6*time.Second, release)
	cuts := 0
	for _, w := range all {
		status, err := w.x.Wait(t.Context())
		if err == nil && w.x.Cut() != "" && cuts < len(all)/2 { // the engine may be late itself, and that is said
			cuts++
			continue
		}
		if err != nil || status != 0 || w.to.n != w.size || w.x.Cut() != "" {
			t.Errorf("%d bytes of %d, status %d, error %v, cut %q", w.to.n, w.size, status, err, w.x.Cut())
		}
	}
}
