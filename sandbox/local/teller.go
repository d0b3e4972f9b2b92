package local

import (
	"context"
	"sync/atomic"

	"belljar/sandbox"
)

// teller is a Running of an engine that is far from its containers: what others are asked for comes with the process's start and with
// its end. Where it does not come, ok is false.
type teller interface {
	Before(ctx context.Context) (c sandbox.Counters, ok bool)
	ProcessesAtExit(ctx context.Context) (list []sandbox.Process, ok bool)
	CountersAtExit(ctx context.Context) (c sandbox.Counters, ok bool)
}

// tells reports whether the container's processes are tellers.
func tells(box sandbox.Container) bool {
	t, can := box.(interface{ TellsAround() bool })
	return can && t.TellsAround()
}

// atExit is what tells what there was at the end of the process, once: a later question is about what there is then.
func (b *base) atExit(used *atomic.Bool) (t teller, can bool) {
	t, can = b.running.(teller)
	if !can || !isClosed(b.running.Exited()) || !used.CompareAndSwap(false, true) {
		return nil, false
	}
	return t, true
}

// askAgain makes atExit nothing: where the command is being ended, what counts is what is left after each step.
func (b *base) askAgain() {
	b.used.processes.Store(true)
	b.used.counters.Store(true)
}

// processes lists what runs in the container.
func (b *base) processes(ctx context.Context) ([]sandbox.Process, error) {
	if t, can := b.atExit(&b.used.processes); can {
		if list, ok := t.ProcessesAtExit(ctx); ok {
			return list, nil
		}
	}
	return b.box.Processes(ctx)
}

// counters are the container's.
func (b *base) counters(ctx context.Context) (sandbox.Counters, error) {
	if t, can := b.atExit(&b.used.counters); can {
		if c, ok := t.CountersAtExit(ctx); ok {
			return c, nil
		}
	}
	return b.box.Counters(ctx)
}
