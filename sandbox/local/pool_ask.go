package local

import (
	"context"
	"slices"
	"time"
)

const (
	// askPause is how often the container that is to be taken next is asked whether it is there, where asking takes a network's round
	// trip: a command whose container answered lately need not ask.
	askPause = time.Second
	lately   = 2 * askPause
)

// answered reports whether it answered lately, by the clock on the wall: a host may have slept since.
func (m *warmContainer) answered() bool {
	at := m.heard.Load()
	if at == nil || m.gate != nil || isClosed(m.box.Lost()) {
		return false
	}
	since := time.Now().Round(0).Sub(*at)
	return since >= 0 && since < lately
}

// askNext asks the container that is to be taken next, and returns when to ask again.
func (p *pool) askNext(ctx context.Context) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.elsewhere || len(p.ready) == 0 || p.ready[0].gate != nil {
		return p.profile.Pool.MaxAge
	}
	m := p.ready[0]
	if since := time.Since(m.asked); since < askPause {
		return askPause - since
	}
	if !m.asking {
		m.asking, m.asked = true, time.Now()
		p.all.Go(func() { p.ask(ctx, m) })
	}
	return askPause
}

// ask takes the container out of the pool where it does not answer, twice in a row: where this process or the way there stood still,
// one question may seem to be without an answer.
func (p *pool) ask(ctx context.Context, m *warmContainer) {
	there := m.answers(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	m.asking = false
	if there {
		now := time.Now().Round(0)
		m.heard.Store(&now)
		m.unanswered = 0
		return
	}
	m.heard.Store(nil)
	m.unanswered++
	if i := slices.Index(p.ready, m); i >= 0 && m.unanswered > 1 && ctx.Err() == nil {
		p.ready = slices.Delete(p.ready, i, i+1)
		close(m.taken)
		p.all.Go(func() { p.replace(m, noAnswer) })
	}
}

// noAnswer is why a container is replaced.
const noAnswer = "it did not answer"
