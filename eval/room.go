package eval

import (
	"cmp"
	"context"

	"belljar/eval/suite"
	"belljar/sandbox"

	"golang.org/x/sync/semaphore"
)

// Room is what trials that run at the same time may use together. Each takes what the limits of
// its task's containers are, of which one at a time does something.
type Room struct {
	most   need
	limits sandbox.Limits // where a task has none of its own
	cpus   *semaphore.Weighted
	memory *semaphore.Weighted
}

// need is what a trial takes.
type need struct{ milliCPUs, memory int64 }

// NewRoom is so many CPUs, and so many bytes of memory.
func NewRoom(cpus int, memory int64, limits sandbox.Limits) *Room {
	most := need{max(1, int64(cpus)) * 1000, max(1, memory)}
	return &Room{most, limits, semaphore.NewWeighted(most.milliCPUs), semaphore.NewWeighted(most.memory)}
}

// of is a task's. One that needs more than there is runs alone.
func (r *Room) of(t *suite.Task) need {
	cpus := max(cmp.Or(t.Agent.CPUs, r.limits.CPUs), cmp.Or(t.Grader.CPUs, r.limits.CPUs))
	memory := max(cmp.Or(t.Agent.Memory, r.limits.Memory), cmp.Or(t.Grader.Memory, r.limits.Memory))
	return need{min(max(1, int64(cpus*1000)), r.most.milliCPUs), min(max(1, memory), r.most.memory)}
}

// take waits for room, and reports false where ctx ended first.
func (r *Room) take(ctx context.Context, t *suite.Task) bool {
	if r == nil {
		return true
	}
	n := r.of(t)
	if r.cpus.Acquire(ctx, n.milliCPUs) != nil {
		return false
	}
	if r.memory.Acquire(ctx, n.memory) != nil {
		r.cpus.Release(n.milliCPUs)
		return false
	}
	return true
}

func (r *Room) give(t *suite.Task) {
	if r != nil {
		n := r.of(t)
		r.memory.Release(n.memory)
		r.cpus.Release(n.milliCPUs)
	}
}
