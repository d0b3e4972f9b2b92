package oci

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"belljar/internal/shellargs"
	"belljar/internal/target"
	"belljar/sandbox"
	"belljar/sandbox/internal/boxlink"
	"belljar/sandbox/internal/proc"
)

// running is a process.
type running struct {
	*boxlink.Process
	box  *box
	once sync.Once
}

// Exec implements sandbox.Container.
func (b *box) Exec(ctx context.Context, x sandbox.Exec) (sandbox.Running, error) {
	switch uid := x.User.UID; {
	case uid == b.record.Keeper:
		return nil, engineError(nil, "user %s has the UID of belljar's own processes in this container", x.User).As(sandbox.CauseInvalid).
			Hint(fmt.Sprintf("choose a UID other than %d, or use another session", b.record.Keeper))
	case uid < 0 || uid == 0 && !b.record.Root:
		return nil, rootError()
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r := &running{box: b}
	shell := cmp.Or(x.Shell, sandbox.ShellSh)
	s := boxlink.Start{
		Args: append([]string{shell, "-c"}, shellargs.Of(shell, x.Script)...),
		Env:  withDefaults(x.Env, b.environ(x.User)), Dir: x.Dir, UID: x.User.UID, GID: x.User.GID, Stdin: x.Stdin, TTY: x.TTY,
		Stdout: writer(x.Stdout), Stderr: writer(x.Stderr),
	}
	var err error
	if r.Process, err = b.link.Start(ctx, s); err != nil {
		return nil, b.execError(ctx, x, err)
	}
	b.add(r)
	return r, nil
}

func rootError() error {
	return engineError(nil, "commands may not run as root").As(sandbox.CauseInvalid).Hint("give a UID above 0, or a profile with user: root")
}

func writer(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}

// environ are the variables of a user's commands that do not replace them.
func (b *box) environ(u sandbox.User) []string {
	if u.UID == 0 && b.record.Writable {
		return append([]string{"HOME=/root"}, slices.DeleteFunc(environ(b.id), func(v string) bool { return strings.HasPrefix(v, "HOME=") })...)
	}
	return environ(b.id)
}

// withDefaults are variables, and the defaults of those that are not among them.
func withDefaults(env, defaults []string) []string {
	all := slices.Clone(env)
	for _, d := range defaults {
		name, _, _ := strings.Cut(d, "=")
		if !slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, name+"=") }) {
			all = append(all, d)
		}
	}
	return all
}

// execError says why a process did not start.
func (b *box) execError(ctx context.Context, x sandbox.Exec, err error) error {
	if limited := boxlink.LimitError(err, boxlink.Bounds{Limits: b.spec.Limits, None: b.record.Limits != "", Refused: b.counter.Refused}); limited != nil {
		return limited
	}
	var refused *boxlink.StartError
	if !errors.As(err, &refused) {
		if errors.Is(err, boxlink.ErrUnknown) {
			return engineError(err, "starting the command").As(sandbox.CauseEngineLost).Hint("see: belljar doctor")
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return engineError(nil, "the container ended before the command started").As(sandbox.CauseEngineLost).Hint("another program may have killed it: run the command again")
	}
	switch refused.Reason {
	case boxlink.NoDir:
		return target.NoDirError(x.Dir)
	case boxlink.NoProgram, boxlink.NotExecutable:
		if cmp.Or(x.Shell, sandbox.ShellSh) == sandbox.ShellBash {
			return engineError(nil, "bash is not on the command's PATH").As(sandbox.CauseInvalid).Hint("leave PATH out of the variables, or use --shell sh")
		}
		return engineError(err, "image %q has no working sh", b.record.Image.Reference).As(sandbox.CauseImage).
			Hint("belljar runs each command as sh -c: use an image with a shell")
	case boxlink.Stuck:
		return engineError(nil, "the command could not start: a process in the session stops every new one, as kill -STOP -1 does").
			Hint(fmt.Sprintf("remove the session: belljar session rm %s", b.record.Session))
	}
	return engineError(err, "the command could not start").Hint("see: belljar doctor")
}

// HasEnded implements sandbox.Running. What the init says before an answer has been read by then: this
// process may have stood still since.
func (r *running) HasEnded(ctx context.Context) (when time.Time, yes bool) {
	r.box.link.Answers(ctx)
	select {
	case <-r.Exited():
		return r.When(), true
	default:
		return when, r.box.record.First.ended()
	}
}

// Wait implements sandbox.Running.
func (r *running) Wait(ctx context.Context) (status int, err error) {
	defer r.release()
	switch err := r.AwaitExit(ctx, r.isGone); {
	case errors.Is(err, boxlink.ErrSilent):
		return 0, engineError(err, "the exit status is unknown").As(sandbox.CauseEngineLost).Hint("partial output kept; run it again")
	case err != nil:
		return 0, engineError(err, "waiting for the command's end").As(sandbox.CauseEngineLost).Hint("see: belljar doctor")
	}
	select {
	case <-r.Exited(): // also where the link broke then
		status = r.Status()
	default:
		status, err = r.withContainer()
	}
	r.Drain(ctx, r.box.ending.Load)
	return status, err
}

// isGone reports whether this host's kernel has the process no more.
func (r *running) isGone() bool {
	return !r.box.record.ownKernel() && !r.box.ending.Load() && !proc.HasInside(r.box.group, r.PID(), r.StartTicks())
}

// killed is the exit status of a process that SIGKILL ended.
const killed = 128 + 9

// withContainer is the end of a process whose init is not reached any more. If the init
// has ended, the kernel killed the process with it.
func (r *running) withContainer() (int, error) {
	if r.box.record.First.ended() {
		if r.box.record.ownKernel() {
			return r.box.sentryStatus()
		}
		return killed, nil
	}
	return 0, engineError(nil, "the container's init is not reached any more: the exit status is unknown").
		As(sandbox.CauseEngineLost).Hint("partial output kept; run it again")
}

// release closes our ends of its streams.
func (r *running) release() {
	r.once.Do(func() {
		r.Close()
		r.box.forget(r)
	})
}

// Resize implements sandbox.Running.
func (r *running) Resize(ctx context.Context, size sandbox.TerminalSize) error {
	select {
	case <-r.Exited():
		return nil
	case <-r.box.link.Done():
		return nil
	default:
	}
	if err := r.Process.Resize(ctx, size); err != nil {
		return engineError(err, "resizing the command's terminal").Hint("see: belljar doctor")
	}
	return nil
}
