package sandboxtest

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"belljar/sandbox"
)

// patience is the time limit of a test of the suite; it measures nothing.
const patience = 10 * time.Minute

// user runs the suite's commands.
var user = sandbox.User{UID: 65534, GID: 65534}

// TestEngine is the suite that every Engine passes. Each test opens the engine
// again, with an image that has a POSIX shell and the usual tools; open
// registers a check for containers left behind with t.Cleanup. The tests
// run in parallel: -parallel limits how many.
func TestEngine(t *testing.T, open func(t *testing.T) (sandbox.Engine, sandbox.Image)) {
	for _, group := range []map[string]func(*testing.T, *fixture){statusTests, streamTests, inputTests, lifeTests, refusalTests, sessionTests, signalTests, terminalTests, userTests} {
		for name, test := range group {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				engine, image := open(t)
				test(t, newFixture(t, engine, image))
			})
		}
	}
}

// fixture is one test's engine and, if it asked for one, its container.
type fixture struct {
	engine sandbox.Engine
	spec   sandbox.Spec
	ctx    context.Context
}

func newFixture(t *testing.T, engine sandbox.Engine, image sandbox.Image) *fixture {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return &fixture{engine, spec(image), ctx}
}

var made atomic.Int64

func spec(image sandbox.Image) sandbox.Spec {
	return sandbox.Spec{
		Command: "suite-" + time.Now().Format("150405.000000") + "-" + string(rune('a'+made.Add(1)%26)),
		Image:   image, User: user, Workdir: "/work", Network: "none",
		Limits:   sandbox.Limits{Memory: 128 << 20, CPUs: 1, Pids: 64, Output: 1 << 20, Tmp: 8 << 20, Files: 256},
		Deadline: time.Now().Add(30 * time.Minute),
	}
}

// create makes a container that is removed after the test.
func (f *fixture) create(t *testing.T) sandbox.Container {
	t.Helper()
	box, err := f.engine.Create(f.ctx, f.spec)
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(f.ctx), patience)
		defer cancel()
		if err := box.Remove(ctx); err != nil {
			t.Errorf("removing the container after the test: %v", err)
		}
	})
	return box
}

// process is a running exec and its output so far.
type process struct {
	sandbox.Running
	stdout, stderr *recorder
}

func (f *fixture) exec(t *testing.T, box sandbox.Container, script string, change ...func(*sandbox.Exec)) *process {
	t.Helper()
	var busy atomic.Int32
	p := &process{stdout: newRecorder(t, &busy), stderr: newRecorder(t, &busy)}
	x := sandbox.Exec{Script: script, Dir: "/work", User: user, Env: []string{"PATH=/usr/bin:/bin"}, Stdout: p.stdout, Stderr: p.stderr}
	for _, change := range change {
		change(&x)
	}
	var err error
	if p.Running, err = box.Exec(f.ctx, x); err != nil {
		t.Fatalf("Exec of %q: %v", script, err)
	}
	return p
}

// run runs a script to its end and expects that status.
func (f *fixture) run(t *testing.T, box sandbox.Container, script string, want int, change ...func(*sandbox.Exec)) *process {
	t.Helper()
	p := f.exec(t, box, script, change...)
	status, err := p.Wait(f.ctx)
	if err != nil || status != want {
		t.Fatalf("%q: status %d, error %v, want status %d\nstderr: %s", script, status, err, want, p.stderr)
	}
	return p
}

// recorder keeps what is written. It reports two writes at once, also
// if they are to the two streams of one process.
type recorder struct {
	t       *testing.T
	busy    *atomic.Int32
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{} // closed and replaced with every write
}

func newRecorder(t *testing.T, busy *atomic.Int32) *recorder {
	return &recorder{t: t, busy: busy, changed: make(chan struct{})}
}

func (r *recorder) Write(p []byte) (int, error) {
	if r.busy.Add(1) != 1 {
		r.t.Error("two writes at once")
	}
	defer r.busy.Add(-1)
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.changed)
	r.changed = make(chan struct{})
	return r.text.Write(p)
}

func (r *recorder) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// await waits until text was written.
func (r *recorder) await(ctx context.Context, text string) {
	r.t.Helper()
	for {
		r.mu.Lock()
		seen, changed := strings.Contains(r.text.String(), text), r.changed
		r.mu.Unlock()
		if seen {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			r.t.Fatalf("waiting for %q, got %q", text, r.String())
		}
	}
}
