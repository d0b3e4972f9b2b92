package kubernetes

import (
	"context"

	"belljar/sandbox"
)

// TellsAround reports that its processes tell, with their start and their end, what other containers are asked for then.
func (b *box) TellsAround() bool { return true }

// Before are the counters as they were before the process.
func (r *running) Before(ctx context.Context) (c sandbox.Counters, ok bool) {
	texts, ok := r.TextsBefore(ctx)
	if !ok {
		return c, false
	}
	r.box.counted(texts, nil) // another handle counted what came before
	return parseGroup(texts)
}

// ProcessesAtExit are those that ran when the process had just ended.
func (r *running) ProcessesAtExit(ctx context.Context) ([]sandbox.Process, bool) {
	return r.Process.ProcessesAtExit(ctx, noKeeper)
}

// CountersAtExit are the counters as they were then.
func (r *running) CountersAtExit(ctx context.Context) (c sandbox.Counters, ok bool) {
	texts, spaces, ok := r.LookAtExit(ctx)
	if !ok {
		return c, false
	}
	read := r.box.counted(texts, spaces)
	c = r.box.counters()
	return c, read || c.Source != "cgroup"
}
