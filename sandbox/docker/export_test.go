package docker

import (
	"context"

	"belljar/sandbox"
)

// ThisProcess is this process's name in its containers' labels.
func ThisProcess() string { return thisProcess().process }

// NumberedName is numberedName.
var NumberedName = numberedName

// ListInside lists a container's processes as where the kernel is not shared.
func ListInside(ctx context.Context, c sandbox.Container) ([]sandbox.Process, error) {
	return c.(*box).listInside(ctx)
}
