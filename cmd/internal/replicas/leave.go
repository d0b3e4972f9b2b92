package replicas

import (
	"context"
	"errors"
	"sync"
	"time"
)

// giveBack makes a session no one's, if no one uses it. The next replica that is asked for it takes it over.
func (r *Replicas) giveBack(ctx context.Context, session string) (err error) {
	h := r.leaving(session, nil)
	if h == nil {
		return errUnsettled
	}
	defer func() { r.left(session, err == nil) }()
	if r.Local.Runs(session) {
		return errUnsettled
	}
	r.endWatches(session)
	if !r.Local.Idle(session) {
		return errUnsettled
	}
	kept, there, err := r.giveUp(ctx, session, h)
	if err != nil { // some of what is known of it here may be gone
		r.mu.Lock()
		defer r.mu.Unlock()
		h.unsure = true
		return err
	}
	if !there {
		return r.erase(ctx, session, h)
	}
	err = r.change(ctx, session, h, func(e *Entry) { e.Holder, e.Values = "", put(session, kept) })
	if errors.Is(err, errNotHome) { // a change before this one was made without an answer, and others may have it since
		return nil
	}
	if err != nil {
		again := r.Local.TakeOver(context.WithoutCancel(ctx), session, kept)
		r.mu.Lock()
		defer r.mu.Unlock()
		if h.unsure = true; again != nil {
			h.kept = &kept
		}
		return errors.Join(err, again)
	}
	r.Log.Info("gave a session back", "session", session)
	return nil
}

// leaving keeps a session, whose home this is, from being used until left is called; nil if it is not, or not that home any more.
func (r *Replicas) leaving(session string, of *home) *home {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.homes[session]
	if h == nil || of != nil && h != of || r.placing[session] {
		return nil
	}
	r.placing[session] = true
	return h
}

func (r *Replicas) left(session string, gone bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if delete(r.placing, session); gone {
		delete(r.homes, session)
	}
}

// giveUp is what is kept of a session that is leaving, and whether there is one: of a session that was removed just now, the entry still
// has the pod, and another replica that took it over would say for a day that it was lost.
func (r *Replicas) giveUp(ctx context.Context, session string, h *home) (kept Kept, there bool, err error) {
	if h.kept != nil {
		return *h.kept, true, nil
	}
	known, err := r.Local.Known()
	if err != nil {
		return kept, false, err
	}
	kept, err = r.Local.GiveUp(ctx, session)
	r.mu.Lock()
	defer r.mu.Unlock()
	there = known[session] || kept.Pod != "" || kept.State != "" || h.unsure
	if there && kept.Pod == "" {
		kept.Pod = h.entry.Values["pod"]
	}
	return kept, there, err
}

// erase removes the entry of a session that is leaving, and of which there is nothing.
func (r *Replicas) erase(ctx context.Context, session string, h *home) error {
	e, err := r.Store.Get(ctx, entryName(kindSession, session)) // as it is now: a change may have had no answer
	if err == nil && e.Holder == r.Name {
		err = r.Store.Delete(ctx, e)
	}
	if errors.Is(err, ErrNone) {
		err = nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	h.unsure = h.unsure || err != nil
	return err
}

// decideTime bounds how long Drain waits for requests that came before it, and decideLook is how often it looks.
const decideTime, decideLook = 5 * time.Second, 10 * time.Millisecond

// EndTime is how long Drain and Close take at most, together.
const EndTime = decideTime + renewEach

// Drain has other replicas start what comes, and gives sessions back as soon as no one uses them, until Close. It returns once what
// came before has begun.
func (r *Replicas) Drain() {
	if r == nil {
		return
	}
	r.mu.Lock()
	r.draining = true
	r.mu.Unlock()
	r.all.Go(func() {
		for {
			r.releaseAll(r.life)
			select {
			case <-time.After(pause / 2):
			case <-r.life.Done():
				return
			}
		}
	})
	for until := time.Now().Add(decideTime); r.isDeciding() && time.Now().Before(until); {
		time.Sleep(decideLook)
	}
}

func (r *Replicas) isDeciding() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.deciding > 0
}

// releasesAtOnce is how many sessions are given back at the same time: each waits for the API server.
const releasesAtOnce = 16

func (r *Replicas) releaseAll(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	places := make(chan struct{}, releasesAtOnce)
	for session := range r.residents() {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			if err := r.giveBack(ctx, session); err != nil && !errors.Is(err, errUnsettled) {
				r.log(err, "giving a session back")
			}
		})
	}
}
