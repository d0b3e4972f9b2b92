package local

import (
	"context"
	"errors"

	"belljar/sandbox"
	"belljar/sandbox/internal/control"
)

// control lets other processes end or signal the command, from its spool's directory; the
// function it returns ends that. A request for
// the end cancels or kills the command, as its caller could.
func (x *execution) control() (end func()) {
	s := x.output.recorder.spool
	if !x.local.Control || s.Dir == "" || s.Temporary {
		return func() {}
	}
	handle := func(ctx context.Context, r control.Request) error {
		switch {
		case r.Signal != "":
			return x.Signal(ctx, r.Signal)
		case r.Kill:
			x.kill()
		default:
			x.cancel()
		}
		return nil
	}
	if s.Socket != nil {
		return control.Serve(s.Socket, s.Dir, handle).Close
	}
	l, err := control.Listen(s.Dir, handle)
	if err != nil {
		x.notice("belljar kill cannot reach the command: %v", err)
		return func() {}
	}
	return l.Close
}

// End ends a command that runs in another process, as if its caller had canceled it, or, if
// signal is not "", sends that to it. It may be called again. It does not wait for the end: see Await.
func (l *Local) End(ctx context.Context, id string, signal sandbox.Signal) error {
	return l.end(ctx, id, control.Request{Signal: signal})
}

// Kill is End at once, without waiting for anything.
func (l *Local) Kill(ctx context.Context, id string) error {
	return l.end(ctx, id, control.Request{Kill: true})
}

func (l *Local) end(ctx context.Context, id string, r control.Request) error {
	info, err := l.LogInfo(ctx, id)
	if err != nil {
		return err
	}
	if info.Running {
		err = control.Send(ctx, l.spools().Path(id), r)
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
