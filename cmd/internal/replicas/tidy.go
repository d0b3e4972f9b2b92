package replicas

import (
	"context"
	"errors"
	"time"
)

// tidyTime bounds one round of it: who there is is to be known in the next one.
const tidyTime = leaseFor / 2

// lookAround looks who lives, and after the sessions that have no home, or that are gone. Who lives is looked for once the sessions are
// listed, however long that took: the home of one would seem to have ended, if it joined since.
func (r *Replicas) lookAround(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, tidyTime)
	defer cancel()
	begun := time.Now()
	known, err := r.Local.Known() // before the list: what comes between is this replica's
	var list []Entry
	if err == nil {
		list, err = r.Store.List(ctx, kindSession)
	}
	if lost := r.refresh(ctx, time.Now()); lost != nil || err != nil {
		return errors.Join(err, lost)
	}
	r.tidySessions(ctx, begun, known, list)
	return nil
}

// joinTime bounds how long a replica that joins looks after the sessions that it knows.
const joinTime = renewEach

// forgetTaken forgets the sessions that are not this replica's any more: what an earlier process recorded of their use is old, and would end
// them.
func (r *Replicas) forgetTaken(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, joinTime)
	defer cancel()
	begun := time.Now()
	known, err := r.Local.Known()
	if err != nil || len(known) == 0 {
		return err
	}
	list, err := r.Store.List(ctx, kindSession)
	for _, e := range list {
		session := e.Values["session"]
		if known[session] && e.Name == entryName(kindSession, session) && e.Holder != r.Name {
			r.forget(ctx, session, begun)
		}
	}
	return err
}

// tidySessions looks after the sessions that are listed, and known here.
func (r *Replicas) tidySessions(ctx context.Context, begun time.Time, known map[string]bool, list []Entry) {
	there := map[string]Entry{}
	for _, e := range list {
		session := e.Values["session"]
		if e.Name != entryName(kindSession, session) {
			continue
		}
		there[session] = e
		if (e.Holder == "" || e.Age > settled/2) && ctx.Err() == nil && r.isHomeless(e, known[session]) && !r.isDraining() {
			r.log(r.takeOver(ctx, session, e), "taking over a session") // so that its time is kept
		}
	}
	for session := range known { // what another replica has taken meanwhile
		if e, ok := there[session]; ok && e.Holder != "" && e.Holder != r.Name && r.lives(e.Holder) {
			r.forget(ctx, session, begun)
		}
	}
	for session, h := range r.residents() {
		if ctx.Err() != nil {
			return // the next round goes on
		}
		e, ok := there[session]
		if !ok || e.Holder != r.Name { // it was removed or taken, without an answer
			r.loses(session, begun)
			continue
		}
		if !known[session] && h.since.Before(begun.Add(-settled)) && r.Local.Idle(session) {
			r.remove(ctx, session, h, e)
		}
	}
}

// isHomeless reports whether a session's home has ended, or gave it back, or is this replica, but not for certain: then its idle time would
// have no end.
func (r *Replicas) isHomeless(e Entry, known bool) bool {
	if e.Holder == r.Name {
		r.mu.Lock()
		defer r.mu.Unlock()
		h := r.homes[e.Values["session"]]
		return h == nil || h.kept != nil || h.unsure && known
	}
	return e.Holder == "" || !r.lives(e.Holder)
}

func (r *Replicas) residents() map[string]*home {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[string]*home{}
	for session, h := range r.homes {
		all[session] = h
	}
	return all
}

// loses drops a home that was one before then, and is another replica's or none by now.
func (r *Replicas) loses(session string, seen time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h := r.homes[session]; h != nil && h.since.Before(seen) && !r.placing[session] {
		delete(r.homes, session)
	}
}

// forget drops what this replica knows of a session whose home is another one now, and leaves that its pod.
func (r *Replicas) forget(ctx context.Context, session string, seen time.Time) {
	r.loses(session, seen)
	h, _, moved := r.moving(session)
	if moved == nil {
		return
	}
	defer moved()
	if h == nil {
		_, err := r.Local.GiveUp(ctx, session)
		r.log(err, "forgetting a session that another replica took over")
	}
}

// remove removes the entry of a session that is gone.
func (r *Replicas) remove(ctx context.Context, session string, h *home, e Entry) {
	if r.leaving(session, h) == nil {
		return
	}
	known, err := r.Local.Known()
	gone := err == nil && h.kept == nil && !known[session] && r.Local.Idle(session)
	if gone {
		if _, err = r.Local.GiveUp(ctx, session); err == nil { // its owner: the next one may be another's
			err = r.Store.Delete(ctx, e)
			r.mu.Lock()
			h.unsure = err != nil
			r.mu.Unlock()
		}
	}
	r.left(session, gone && err == nil)
	r.log(err, "removing the lease of a session that is gone")
}

// ends removes the entry of a session that a request has removed, before that is answered: its name is anyone's from then on. Where this
// replica took it over a moment ago, its entry stays until the earlier home has seen it: that would take it for its own without one.
func (r *Replicas) ends(ctx context.Context, session string) {
	r.mu.Lock()
	h := r.homes[session]
	r.mu.Unlock()
	if h == nil || h.taken && time.Since(h.since) < settled {
		return
	}
	if known, err := r.Local.Known(); err != nil || known[session] || !r.Local.Idle(session) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), renewEach)
	defer cancel()
	e, err := r.Store.Get(ctx, entryName(kindSession, session))
	if err == nil && e.Holder == r.Name {
		r.remove(ctx, session, h, e)
	}
}

// drop removes the entry of a session that a request was to make, if it made none: it was refused, perhaps.
func (r *Replicas) drop(ctx context.Context, q Request, begun time.Time) {
	r.mu.Lock()
	h := r.homes[q.Session]
	made := h != nil && q.Starts && h.since.After(begun)
	var e Entry
	if made {
		e = h.entry
	}
	r.mu.Unlock()
	if made && r.Local.Idle(q.Session) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), renewEach)
		defer cancel()
		r.remove(ctx, q.Session, h, e)
	}
}
