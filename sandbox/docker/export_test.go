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
	elsewhere := &box{engine: b.engine, id: b.id, spec: b.spec, runtime: b.runtime, watch: b.watch}
	return elsewhere.Kill(ctx, list)
}
