package docker

import (
	"context"
	"fmt"

	"belljar/sandbox"
)

// Exec implements sandbox.Container.
func (b *box) Exec(ctx context.Context, x sandbox.Exec) (sandbox.Running, error) {
	switch uid := x.User.UID; {
	case uid == b.keeperUID:
		return nil, engineError(nil, "user %s has the UID of belljar's own processes in this container", x.User).As(sandbox.CauseInvalid).
			Hint(fmt.Sprintf("choose a UID other than %d, or use another session", b.keeperUID))
	case uid <= 0:
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
	l, err := b.attached(ctx)
	if err != nil {
		return nil, err
	}
	if l == nil {
		return b.exec(ctx, x)
	}
	defer l.Release()
	return b.startLinked(ctx, l, x)
}

func rootError() error {
	return engineError(nil, "commands may not run as root").As(sandbox.CauseInvalid).Hint("give a UID above 0")
}

func noBashError() error {
	return engineError(nil, "bash is not on the command's PATH").As(sandbox.CauseInvalid).Hint("leave PATH out of the variables, or use --shell sh")
}
