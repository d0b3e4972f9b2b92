package local

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"belljar/sandbox"
)

// admission lets commands in, first come, first served.
type admission struct {
	mu       sync.Mutex
	admitted int             // running and waiting commands
	running  int             // running commands
	queue    []chan struct{} // one for each waiting command; closed when it may run
	mean     time.Duration   // average run time of the commands that ended
}

// admit takes a place in the queue, or refuses.
func (a *admission) admit(bounds sandbox.Admission) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.admitted >= bounds.MaxRunning+bounds.MaxQueued {
		return a.busy(bounds, fmt.Sprintf("%d commands running, %d waiting", a.running, a.admitted-a.running))
	}
	a.admitted++
	return nil
}

// busy estimates when there is room: once as many commands ended as are ahead.
func (a *admission) busy(bounds sandbox.Admission, message string) error {
	rounds := time.Duration(1 + len(a.queue)/bounds.MaxRunning)
	after := min(max(rounds*a.mean, time.Second), time.Minute).Round(time.Second)
	return &sandbox.Error{Cause: sandbox.CauseBusy, Message: "busy: " + message, Hint: fmt.Sprintf("retry after %s", sandbox.FormatDuration(after)), RetryAfter: after}
}

// wait waits until the command may run. Cancelling ctx gives that up.
func (a *admission) wait(ctx context.Context, bounds sandbox.Admission) error {
	a.mu.Lock()
	if a.running < bounds.MaxRunning {
		a.running++
		a.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	a.queue = append(a.queue, turn)
	a.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	if !a.withdraw(turn) {
		return nil // its turn came at the same moment
	}
	return a.waitError(ctx, bounds, "no free slot")
}

func (a *admission) withdraw(turn chan struct{}) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := slices.Index(a.queue, turn)
	if i >= 0 {
		a.queue = slices.Delete(a.queue, i, i+1)
	}
	return i >= 0
}

// waitError says why a wait was given up, and what there was none of.
func (a *admission) waitError(ctx context.Context, bounds sandbox.Admission, none string) error {
	if errors.Is(context.Cause(ctx), errMaxWait) {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.busy(bounds, fmt.Sprintf("%s within %s", none, sandbox.FormatDuration(bounds.MaxWait)))
	}
	return ctx.Err()
}

var errMaxWait = errors.New("no turn in time")

// endTurn passes the turn on.
func (a *admission) endTurn(ran time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mean += (ran - a.mean) / 8
	if len(a.queue) > 0 {
		close(a.queue[0])
		a.queue = a.queue[1:]
		return
	}
	a.running--
}

func (a *admission) release() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.admitted--
}
