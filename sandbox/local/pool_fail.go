package local

import (
	"errors"
	"slices"
	"sync"
	"time"

	"belljar/sandbox"
)

// failing is what a pool knows of containers that it could not make.
type failing struct {
	most   int       // after a failure, how many are tried at once: 1, and twice as many after each success; 0 for all
	last   time.Time // when one could not be made
	retry  time.Time // earliest time of the next try
	pause  time.Duration
	logged string // the failure that was logged last
}

func (f *failing) clear() { f.pause, f.logged = 0, "" }

// tries is how many are to be made, of those that are missing.
func (f *failing) tries(missing, making int) int {
	if f.most > 0 {
		missing = min(missing, f.most)
	}
	return max(0, missing-making)
}

func (f *failing) made() {
	if f.most *= 2; f.most > mostMakers {
		f.most = 0
	}
}

// recordSuccess resets the pause after failures: a container was usable. One that was made before them says nothing.
func (p *pool) recordSuccess(m *warmContainer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m.born.After(p.failing.last) {
		p.failing.clear()
	}
}

func (p *pool) recordFailure(err error) {
	f, now := &p.failing, time.Now()
	p.status.Error, p.status.Cause = err.Error(), sandbox.CauseOf(err)
	if now.Before(f.retry) {
		return // started before the failure of another
	}
	f.pause = min(max(2*f.pause, refillPause), refillPauseMost)
	if busy, is := errors.AsType[*sandbox.Error](err); is && busy.Cause == sandbox.CauseBusy {
		f.pause = min(max(f.pause, busy.RetryAfter), refillPauseMost)
		p.hungry.add(p)
	}
	f.most, f.last, f.retry = 1, now, now.Add(f.pause)
	if f.logged != err.Error() {
		p.log.Warn("creating a pool container failed", "profile", p.name, "error", err)
	}
	f.logged = err.Error()
}

// roomAgain makes a pool try again now: a container ended, which may have made room for another.
func (p *pool) roomAgain() {
	p.mu.Lock()
	p.failing.retry = time.Time{}
	p.mu.Unlock()
	p.changed()
}

// hungry are the pools that found no room for a container, as where a quota is reached.
type hungry struct {
	mu  sync.Mutex
	all []*pool // in order, each once
}

func (h *hungry) add(p *pool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Contains(h.all, p) {
		h.all = append(h.all, p)
	}
}

func (h *hungry) remove(p *pool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = slices.DeleteFunc(h.all, func(other *pool) bool { return other == p })
}

// roomAgain is called when a container is gone. One pool tries again for each, however many are hungry.
func (h *hungry) roomAgain() {
	h.mu.Lock()
	var first *pool
	for first == nil && len(h.all) > 0 {
		if !isClosed(h.all[0].done) { // else it was stopped
			first = h.all[0]
		}
		h.all = h.all[1:]
	}
	h.mu.Unlock()
	if first != nil {
		first.roomAgain()
	}
}
