package docker

import (
	"context"
	"sync"
	"time"
)

// exitWatch watches a process for its end: on this host directly, elsewhere by the
// engine's answers, which come only when the process's streams ended too, or 2 s
// later.
type exitWatch struct {
	C      chan struct{} // closed when the process ended
	once   sync.Once
	cancel context.CancelFunc
	done   chan struct{}
}

// report is called when the process is known to have ended.
func (w *exitWatch) report() { w.once.Do(func() { close(w.C) }) }

// reported waits until the engine tells the process's end: by its event, or, where events may be missing,
// when it is asked. It is false for one that may have been killed with its container: Wait finds out, and then reports it.
func (r *running) reported(ctx context.Context) bool {
	alone := func(status int) bool { return status != killed && status != runtimeFailed }
	for {
		end, told, changed := r.box.watch.exit(r.id)
		if told {
			return alone(end.status)
		}
		var ask <-chan time.Time
		if r.box.watch.uncertain() {
			ask = time.After(slowPoll)
		}
		select {
		case <-changed:
		case <-ask:
			if about, err := r.inspect(ctx); err == nil && !about.Running && about.Pid != 0 {
				return alone(about.ExitCode)
			}
		case <-ctx.Done():
			return false
		}
	}
}

// watchExit begins when the engine reports the process's PID.
func (r *running) watchExit() *exitWatch {
	ctx, cancel := context.WithCancel(context.Background())
	w := &exitWatch{C: make(chan struct{}), cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		if r.box.inspector.waitExit(ctx, r) {
			w.report()
		}
	}()
	return w
}

func (w *exitWatch) stop() {
	w.cancel()
	<-w.done
}

// Exited implements sandbox.Running.
func (r *running) Exited() <-chan struct{} { return r.exited.C }

// HasEnded implements sandbox.Running. The engine's clock is this host's if its
// processes are on this host.
func (r *running) HasEnded(ctx context.Context) (when time.Time, yes bool) {
	about, err := r.inspect(ctx)
	if err != nil || about.Pid == 0 {
		return when, false
	}
	runs, known := r.box.inspector.runs(about.Pid)
	yes = !about.Running || known && !runs
	if yes && known {
		ctx, cancel := context.WithTimeout(ctx, eventTimeout)
		defer cancel()
		r.box.watch.until(ctx, func(s state) bool {
			if when = s.exits[r.id].when; when.IsZero() {
				when = r.when.Load() // no longer in the state, nor is the process
			}
			return s.missed || !when.IsZero()
		})
	}
	return when, yes
}

// pid is the process's PID on the engine's host, 0 if it never started or ended
// before the engine reported it.
func (r *running) pid(ctx context.Context) int {
	defer r.unstick()()
	for pause := firstAsk; ; pause = nextAsk {
		select {
		case <-time.After(pause):
		case <-r.copied:
			return 0 // its exit status is about to come
		case <-ctx.Done():
			return 0
		}
		if about, err := r.inspect(ctx); err != nil || about.Pid != 0 {
			return about.Pid
		}
	}
}

// The engine takes about 40 ms to start a process. The first request for the PID
// comes after a while, the next ones quickly.
const (
	firstAsk = 25 * time.Millisecond
	nextAsk  = 5 * time.Millisecond
)
