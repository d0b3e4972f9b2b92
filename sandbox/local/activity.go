package local

import (
	"sync"
	"sync/atomic"
	"time"

	"belljar/sandbox"
)

// activity is when a command started, and when it was last heard of.
type activity struct {
	begun   chan struct{} // closed when the start event is out; nothing comes before it
	started time.Time
	spoke   bool
	first   time.Duration // from the start to the first output
	idle    *watchdog
}

func newActivity() *activity { return &activity{begun: make(chan struct{}), idle: &watchdog{}} }

func (a *activity) begin(idle time.Duration) {
	a.started, a.idle = time.Now(), newWatchdog(idle)
}

func (a *activity) heard() {
	if !a.spoke {
		a.spoke, a.first = true, time.Since(a.started)
	}
	a.idle.touch()
}

// touch counts activity other than output. Nothing is counted before the command starts.
func (a *activity) touch() {
	if isClosed(a.begun) {
		a.idle.touch()
	}
}

// watchdog fires after a silence.
type watchdog struct {
	C     <-chan time.Time // nil without a limit: never ready
	timer *time.Timer
	limit time.Duration
	began time.Time
	due   atomic.Int64 // when it fires: nanoseconds since began

	mu     sync.Mutex
	paused bool
}

func newWatchdog(limit time.Duration) *watchdog {
	if limit == sandbox.NoIdleTimeout {
		return &watchdog{}
	}
	t := time.NewTimer(limit)
	w := &watchdog{C: t.C, timer: t, limit: limit, began: time.Now()}
	w.restart()
	return w
}

// restart restarts the idle timer, and ends a pause: only who paused it may.
func (w *watchdog) restart() { w.reset(true) }

// touch restarts it unless it is paused: there was output, or other activity, or may have been.
func (w *watchdog) touch() { w.reset(false) }

func (w *watchdog) reset(resume bool) {
	if w.timer == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.paused = w.paused && !resume
	if !w.paused {
		w.due.Store(int64(time.Since(w.began) + w.limit))
		w.timer.Reset(w.limit)
	}
}

// deadline is when it fires, or did.
func (w *watchdog) deadline() time.Time { return w.began.Add(time.Duration(w.due.Load())) }

// pause stops counting until the next restart: while the reader of the output makes the
// command wait, the command is not silent.
func (w *watchdog) pause() {
	if w.timer == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.paused = true
	w.timer.Stop()
}
