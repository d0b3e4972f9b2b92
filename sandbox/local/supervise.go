package local

import (
	"context"
	"errors"
	"sync"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/internal/gate"

	"go.opentelemetry.io/otel/trace"
)

// process is what supervise knows of the command's process.
type process struct {
	running sandbox.Running
	exited  <-chan gate.Exit // ready when its streams have ended as well
	run     trace.Span       // until it ends
}

// supervise waits for the command's end or ends it, and records how it ended in
// the result. It returns when the command's output is complete. Ending
// the command makes p.exited ready; if it does not, giveUp does.
func (x *execution) supervise(ctx, patient context.Context, place place, p process, giveUp func()) error {
	defer x.output.activity.idle.pause()
	e, end := x.await(ctx, p)
	p.run.End()
	if end.cause == "" {
		return x.exited(ctx, patient, place, p, e, giveUp)
	}
	if end.shutdown && x.command.Session != "" {
		x.endAlone(place)
	}
	place.Base().askAgain()
	close(x.output.events.ending)
	x.snapshot(patient, place)
	if end.cause == sandbox.CauseIdleTimeout {
		end.message = x.idleMessage(place)
	}
	endedBy(&x.result, end)
	var asked []sandbox.Process
	done := keepReading(p.running)
	if !end.exitedFirst {
		var last *gate.Exit
		if last, asked = x.endGracefully(patient, place, p); last != nil {
			e = last
		}
	}
	x.collectAtEnd(patient, place, end)
	x.apply(x.end(patient, place, x.result.Message).with(asked, x.command.Session))
	done()
	defer time.AfterFunc(gate.DrainTimeout, giveUp).Stop()
	if e == nil {
		last := <-p.exited // its status is that of our kill
		e = &last
	}
	x.result.Evidence.OutputError = e.Cut
	return nil
}

// exited records a command that ended by itself. If e is nil, only the main process
// ended: what it left running holds its streams open, and ends with the
// container, as if the command were the container's main process. In a
// session it stays, and the engine cuts the streams after a while.
//
// Cancelling ctx no longer ends the command, but it ends the wait for the rest of
// the output and for an engine that does not report the exit status.
func (x *execution) exited(ctx, patient context.Context, place place, p process, e *gate.Exit, giveUp func()) error {
	if e != nil && e.Err != nil {
		x.readCounters(patient, place)
		x.result.Evidence.OutputError = e.Cut
		return e.Err
	}
	done := func() {}
	if !place.Keeps() { // what holds the streams open ends with the container
		done = keepReading(p.running)
	}
	x.snapshot(patient, place)
	x.collectFiles(ctx, place.Base(), collectTimeout)
	var last cleanup // what is counted after the command's end does not explain it
	if e == nil {
		// The container's end waits for output that waits for its reader, so that canceling ends that, too.
		stop := context.AfterFunc(ctx, func() {
			close(x.output.events.ending)
			time.AfterFunc(gate.DrainTimeout, giveUp)
		})
		if len(x.result.Lingering) > 0 && !place.Keeps() {
			x.apply(x.end(patient, place, ""))
			last.counters = finalCounters(patient, place)
		}
		done()
		end := <-p.exited
		stop()
		e = &end
	}
	x.result.Evidence.OutputError = e.Cut
	defer func() { x.apply(last) }()
	if e.Err != nil {
		return e.Err
	}
	switch {
	case e.Status != statusKilled:
	case last.counters != nil:
		x.addCounters(*last.counters)
	default:
		x.checkKiller(patient, place)
	}
	exitedWith(&x.result, e.Status, x.command.Limits, x.oomPeak)
	x.explainKill(patient, place)
	return nil
}

// explainKill says so where belljar itself ended the container that a command was killed with: engines only know that
// this command did not ask for it.
func (x *execution) explainKill(ctx context.Context, place place) {
	r := &x.result
	if by := r.Evidence.KilledBy; by != "" && by != "outside" || r.ExitCode != statusKilled { // "": the container is just ending
		return
	}
	ctx, cancel := context.WithTimeout(ctx, removeTimeout) // who ends it holds the record until it is gone
	defer cancel()
	if why := place.EndedBy(ctx); why != "" {
		r.Evidence.KilledBy, r.Message = "belljar", "killed with its container: "+why
	}
}

