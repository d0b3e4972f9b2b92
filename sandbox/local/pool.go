package local

import (
	"context"
	"slices"
	"sync"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/internal/gate"
)

const (
	// refillPause is how long a pool waits after it failed to make a container,
	// at first and at most.
	refillPause     = time.Second
	refillPauseMost = 30 * time.Second

	// youngest is how long a container must be of use so that it is none of
	// those that cannot be made.
	youngest = 5 * time.Second

	// yieldCold is how long a pool holds back for commands that make their own
	// containers, and yieldWarm for those that are short: making a container
	// beside one would double the few milliseconds that it takes.
	yieldCold  = time.Second
	yieldWarm  = 100 * time.Millisecond
	yieldPause = 2 * time.Millisecond
)

// pool keeps containers of one profile warm: made, with a gate in each. A
// container is taken once, used for one command and removed.
type pool struct {
	*upkeep
	name    string
	profile sandbox.Profile
	wake    chan struct{} // holds at most one: something changed
	stop    context.CancelFunc
	done    chan struct{} // closed when what it made is being removed

	mu      sync.Mutex
	stale   bool             // some image changed: this one may have
	image   sandbox.Image    // of the containers that are ready
	ready   []*warmContainer // the oldest first
	making  int
	begun   []time.Time // when each began that is being made by now, the oldest first
	waiters []*waiter   // the first come first
	target  int         // how many are to be ready
	missed  time.Time   // when last there was none, or one less was to be ready
	pause   time.Duration
	retry   time.Time // when to make one again, after a failure
	logged  string    // the failure that was logged last
	status  sandbox.PoolStatus
}

// warmContainer is a container that waits for its command.
type warmContainer struct {
	box   sandbox.Container
	gate  *gate.Gate
	born  time.Time
	taken chan struct{} // closed when it waits no more
}

// startPool keeps a pool until ctx is cancelled or it is stopped. Then what it
// has is removed.
func (h *upkeep) startPool(ctx context.Context, name string, p sandbox.Profile) *pool {
	ctx, stop := context.WithCancel(ctx)
	pool := &pool{upkeep: h, name: name, profile: p, wake: make(chan struct{}, 1), stop: stop, done: make(chan struct{}), target: p.Pool.Min}
	h.all.Go(func() { pool.run(ctx) })
	return pool
}

// snapshot is the pool's state now.
func (p *pool) snapshot() sandbox.PoolStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.status
	s.Profile, s.Ready, s.Making, s.Target = p.name, len(p.ready), p.making, p.target
	return s
}

func (p *pool) changed() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// fits tells whether the pool's containers will do for the command, whose profile
// may have been another when it came. They are swept away some time after the
// pool's longest timeout.
func (p *pool) fits(c sandbox.Command, spec sandbox.Spec) bool {
	made := poolSpec(p.profile, spec.Image)
	if made.User.Name != "" && made.User.Name == spec.User.Name {
		made.User = spec.User // the same name in the same image
	}
	return spec.Fits(made) && spec.Image.Reference == p.profile.Image && c.Timeout <= p.profile.MaxTimeout
}

// take gives out the oldest container of that image, once. Where there is none it
// may give a wait for the next; both are nil where that is not worth it. It is for
// a command that fits.
func (p *pool) take(image sandbox.Image) (*warmContainer, *waiter) {
	defer p.changed()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.useImage(image)
	if len(p.ready) == 0 {
		p.missed = time.Now()
		p.target = min(max(p.target+1, 2*p.target), p.profile.Pool.Max)
		w := p.wait(image)
		if w == nil {
			p.status.Missed++
		}
		return nil, w
	}
	m := p.ready[0]
	p.ready = slices.Delete(p.ready, 0, 1)
	p.status.Used++
	close(m.taken)
	return m, nil
}

// useImage drains what was made of another image than the reference means now.
func (p *pool) useImage(image sandbox.Image) {
	if p.image.ID != image.ID {
		p.drain(len(p.ready))
		p.image = image
	}
}

// drain removes the n oldest.
func (p *pool) drain(n int) {
	for _, m := range p.ready[:n] {
		p.status.Drained++
		close(m.taken)
		p.discard(m.box, m.gate)
	}
	p.ready = slices.Delete(p.ready, 0, n)
}

// run keeps the pool filled until ctx is cancelled.
func (p *pool) run(ctx context.Context) {
	defer close(p.done)
	for {
		p.checkImage(ctx)
		next := time.NewTimer(p.refill(ctx))
		select {
		case <-ctx.Done():
			next.Stop()
			p.mu.Lock()
			defer p.mu.Unlock()
			p.drain(len(p.ready))
			return
		case <-p.wake:
		case <-next.C:
		}
		next.Stop()
	}
}

// imagesChanged has the pool look whether its own did.
func (p *pool) imagesChanged() {
	p.mu.Lock()
	p.stale = true
	p.mu.Unlock()
	p.changed()
}

// checkImage drains what was made of an image that its name no longer means. One that
// went away is none, and is not fetched only for that.
func (p *pool) checkImage(ctx context.Context) {
	p.mu.Lock()
	stale := p.stale && len(p.ready) > 0
	p.stale = false
	p.mu.Unlock()
	if !stale {
		return
	}
	if image, err := p.images.Resolve(ctx, p.profile.Image, sandbox.PullNever); err == nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.useImage(image)
	}
}

// refill drains what is too old, and has made what is missing. It returns how
// long that will do.
func (p *pool) refill(ctx context.Context) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, life := time.Now(), p.profile.Pool.MaxAge
	if len(p.ready) > 0 && now.Sub(p.ready[0].born) >= youngest {
		p.clearFailures()
	}
	if now.Sub(p.missed) >= life && p.target > p.profile.Pool.Min {
		p.target, p.missed = p.target-1, now
	}
	old := 0
	for old < len(p.ready) && now.Sub(p.ready[old].born) >= life {
		old++
	}
	p.drain(max(old, len(p.ready)-p.target))
	if wait := p.retry.Sub(now); wait > 0 {
		return wait
	}
	for range p.target - len(p.ready) - p.making {
		p.making++
		p.all.Go(func() { p.add(ctx) })
	}
	if len(p.ready) == 0 {
		return life
	}
	return life - now.Sub(p.ready[0].born)
}
