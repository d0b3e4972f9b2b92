package local

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"belljar/internal/names"
	"belljar/sandbox"
	"belljar/sandbox/internal/gate"
)

// add makes one container, when there is room to.
func (p *pool) add(ctx context.Context) {
	defer p.changed()
	var m *warmContainer
	var began time.Time
	spec, err := p.spec(ctx)
	if err == nil {
		began = p.started()
		m, err = p.make(ctx, spec)
		<-p.makers
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	defer func() { p.finished(began) }()
	p.making--
	if err != nil {
		if ctx.Err() == nil {
			p.recordFailure(err)
		}
		return
	}
	p.status.Error, p.status.Cause = "", ""
	p.failing.made()
	p.status.Made++
	if ctx.Err() != nil {
		p.discard(m.box, m.gate)
		return
	}
	p.useImage(spec.Image)
	if !p.hand(m, spec.Image) {
		p.ready = append(p.ready, m)
		p.all.Go(func() { p.watch(ctx, m) })
	}
}

func (p *pool) started() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.begun = append(p.begun, now)
	return now
}

// spec waits for a free maker, and returns the container to make. On an error the maker
// is released.
func (p *pool) spec(ctx context.Context) (spec sandbox.Spec, err error) {
	select {
	case p.makers <- struct{}{}:
	case <-ctx.Done():
		return spec, ctx.Err()
	}
	defer func() {
		if err != nil {
			<-p.makers
		}
	}()
	p.yield(ctx, yieldCold, yieldWarm)
	image, err := p.images.Resolve(ctx, p.profile.Image, p.profile.Pull)
	if err != nil {
		return spec, err
	}
	spec = poolSpec(p.profile, image)
	if spec.User, err = p.user(ctx, image, spec.User); err != nil {
		return spec, err
	}
	spec.Pool, spec.Command = p.name, names.NewID()
	// It may be taken at the end of its age, for the longest command.
	spec.Deadline = time.Now().Add(p.profile.Pool.MaxAge + p.profile.MaxTimeout + sandbox.MaxStopGrace + p.create + removeTimeout)
	return spec, nil
}

// make makes a container, with a gate if it has no init.
func (p *pool) make(ctx context.Context, spec sandbox.Spec) (*warmContainer, error) {
	ctx, cancel := context.WithTimeout(ctx, p.create)
	defer cancel()
	box, err := p.engine.Create(ctx, spec)
	if err != nil {
		return nil, timeoutError(ctx, err, "creating a pool container", p.create)
	}
	m := &warmContainer{box: box, taken: make(chan struct{})}
	p.byInit.Store(byInit(box))
	if !byInit(box) {
		if m.gate, err = gate.Open(ctx, box, spec.User); err != nil {
			p.discard(box, nil)
			return nil, timeoutError(ctx, err, "creating a pool container", p.create)
		}
	}
	m.born = time.Now()
	return m, nil
}

// watch takes a container out of the pool as soon as it cannot be used any more, or is in the way where it is.
func (p *pool) watch(ctx context.Context, m *warmContainer) {
	unwanted := false
	select {
	case <-m.taken:
		return
	case <-ctx.Done():
		return // run drains it
	case <-m.unwanted():
		unwanted = true
	case <-m.box.Lost():
	case <-m.ended():
	}
	p.mu.Lock()
	i := slices.Index(p.ready, m)
	if i >= 0 {
		p.ready = slices.Delete(p.ready, i, i+1)
	}
	if i >= 0 && unwanted {
		p.status.Drained++
		if time.Since(m.born) < youngest { // or this would go on and on
			p.recordFailure(errUnwanted)
		}
	}
	p.mu.Unlock()
	switch {
	case i < 0:
	case unwanted:
		p.discard(m.box, m.gate)
		p.changed()
	default:
		p.replace(m, "it ended or was paused")
	}
}

var errUnwanted = errors.New("a pool container was made where none is wanted, as on a node that is being drained")

// replace removes a container that cannot be used and is in no list.
func (p *pool) replace(m *warmContainer, why string) {
	p.mu.Lock()
	p.status.Lost++
	if time.Since(m.born) < youngest {
		p.recordFailure(fmt.Errorf("a pool container failed: %s", why))
	}
	p.mu.Unlock()
	p.log.Warn("replacing a pool container", "profile", p.name, "container", m.box.Info().ID, "reason", why)
	p.discard(m.box, m.gate)
	p.changed()
}