// explainLoss says so where memory ran out as the command started, with which the container ended.
func (x *execution) explainLoss(ctx context.Context, place place, err error) error {
	e, is := errors.AsType[*sandbox.Error](err)
	if !is || e.Cause != sandbox.CauseEngineLost {
		return err
	}
	x.readCounters(ctx, place)
	if x.result.Evidence.OOMKills == 0 || byPod(x.result) { // of that its engine has told
		return err
	}
	lost := *e
	why, host := outOfMemory(x.result, x.command.Limits, x.oomPeak)
	lost.Message += ": " + why
	if lost.Hint = "raise limits.memory: files in memory, as in /tmp, count"; host {
		lost.Hint = "run the command again once others use less memory there"
	}
	return &lost
}

// keepReading has the process's streams read on after its end until done is called, where the engine would stop
// a moment after it.
func keepReading(r sandbox.Running) (done func()) {
	if r, is := r.(interface{ KeepReading() func() }); is {
		return r.KeepReading()
	}
	return func() {}
}

// checkKiller checks once more whether the container was ended from outside, or memory ran out: processes
// may have ended a moment before that is known.
func (x *execution) checkKiller(ctx context.Context, place place) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	c, err := place.Counters(ctx)
	if err != nil {
		return
	}
	x.addCounters(c)
	x.result.Evidence.KilledBy = c.KilledBy
}

// await returns the command's exit, nil where the process ended and its streams
// did not, or the reason to end it. If both are ready the exit counts, as it
// happened, unless it came after the time was up.
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
			end = ending{cause: sandbox.CauseIdleTimeout}
			if end.due = x.output.activity.idle.deadline(); time.Now().Before(end.due) {
				continue // there was output just now
			}
		case <-wall.C:
			end = atWall
		case <-x.output.recorder.full:
			end = outputEnding(c.Limits.Output)
		case <-x.output.recorder.failed:
			end = unkeptEnding(x.output.recorder.spool.Err())
		case err := <-x.stdin.Failed():
			end = inputEnding(err)
		case <-ctx.Done():
			end = cancelEnding(ctx)
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
		x.output.activity.idle.touch() // output that was written meanwhile is only read now
	}
}

const (
	// standstill is how late a timer must be to show that belljar stood still: it
	// was stopped, or its host was suspended.
	standstill = time.Second

	// reportDelay is how long the engine may take to report a process's end while
	// its streams are held open.
	reportDelay = 3 * time.Second
)

// afterStandstill reports whether belljar stood still when the time was up. It then
// cannot know what the command did since.
func (e ending) afterStandstill() bool { return !e.due.IsZero() && time.Since(e.due) > standstill }

// ifBefore is the ending of a command that ended by itself, but after its time
// was up, while belljar stood still; otherwise there is none.
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

// snapshot records processes and counters while the container still exists to
// be asked.
func (x *execution) snapshot(ctx context.Context, place place) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	ctx, span := step(ctx, spanList)
	defer span.End()
	var unlisted error
	var other sync.WaitGroup
	other.Go(func() { x.result.Lingering, unlisted = place.Processes(ctx) }) // some engines ask far away
	x.readCounters(ctx, place)
	other.Wait()
	if unlisted != nil {
		x.result.Evidence.ListError = unlisted.Error()
	}
}

// readCounters records the counters.
func (x *execution) readCounters(ctx context.Context, place place) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	counters, err := place.Counters(ctx)
	if err != nil {
		return // Evidence.Source stays empty, which means unknown
	}
	counters.ListError = x.result.Evidence.ListError
	x.result.Evidence, x.result.Resources, x.oomPeak = counters.Evidence, counters.Resources, counters.OOMPeak
}

// addCounters adds the counts up to the container's end.
func (x *execution) addCounters(last sandbox.Counters) {
	e, r := &x.result.Evidence, &x.result.Resources
	if last.OOMKills > e.OOMKills || last.OOMPeak > x.oomPeak {
		x.oomPeak = last.OOMPeak
	}
	e.OOMKills, e.PidsLimitHits = max(e.OOMKills, last.OOMKills), max(e.PidsLimitHits, last.PidsLimitHits)
	r.CPUSeconds, r.MaxMemoryBytes = max(r.CPUSeconds, last.CPUSeconds), max(r.MaxMemoryBytes, last.MaxMemoryBytes)
}
