package local

import (
	"context"
	"slices"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/internal/gate"
)

const (
	// sessionGrace is how long a command that is ended alone has to end itself, unless
	// something else is configured: its session's files stay.
	sessionGrace = 2 * time.Second

	// gracePause is between two lists of what is left in that time, at first.
	gracePause    = 5 * time.Millisecond
	maxGracePause = 200 * time.Millisecond
)

// endGracefully sends SIGTERM to the command's processes, as they were listed, and gives
// them time to end. Output is read meanwhile, as always. A process that starts later gets
// no SIGTERM. It returns the command's exit if that is known by then, and which processes
// it asked to end. Cancelling patient ends the wait.
func (x *execution) endGracefully(patient context.Context, place place, p process) (e *gate.Exit, asked []sandbox.Process) {
	x.result.Evidence.StoppedBy = "SIGKILL" // unless all end
	if x.command.StopGrace == 0 || patient.Err() != nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(patient, x.command.StopGrace)
	defer cancel()
	own, err := place.Own(x.result.Lingering)
	if err == nil {
		err = place.Signal(ctx, own, "SIGTERM")
	}
	if err != nil || len(own) == 0 {
		if err != nil && ctx.Err() == nil {
			x.notice("the command got no time to end (stop_grace): sending SIGTERM failed: %v", err)
		}
		return nil, nil
	}
	e, all := waitForEnd(ctx, place, p)
	switch {
	case !all:
		x.addLate(patient, place)
	case e.Err == nil && e.Status != statusKilled:
		x.result.Evidence.StoppedBy = "SIGTERM"
	}
	return e, own
}

// endAlone has the command end without its session.
func (x *execution) endAlone(place place) {
	if x.command.OnTimeout != sandbox.EndCommand {
		x.command.StopGrace = max(x.command.StopGrace, sessionGrace)
	}
	place.Base().command.OnTimeout = sandbox.EndCommand
}

// addLate adds to what lingers what came up since SIGTERM and is killed now.
func (x *execution) addLate(ctx context.Context, place place) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	list, err := place.Processes(ctx)
	if err != nil && x.result.Evidence.ListError == "" {
		x.result.Evidence.ListError = err.Error()
	}
	x.result.Lingering = addKilled(x.result.Lingering, list)
}

// waitForEnd waits until the command has ended with all its processes, and reports
// whether that is known. Then its streams have ended, too.
func waitForEnd(ctx context.Context, place place, p process) (e *gate.Exit, all bool) {
	select {
	case last := <-p.exited:
		e = &last
	case <-p.running.Exited():
	case <-ctx.Done():
		return nil, false
	}
	if !waitForNone(ctx, place) {
		return e, false
	}
	if e == nil {
		select {
		case last := <-p.exited:
			e = &last
		case <-ctx.Done():
		}
	}
	return e, e != nil
}

// with adds the processes of a command that ended alone in its session which had been
// asked to.
func (c cleanup) with(asked []sandbox.Process, session string) cleanup {
	if c.alone {
		c.killed = addKilled(slices.Clone(asked), c.killed)
		c.notice("%d of the command's processes were ended; session %q continues", len(c.killed), session)
	}
	return c
}

// waitForNone waits until none of the command's processes is left, and reports whether
// that is known.
func waitForNone(ctx context.Context, place place) bool {
	for pause := gracePause; ; pause = min(2*pause, maxGracePause) {
		list, err := place.Processes(ctx)
		own, unknown := place.Own(list)
		if err == nil && unknown == nil && len(own) == 0 {
			return true
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return false
		}
	}
}
