package docker

import (
	"cmp"
	"context"
	"errors"
	"time"

	"belljar/internal/shellargs"
	"belljar/internal/target"
	"belljar/sandbox"
	"belljar/sandbox/internal/boxlink"
	"belljar/sandbox/internal/lockdown"
	"belljar/sandbox/internal/proc"
)

// linked is a process that the container's init started.
type linked struct {
	*boxlink.Process
	box    *box
	link   *link
	known  chan struct{} // closed once it is known how it ended, or that this cannot be known
	status int           // set before that
	err    error         // the same
	unsaid bool          // the same: the engine carries nothing any more, so that no end of the streams comes
}

// startLinked starts a process by the init.
func (b *box) startLinked(ctx context.Context, l *link, x sandbox.Exec) (*linked, error) {
	p := &linked{box: b, link: l, known: make(chan struct{})}
	shell := cmp.Or(x.Shell, sandbox.ShellSh)
	process, err := l.Start(ctx, boxlink.Start{
		Args: append([]string{shell, "-c"}, shellargs.Of(shell, x.Script)...),
		Env:  lockdown.CommandEnv(b.init.hostname, b.environ(x.User), x.Env), Dir: x.Dir, UID: x.User.UID, GID: x.User.GID,
		Stdin: x.Stdin, TTY: x.TTY, Stdout: x.Stdout, Stderr: x.Stderr,
	})
	if err != nil {
		return nil, b.linkedError(ctx, l, shell, x.Dir, err)
	}
	p.Process = process
	b.init.following.Add(1)
	l.Follow(p.follow)
	return p, nil
}

// linkedError explains a start that failed.
func (b *box) linkedError(ctx context.Context, l *link, shell, dir string, err error) error {
	if limited := boxlink.LimitError(err, boxlink.Bounds{Limits: b.spec.Limits, Refused: b.inspector.Refused}); limited != nil {
		return limited
	}
	refused, _ := errors.AsType[*boxlink.StartError](err)
	switch {
	case errors.Is(err, boxlink.ErrUnknown):
		return engineError(err, "starting the command").As(sandbox.CauseEngineLost).Hint("see: belljar doctor")
	case refused == nil && ctx.Err() != nil:
		return engineError(ctx.Err(), "starting the command").Hint("see: belljar doctor")
	case refused == nil && l.Broken():
		return endedError()
	case refused == nil:
		return engineError(err, "starting the command by the container's init").Hint("see: belljar doctor")
	}
	missing := refused.Reason == boxlink.NoProgram || refused.Reason == boxlink.NotExecutable
	switch {
	case refused.Reason == boxlink.NoDir:
		return target.NoDirError(dir)
	case refused.Reason == boxlink.Stuck:
		return stuckError(b.spec)
	case missing && shell == sandbox.ShellSh:
		return noShellError(refused, sandbox.Spec{Image: b.spec.Image}) // an init needs no sleep for a session
	case missing:
		return noBashError()
	}
	return engineError(refused, "the container's init could not start the command").Hint("see: belljar doctor")
}

// follow waits for the process's end, and then for that of its streams.
func (p *linked) follow() {
	defer p.box.init.following.Done()
	defer p.link.Release()
	told := p.AwaitExit(context.Background(), p.isGone) == nil
	select {
	case <-p.Process.Exited(): // also where the link broke then
		p.status = p.Status()
	default:
		if p.unsaid = !told; told {
			p.status, p.err = p.box.statusWithoutInit(p.link.Conn.said())
		} else {
			p.err = errSilent()
		}
	}
	close(p.known)
	select {
	case <-p.Ended():
	case <-p.link.Done():
	}
}

// isGone reports whether this host's kernel has the process no more.
func (p *linked) isGone() bool {
	h, here := p.box.inspector.(*hostInspector)
	return here && !p.box.ending.Load() && !proc.HasInside(h.Group, p.PID(), p.StartTicks())
}

func errSilent() error {
	return engineError(nil, "the engine stopped answering, and the command has ended since: the exit status is unknown").
		As(sandbox.CauseEngineLost).Hint("partial output kept; see: belljar doctor")
}

// Exited implements sandbox.Running.
func (p *linked) Exited() <-chan struct{} { return p.known }

// HasEnded implements sandbox.Running. What the init says before an answer has been
// read when that comes.
func (p *linked) HasEnded(ctx context.Context) (when time.Time, yes bool) {
	p.link.Answers(ctx)
	select {
	case <-p.Process.Exited():
		return p.When(), true
	default:
	}
	select {
	case <-p.known: // the container ended
		return when, true
	default:
		return when, false
	}
}

// Wait implements sandbox.Running.
func (p *linked) Wait(ctx context.Context) (int, error) {
	defer p.Close()
	select {
	case <-p.known:
	case <-ctx.Done():
		return 0, engineError(ctx.Err(), "waiting for the command's end").As(sandbox.CauseEngineLost).Hint("see: belljar doctor")
	}
	if p.unsaid {
		return 0, p.err
	}
	if p.status == killed && p.err == nil && !p.box.ending.Load() {
		p.box.survived(ctx)
	}
	p.Drain(ctx, p.box.ending.Load)
	return p.status, p.err
}

// Resize implements sandbox.Running.
func (p *linked) Resize(ctx context.Context, size sandbox.TerminalSize) error {
	err := p.Process.Resize(ctx, size)
	if err == nil || p.link.Broken() {
		return nil
	}
	return engineError(err, "resizing the command's terminal").Hint("see: belljar doctor")
}
