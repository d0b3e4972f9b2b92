package sandboxtest

import (
	"context"
	"slices"

	"belljar/sandbox"
)

// handle is a session's container, as one process has it open. Once it is closed it is of no use, whatever the container
// does: as with the engines' own.
type handle struct {
	*Container
	lost    chan struct{}
	useless bool // lost is closed
}

func (c *Container) open() *handle {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := &handle{Container: c, lost: make(chan struct{})}
	if c.handles = append(c.handles, h); c.useless {
		h.lose()
	}
	return h
}

// lose needs the container's lock.
func (h *handle) lose() {
	if !h.useless {
		close(h.lost)
	}
	h.useless = true
}

// Lost implements sandbox.Container.
func (h *handle) Lost() <-chan struct{} { return h.lost }

// Answers reports whether the container's init is alive.
func (h *handle) Answers(ctx context.Context) bool {
	return !isClosed(h.lost) && h.Container.Answers(ctx)
}

// Close implements sandbox.Container.
func (h *handle) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lose()
	h.handles = slices.DeleteFunc(h.handles, func(other *handle) bool { return other == h })
	return nil
}

// check fails once it is closed.
func (h *handle) check() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Contains(h.handles, h) {
		return lost("the container was closed")
	}
	return nil
}

// Exec implements sandbox.Container.
func (h *handle) Exec(ctx context.Context, x sandbox.Exec) (sandbox.Running, error) {
	if err := h.check(); err != nil {
		return nil, err
	}
	return h.Container.Exec(ctx, x)
}

// Processes implements sandbox.Container.
func (h *handle) Processes(ctx context.Context) ([]sandbox.Process, error) {
	if err := h.check(); err != nil {
		return nil, err
	}
	return h.Container.Processes(ctx)
}

// Signal implements sandbox.Container.
func (h *handle) Signal(ctx context.Context, list []sandbox.Process, signal sandbox.Signal) error {
	if err := h.check(); err != nil {
		return err
	}
	return h.Container.Signal(ctx, list, signal)
}
