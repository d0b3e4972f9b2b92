package local

import (
	"context"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/internal/gate"
)

// process is the command's, as far as its end concerns.
type process struct {
	running sandbox.Running
	exited  <-chan gate.Exit // ready when its streams ended too
}

// supervise waits for the command's end or ends it, and writes its fate into
// the result. It returns when the command's output has come to its end. Ending
// the command makes p.exited ready; should it not, giveUp does.
func (x *execution) supervise(ctx, patient context.Context, place place, p process, giveUp func()) error {
	defer x.output.activity.idle.pause()
	e, end := x.await(ctx, p)
	if end.cause == "" {
		return x.exited(ctx, patient, place, p, e, giveUp)
	}
	close(x.output.events.ending)
	x.snapshot(patient, place)
	endedBy(&x.result, end)
	x.apply(place.End(patient, x.result.Message))
	defer time.AfterFunc(gate.DrainTimeout, giveUp).Stop()
	if e == nil {
		last := <-p.exited // its status is that of our kill
		e = &last
	}
	x.result.Evidence.OutputError = e.Cut
	return nil
}

// exited records a command that ended of itself. Where e is nil only the
// process has: what it left behind holds its streams, and goes with the
// container, as it would if the command were the container's main process. In a
// session it stays, and the engine cuts the streams after a while.
//
// Cancelling ctx no longer ends the command, but what it said need not be read
// then, nor an engine waited for that does not tell its status.
func (x *execution) exited(ctx, patient context.Context, place place, p process, e *gate.Exit, giveUp func()) error {
	if e != nil && e.Err != nil {
		x.readCounters(patient, place)
		x.result.Evidence.OutputError = e.Cut
		return e.Err
	}
	x.snapshot(patient, place)
	killed := false
	if e == nil {
		if len(x.result.Lingering) > 0 && !place.Keeps() {
			killed = true
			x.apply(place.End(patient, ""))
			x.apply(cleanup{counters: finalCounters(patient, place)})
		}
		stop := context.AfterFunc(ctx, func() {
			close(x.output.events.ending)
			time.AfterFunc(gate.DrainTimeout, giveUp)
		})
		last := <-p.exited
		stop()
		e = &last
	}
	x.result.Evidence.OutputError = e.Cut
	if e.Err != nil {
		return e.Err
	}
	if e.Status == statusKilled && !killed {
		x.checkKiller(patient, place)
	}
	exitedWith(&x.result, e.Status, x.command.Limits)
	return nil
}

// checkKiller asks once more whether the container was ended from outside: its
// processes may have gone a moment before it did.
func (x *execution) checkKiller(ctx context.Context, place place) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	if c, err := place.Counters(ctx); err == nil && c.KilledBy != "" {
		x.result.Evidence.KilledBy = c.KilledBy
	}
}

// await returns the command's exit, nil where the process ended and its streams
// did not, or the reason to end it. Where both are there the exit counts, for it
// happened; but not where it came after the time was up.
func (x *execution) await(ctx context.Context, p process) (*gate.Exit, ending) {
	c := x.command
	wall := time.NewTimer(c.Timeout)
	defer wall.Stop()
	atWall := wallEnding(c.Timeout)
	atWall.due = time.Now().Add(c.Timeout)
	for {
		var end ending
		select {
		case e := <-p.exited:
			return &e, atWall.ifBefore(ctx, p.running)
		case <-p.running.Exited():
			return nil, atWall.ifBefore(ctx, p.running)
		case <-x.output.activity.idle.C:
			end = idleEnding(c.IdleTimeout)
			if end.due = x.output.activity.idle.deadline(); time.Now().Before(end.due) {
				continue // there was output just now
			}
		case <-wall.C:
			end = atWall
		case <-x.output.recorder.full:
			end = outputEnding(c.Limits.Output)
		case <-x.output.recorder.failed:
			end = unkeptEnding(x.output.recorder.spool.Err())
		case <-ctx.Done():
			end = cancelEnding
		}
		select {
		case e := <-p.exited:
			return &e, atWall.ifBefore(ctx, p.running)
		case <-p.running.Exited():
			return nil, atWall.ifBefore(ctx, p.running)
		default:
		}
		if !end.afterStandstill() {
			return nil, end
		}
		if _, yes := hasEnded(ctx, p.running); yes {
			return nil, atWall.ifBefore(ctx, p.running)
		}
		if end.cause == sandbox.CauseWallTimeout {
			return nil, end
		}
		x.output.activity.idle.restart() // what was written meanwhile is only read now
	}
}

const (
	// standstill is how late a timer is of a belljar that stood still: stopped,
	// or on a host that did.
	standstill = time.Second

	// reportDelay is how long after a process's end the engine may say that it
	// ended, as its streams were held.
	reportDelay = 3 * time.Second
)

// afterStandstill tells whether belljar stood still when the time was up. It then
// does not know what became of the command since.
func (e ending) afterStandstill() bool { return !e.due.IsZero() && time.Since(e.due) > standstill }

// ifBefore is the ending where a command that has ended of itself did so after
// its time was up, while belljar stood still; else there is none.
func (e ending) ifBefore(ctx context.Context, r sandbox.Running) ending {
	if !e.afterStandstill() {
		return ending{}
	}
	if when, yes := hasEnded(ctx, r); !yes || !when.After(e.due.Add(reportDelay)) {
		return ending{}
	}
	e.exitedFirst = true
	return e
}

func hasEnded(ctx context.Context, r sandbox.Running) (when time.Time, yes bool) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	return r.HasEnded(ctx)
}

// snapshot records what runs and what was counted, while the container is there to
// be asked.
func (x *execution) snapshot(ctx context.Context, place place) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	var err error
	if x.result.Lingering, err = place.Processes(ctx); err != nil {
		x.result.Evidence.ListError = err.Error()
	}
	x.readCounters(ctx, place)
}

// readCounters records what was counted.
func (x *execution) readCounters(ctx context.Context, place place) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	counters, err := place.Counters(ctx)
	if err != nil {
		return // Evidence.Source stays empty, which says so
	}
	counters.ListError = x.result.Evidence.ListError
	x.result.Evidence, x.result.Resources = counters.Evidence, counters.Resources
}

// addCounters adds what was counted while the container went.
func (x *execution) addCounters(last sandbox.Counters) {
	e, r := &x.result.Evidence, &x.result.Resources
	e.OOMKills, e.PidsLimitHits = max(e.OOMKills, last.OOMKills), max(e.PidsLimitHits, last.PidsLimitHits)
	r.CPUSeconds, r.MaxMemoryBytes = max(r.CPUSeconds, last.CPUSeconds), max(r.MaxMemoryBytes, last.MaxMemoryBytes)
}
