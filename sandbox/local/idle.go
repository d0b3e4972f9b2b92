package local

import (
	"sync/atomic"
	"time"

	"belljar/sandbox"
)

// watchdog fires after a silence.
type watchdog struct {
	C     <-chan time.Time // nil without a limit: never ready
	timer *time.Timer
	limit time.Duration
	began time.Time
	due   atomic.Int64 // when it fires: nanoseconds since began
}

func newWatchdog(limit time.Duration) *watchdog {
	if limit == sandbox.NoIdleTimeout {
		return &watchdog{}
	}
	t := time.NewTimer(limit)
	w := &watchdog{C: t.C, timer: t, limit: limit, began: time.Now()}
	w.touch()
	return w
}

// touch starts the silence anew: there was output, or may have been.
func (w *watchdog) touch() {
	if w.timer != nil {
		w.due.Store(int64(time.Since(w.began) + w.limit))
		w.timer.Reset(w.limit)
	}
}

// deadline is when it fires, or did.
func (w *watchdog) deadline() time.Time { return w.began.Add(time.Duration(w.due.Load())) }

// hold stops counting until the next touch: whoever reads the output keeps the
// command waiting, and that is not its silence.
func (w *watchdog) hold() {
	if w.timer != nil {
		w.timer.Stop()
	}
}
