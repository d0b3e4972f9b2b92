package local

import (
	"context"
	"errors"
	"sync/atomic"

	"belljar/sandbox"
	"belljar/sandbox/internal/control"
)

// control lets other processes end or signal the command, from its spool's directory; the
// function it returns ends that. The first request for the end cancels the command, as its
// caller could; a second one kills it.
func (x *execution) control() (end func()) {
	s := x.output.recorder.spool
	if !x.local.Control || s.Dir == "" || s.Temporary {
		return func() {}
	}
	var asked atomic.Bool
	l, err := control.Listen(s.Dir, func(ctx context.Context, r control.Request) error {
		switch {
		case r.Signal != "":
			return x.Signal(ctx, r.Signal)
		case asked.Swap(true):
			x.kill()
		default:
			x.cancel()
		}
		return nil
	})
	if err != nil {
		x.notice("belljar kill cannot reach the command: %v", err)
		return func() {}
	}
	return l.Close
}

// End ends a command that runs in another process, or, if signal is not "", sends that to
// it. The first time its caller seems to have canceled it, a second time it is killed at
// once. It does not wait for the end: see Await.
func (l *Local) End(ctx context.Context, id string, signal sandbox.Signal) error {
	info, err := l.LogInfo(ctx, id)
	if err != nil {
		return err
	}
	if info.Running {
		err = control.Send(ctx, l.spools().Path(id), control.Request{Signal: signal})
		if !errors.Is(err, control.ErrGone) {
			return err
		}
		if info, err = l.LogInfo(ctx, id); err != nil {
			return err
		}
	}
	if info.Running {
		return &sandbox.Error{Cause: sandbox.CauseEngine, Message: "the process that runs command " + id + " does not answer", Hint: "try again; a program that embeds belljar sets Local.Control"}
	}
	return sandbox.Invalid("see how it ended: belljar wait "+id, "command %s has ended", id)
}
