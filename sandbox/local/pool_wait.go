package local

import (
	"context"
	"slices"
	"time"

	"belljar/sandbox"
)

// makingWait is how long a command waits for a container that the pool began to
// make before the command came. That one has a head start, and making another at
// the same time would slow down both. After that the command makes its own.
const makingWait = time.Second

// waiter is a command that waits for the next container of that image.
type waiter struct {
	image string              // its ID
	next  chan *warmContainer // holds the container; nil if there is none
}

// get is take, but where no container is ready it waits for one that is being made and
// that is not promised to another waiter, until ctx ends.
func (p *pool) get(ctx context.Context, image sandbox.Image) *warmContainer {
	m, w := p.take(image)
	if w == nil {
		return m
	}
	select {
	case m := <-w.next:
		return m
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.waiters, w); i >= 0 {
		p.release(i)
	}
	return <-w.next // which may have come at the same moment
}

// wait is nil where no container is being made that will be ready soon and that is not
// promised to another waiter.
func (p *pool) wait(image sandbox.Image) *waiter {
	late := slices.IndexFunc(p.begun, func(at time.Time) bool { return time.Since(at) < makingWait })
	if late < 0 || len(p.begun)-late <= len(p.waiters) {
		return nil
	}
	w := &waiter{image: image.ID, next: make(chan *warmContainer, 1)}
	p.waiters = append(p.waiters, w)
	return w
}

// hand gives a new container to the first waiter for that image.
func (p *pool) hand(m *warmContainer, image sandbox.Image) bool {
	i := slices.IndexFunc(p.waiters, func(w *waiter) bool { return w.image == image.ID })
	if i < 0 {
		return false
	}
	w := p.waiters[i]
	p.waiters = slices.Delete(p.waiters, i, i+1)
	p.status.Used++
	close(m.taken)
	w.next <- m
	return true
}

// release ends a wait for which there is no container.
func (p *pool) release(i int) {
	w := p.waiters[i]
	p.waiters = slices.Delete(p.waiters, i, i+1)
	p.status.Missed++
	w.next <- nil
}

// finished is called when a container was made, or failed. The waiters that came last
// stop waiting if no container is being made for them.
func (p *pool) finished(began time.Time) {
	if i := slices.Index(p.begun, began); i >= 0 {
		p.begun = slices.Delete(p.begun, i, i+1)
	}
	for len(p.waiters) > len(p.begun) {
		p.release(len(p.waiters) - 1)
	}
}
