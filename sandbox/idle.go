package sandbox

import "time"

// watchdog fires after a silence. Its methods are for the one goroutine that
// brings the output.
type watchdog struct {
	C     <-chan time.Time // nil without a limit: never ready
	timer *time.Timer
	limit time.Duration
}

func newWatchdog(limit time.Duration) *watchdog {
	if limit == NoIdleTimeout {
		return &watchdog{}
	}
	t := time.NewTimer(limit)
	return &watchdog{C: t.C, timer: t, limit: limit}
}

// touch starts the silence anew: there was output.
func (w *watchdog) touch() {
	if w.timer != nil {
		w.timer.Reset(w.limit)
	}
}

// hold stops counting until the next touch: whoever reads the output keeps the
// command waiting, and that is not its silence.
func (w *watchdog) hold() {
	if w.timer != nil {
		w.timer.Stop()
	}
}
