package local

import (
	"fmt"
	"slices"
	"sync"

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

	questions int            // how many wait for an answer
	askedBy   map[string]int // how many of them are each token's, by any front end
}

// take counts a question, until give. Where there is no room for it, what takes that is returned.
func (a *approvals) take(token string) (waiting string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.questions >= maxQuestions:
		return fmt.Sprintf("%d commands", maxQuestions)
	case a.askedBy[token] >= maxOfOne:
		return fmt.Sprintf("%d commands of this caller", maxOfOne)
	}
	if a.askedBy == nil {
		a.askedBy = map[string]int{}
	}
	a.questions++
	a.askedBy[token]++
	return ""
}

func (a *approvals) give(token string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.questions--
	if a.askedBy[token]--; a.askedBy[token] == 0 {
		delete(a.askedBy, token) // tokens come and go
	}
}

// asking is how many wait for an answer.
func (a *approvals) asking() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.questions
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
