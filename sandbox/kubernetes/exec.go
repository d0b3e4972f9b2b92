package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"belljar/internal/shellargs"
	"belljar/internal/target"
	"belljar/sandbox"
	"belljar/sandbox/internal/boxlink"
	"belljar/sandbox/internal/lockdown"
)

// running is a process.
type running struct {
	*boxlink.Process
	box    *box
	link   *link
	known  chan struct{} // closed once it is known how it ended, or that this cannot be known
	status int           // set before that
	err    error         // the same
}

// Exec implements sandbox.Container.
func (b *box) Exec(ctx context.Context, x sandbox.Exec) (sandbox.Running, error) {
	switch own := b.record.User; {
	case x.User.UID <= 0:
		return nil, rootError()
	case x.User.UID != own.UID || x.User.GID != own.GID:
		return nil, engineError(nil, "a pod's commands all run as one user, which is %s here, and not %s", own.Numbers(), x.User.Numbers()).As(sandbox.CauseInvalid).
			Hint("use another session for each user")
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l, err := b.attached(ctx)
	switch {
	case errors.Is(err, errEnded):
		return nil, b.endedError(nil)
	case err != nil:
		return nil, err
	}
	defer l.Release()
	shell := cmp.Or(x.Shell, sandbox.ShellSh)
	p, err := l.Start(ctx, boxlink.Start{
		Args: append([]string{shell, "-c"}, shellargs.Of(shell, x.Script)...), Env: lockdown.CommandEnv(b.record.Name, lockdown.Env, x.Env),
		Dir: x.Dir, UID: x.User.UID, GID: x.User.GID, Stdin: x.Stdin, TTY: x.TTY, Stdout: writer(x.Stdout), Stderr: writer(x.Stderr),
		Around: &boxlink.Around{Texts: groupFiles, Spaces: b.memoryDirs(), Before: b.spec.Session != ""},
	})
	if err != nil {
		return nil, b.execError(ctx, l, shell, x.Dir, err)
	}
	r := &running{Process: p, box: b, link: l, known: make(chan struct{})}
	l.Follow(r.follow)
	return r, nil
}

func writer(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}

// execError says why a process did not start.
func (b *box) execError(ctx context.Context, l *link, shell, dir string, err error) error {
	var refused *boxlink.StartError
	switch is := errors.As(err, &refused); {
	case errors.Is(err, boxlink.ErrUnknown):
		if l.Broken() {
			if why, hint := b.findFate(l).early(); why != "" {
				return engineError(boxlink.ErrUnknown, "the pod ended as the command started: %s", why).As(sandbox.CauseEngineLost).Hint(hint)
			}
		}
		return engineError(err, "starting the command").As(sandbox.CauseEngineLost).Hint("see: belljar doctor")
	case !is && ctx.Err() != nil:
		return ctx.Err()
	case !is && l.Broken() && b.engine.endsWithUs(b.spec):
		return b.endedError(l)
	case !is && l.Broken():
		return b.reachError(ctx, err)
	case !is:
		return engineError(err, "starting the command by the pod's init").Hint("see: belljar doctor")
	}
	if limited := boxlink.LimitError(err, boxlink.Bounds{Limits: b.spec.Limits}); limited != nil && refused.Reason != boxlink.NoProcess {
		return limited
	}
	switch refused.Reason {
	case boxlink.NoDir:
		return target.NoDirError(dir)
	case boxlink.NoProgram, boxlink.NotExecutable:
		if shell == sandbox.ShellBash {
			return engineError(nil, "bash is not on the command's PATH").As(sandbox.CauseInvalid).Hint("leave PATH out of the variables, or use --shell sh")
		}
		return engineError(err, "image %q has no working sh", b.record.Image).As(sandbox.CauseImage).
			Hint("belljar runs each command as sh -c: use an image with a shell")
	case boxlink.NoProcess:
		return engineError(err, "the command could not start: the node's limit of processes for a pod is reached").As(sandbox.CausePidsLimit).
			Hint("end what runs in the session, or raise podPidsLimit of the kubelet")
	case boxlink.Stuck:
		return engineError(nil, "the command could not start: a process in the session stops every new one, as kill -STOP -1 does").
			Hint(fmt.Sprintf("remove the session: belljar session rm %s", b.record.Session))
	}
	return engineError(err, "the command could not start").Hint("see: belljar doctor")
}

// follow waits for the process's end, and then for that of its streams.
func (r *running) follow() {
	defer r.link.Release()
	select {
	case <-r.Process.Exited():
	case <-r.link.Done():
	}
	select {
	case <-r.Process.Exited(): // also where the link broke then
		r.status = r.Status()
	default:
		r.status, r.err = r.box.statusWithoutInit(r.link)
	}
	close(r.known)
	select {
	case <-r.Ended():
	case <-r.link.Done():
	}
}

// Exited implements sandbox.Running.
func (r *running) Exited() <-chan struct{} { return r.known }

// HasEnded implements sandbox.Running. What the init says before an answer has been read when that comes.
func (r *running) HasEnded(ctx context.Context) (when time.Time, yes bool) {
	r.link.Answers(ctx)
	select {
	case <-r.Process.Exited():
		return r.When(), true
	default:
	}
	select {
	case <-r.known: // the pod ended
		return when, true
	default:
		return when, false
	}
}

// Wait implements sandbox.Running.
func (r *running) Wait(ctx context.Context) (int, error) {
	defer r.Close()
	if !isClosed(r.known) {
		select {
		case <-r.known:
		case <-ctx.Done():
			return 0, engineError(ctx.Err(), "waiting for the command's end").As(sandbox.CauseEngineLost).Hint("see: belljar doctor")
		}
	}
	r.Drain(ctx, r.box.ending.Load)
	return r.status, r.err
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Resize implements sandbox.Running.
func (r *running) Resize(ctx context.Context, size sandbox.TerminalSize) error {
	if isClosed(r.Process.Exited()) || r.link.Broken() {
		return nil
	}
	err := r.Process.Resize(ctx, size)
	if err == nil || r.link.Broken() {
		return nil
	}
	return engineError(err, "resizing the command's terminal").Hint("see: belljar doctor")
}
