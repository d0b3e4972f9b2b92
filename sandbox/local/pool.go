package local

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/internal/gate"
)

const (
	// refillPause is how long a pool waits after it failed to make a container,
	// at first and at most.
	refillPause     = time.Second
	refillPauseMost = 30 * time.Second

	// youngest is how long a container must have been usable; one that fails sooner
	// counts as a failure to make it.
	youngest = 5 * time.Second

	// yieldCold is how long a pool holds back for commands that make their own
	// containers, and yieldWarm for those that are short: making a container
	// at the same time would double the few milliseconds that they take. Where containers are made elsewhere, only the
	// requests for that are in the way of short ones.
	yieldCold      = time.Second
	yieldWarm      = 100 * time.Millisecond
	yieldElsewhere = 20 * time.Millisecond
	yieldPause     = 2 * time.Millisecond
)

// pool keeps containers of one profile warm: made, with a gate in each that has no init. A
// container is taken once, used for one command and removed.
type pool struct {
	*upkeep
	name    string
	asked   sandbox.Profile // as it was given
	profile sandbox.Profile // with its mounts resolved
	wake    chan struct{}   // holds at most one signal: something changed
	stop    context.CancelFunc
	done    chan struct{} // closed when the removal of its containers has begun
	byInit  atomic.Bool   // the container made last needs no gate

	mu      sync.Mutex
	stale   bool             // some image changed: maybe this one
	image   sandbox.Image    // of the containers that are ready
	ready   []*warmContainer // the oldest first
	making  int
	begun   []time.Time // start times of the containers being made, the oldest first
	waiters []*waiter   // in order of arrival
	target  int         // how many should be ready
	missed  time.Time   // when a container was last missing, or target last lowered
	failing failing
	status  sandbox.PoolStatus
}

// warmContainer is a container that waits for its command.
type warmContainer struct {
	box   sandbox.Container
	gate  *gate.Gate // nil: an init starts the command
	born  time.Time
	taken chan struct{}             // closed when it no longer waits
	heard atomic.Pointer[time.Time] // when it last answered, nil if it did not; see askNext

	asking     bool // now
	asked      time.Time
	unanswered int // questions in a row
}

// answers reports whether it can take a command now.
func (m *warmContainer) answers(ctx context.Context) bool {
	if m.gate != nil {
		return m.gate.Answers(ctx)
	}
	return answers(ctx, m.box)
}

// ended is closed when its gate has ended.
func (m *warmContainer) ended() <-chan struct{} {
	if m.gate != nil {
		return m.gate.Ended
	}
	return nil
}

// unwanted is closed when its engine wants it gone where it is, though it could be used.
func (m *warmContainer) unwanted() <-chan struct{} {
	if box, can := m.box.(interface{ Unwanted() <-chan struct{} }); can {
		return box.Unwanted()
	}
	return nil
}

// startPool keeps a pool until ctx is cancelled or it is stopped. Then its
// containers are removed.
func (h *upkeep) startPool(ctx context.Context, name string, asked, p sandbox.Profile) *pool {
	ctx, stop := context.WithCancel(ctx)
	pool := &pool{upkeep: h, name: name, profile: p, asked: asked, wake: make(chan struct{}, 1), done: make(chan struct{}), target: p.Pool.Min}
	pool.stop = func() { h.hungry.remove(pool); stop() }
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

// fits reports whether the pool's containers suit the command, whose profile may have
// changed since it came. They are swept some time after the pool's longest
// timeout.
func (p *pool) fits(c sandbox.Command, spec sandbox.Spec) bool {
	made := poolSpec(p.profile, spec.Image)
	if made.User.Name != "" && made.User.Name == spec.User.Name {
		made.User = spec.User // both mean the same name in the same image
	}
	return canServe(spec, made) && spec.Image.Reference == p.profile.Image && c.Timeout <= p.profile.MaxTimeout
}

// canServe reports whether a container of one Spec can serve as one of another: they
// differ only in the command, session or pool that they are for.
func canServe(s, other sandbox.Spec) bool {
	return s.Image.ID == other.Image.ID && isSameUser(s.User, other.User) && s.Root == other.Root && s.Network == other.Network && s.Runtime == other.Runtime &&
		s.Limits.OfContainer() == other.Limits.OfContainer() && slices.Equal(s.Mounts, other.Mounts) && slices.Equal(s.Tmpfs, other.Tmpfs)
}

// isSameUser reports whether both are one user of the same image.
func isSameUser(u, other sandbox.User) bool {
	return u.Unnamed() == other.Unnamed() && (u.UID != 0 || u.Name == other.Name)
}

// take returns the oldest container of that image; each is taken once. Without one it
// may return a waiter for the next; both are nil where waiting does not pay. The
// command must fit.
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

// useImage drains the containers of an image that the reference no longer means.
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
		next := time.NewTimer(min(p.refill(ctx), p.askNext(ctx)))
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

// imagesChanged makes the pool check whether its own image changed.
func (p *pool) imagesChanged() {
	p.mu.Lock()
	p.stale = true
	p.mu.Unlock()
	p.changed()
}

// checkImage drains the containers of an image that its name no longer means. An image
// that was removed is not pulled just for this check. Other machines are not asked, which takes them a container: who needs
// the image next does that.
func (p *pool) checkImage(ctx context.Context) {
	p.mu.Lock()
	stale := p.stale && len(p.ready) > 0
	p.stale = false
	p.mu.Unlock()
	if !stale || p.elsewhere {
		return
	}
	if image, err := p.images.Resolve(ctx, p.profile.Image, sandbox.PullNever); err == nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.useImage(image)
	}
}

// refill drains what is too old, and starts making what is missing. It returns the
// time until the next refill.
func (p *pool) refill(ctx context.Context) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, life := time.Now(), p.profile.Pool.MaxAge
	if slices.ContainsFunc(p.ready, func(m *warmContainer) bool { return m.born.After(p.failing.last) && now.Sub(m.born) >= youngest }) {
		p.failing.clear()
	}
	if now.Sub(p.missed) >= life && p.target > p.profile.Pool.Min {
		p.target, p.missed = max(p.profile.Pool.Min, p.target/2), now // as it grew: a burst's hundreds would stay for days
	}
	old := 0
	for old < len(p.ready) && now.Sub(p.ready[old].born) >= life {
		old++
	}
	p.drain(max(old, len(p.ready)-p.target))
	if wait := p.failing.retry.Sub(now); wait > 0 {
		return wait
	}
	for range p.failing.tries(p.target-len(p.ready), p.making) {
		p.making++
		p.all.Go(func() { p.add(ctx) })
	}
	if len(p.ready) == 0 {
		return life
	}
	return life - now.Sub(p.ready[0].born)
}
