package local

import (
	"slices"
	"sync"
	"sync/atomic"

	"belljar/sandbox"
	"belljar/sandbox/internal/record"
)

// maxApprovals is how many answers are remembered for callers without a session. Of
// more, each is asked about again.
const maxApprovals = 1000

// approvals are what callers without a session approved with AnswerAlways, each for
// itself. They last as long as the Runner.
type approvals struct {
	mu    sync.Mutex
	given map[sandbox.Caller][]record.Approved
	count int

	questions atomic.Int32 // how many wait for an answer
}

func (a *approvals) of(who sandbox.Caller) []record.Approved {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.given[who])
}

func (a *approvals) add(who sandbox.Caller, list []record.Approved) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.given == nil {
		a.given = map[sandbox.Caller][]record.Approved{}
	}
	for _, one := range list {
		if a.count < maxApprovals && !slices.Contains(a.given[who], one) {
			a.given[who] = append(a.given[who], one)
			a.count++
		}
	}
}
