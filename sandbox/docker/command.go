package docker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"belljar/sandbox"
)

// Exec implements sandbox.Container.
func (b *box) Exec(ctx context.Context, x sandbox.Exec) (sandbox.Running, error) {
	switch uid := x.User.UID; {
	case uid == b.keeperUID:
		return nil, engineError(nil, "user %s has the UID of belljar's own processes in this container", x.User).As(sandbox.CauseInvalid).
			Hint(fmt.Sprintf("choose a UID other than %d, or use another session", b.keeperUID))
	case uid < 0, uid == 0 && b.root == "":
		return nil, rootError()
	}
	r, err := b.begin(ctx, x)
	if err != nil {
		return nil, err
	}
	if _, byEngine := r.(*running); byEngine {
		b.inspector.prepare()
	}
	return r, nil
}

// begin starts a command by the container's init, where this process is attached to it,
// else by the engine.
func (b *box) begin(ctx context.Context, x sandbox.Exec) (sandbox.Running, error) {
	l, err := b.attachedSoon(ctx)
	if err != nil {
		return nil, err
	}
	if l == nil {
		return b.exec(ctx, x)
	}
	defer l.Release()
	return b.startLinked(ctx, l, x)
}

const (
	busyTimeout = 3 * time.Second
	busyPause   = 100 * time.Millisecond
)

// attachedSoon is attached, and waits a little for another process, which may only have looked at the container.
func (b *box) attachedSoon(ctx context.Context) (*link, error) {
	for end := time.Now().Add(busyTimeout); ; {
		l, err := b.attached(ctx)
		switch {
		case !errors.Is(err, errAttached):
			return l, err
		case time.Now().After(end):
			return nil, engineError(nil, "another belljar process uses session %q now", b.spec.Session).As(sandbox.CauseBusy).Hint("run the command again once that has ended")
		}
		select {
		case <-time.After(busyPause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func rootError() error {
	return engineError(nil, "commands may not run as root").As(sandbox.CauseInvalid).Hint("give a UID above 0, or a profile with user: root")
}

func noBashError() error {
	return engineError(nil, "bash is not on the command's PATH").As(sandbox.CauseInvalid).Hint("leave PATH out of the variables, or use --shell sh")
}
