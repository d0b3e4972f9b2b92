package docker

import (
	"context"

	"belljar/sandbox"
)

// ThisProcess is this process's name in its containers' labels.
func ThisProcess() string { return thisProcess().process }

// ThisHost is this host's name in its containers' labels.
func ThisHost() string { return thisProcess().host }

// NumberedName is numberedName.
var NumberedName = numberedName

// ListInside lists a container's processes as where the kernel is not shared.
func ListInside(ctx context.Context, c sandbox.Container) ([]sandbox.Process, error) {
	return c.(*box).listInside(ctx)
}

// KillInside kills a container's processes as where this host does not see them.
func KillInside(ctx context.Context, c sandbox.Container, list []sandbox.Process) error {
	b := c.(*box)
	elsewhere := newBox(b.engine, b.id, b.watch)
	elsewhere.spec, elsewhere.runtime, elsewhere.keeper = b.spec, b.runtime, b.keeper
	return elsewhere.Kill(ctx, list)
}
