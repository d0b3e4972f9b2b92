package replicas

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"belljar/cmd/internal/access"
	"belljar/cmd/internal/problem"
	"belljar/internal/names"
	"belljar/sandbox"
)

// giveBack makes a session no one's, if no one uses it. The next replica that is asked for it takes it over.
func (r *Replicas) giveBack(ctx context.Context, session string) (err error) {
	r.mu.Lock()
	h := r.homes[session]
	if h == nil || h.leaving {
		r.mu.Unlock()
		return errUnsettled
	}
	h.leaving = true
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if h.leaving = false; err == nil {
			delete(r.homes, session)
		}
	}()
	if !r.Local.Idle(session) {
		return errUnsettled
	}
	pod := h.entry.Values["pod"]
	kept, err := r.Local.GiveUp(ctx, session)
	if err != nil {
		return err
	}
	if kept.Pod == "" {
		kept.Pod = pod
	}
	err = r.change(ctx, session, h, func(e *Entry) { e.Holder, e.Values = "", put(session, kept) })
	if errors.Is(err, errNotHome) { // a change before this one was made without an answer, and others may have it since
		return nil
	}
	if err != nil {
		r.mu.Lock()
		h.unsure = true
		r.mu.Unlock()
		return errors.Join(err, r.Local.TakeOver(context.WithoutCancel(ctx), session, kept))
	}
	r.Log.Info("gave a session back", "session", session)
	return nil
}

// tidyTime bounds one round of it: who there is is to be known in the next one.
const tidyTime = leaseFor / 2

// tidySessions looks after the sessions that have no home, or that are gone.
func (r *Replicas) tidySessions(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, tidyTime)
	defer cancel()
	begun := time.Now()
	known, err := r.Local.Known() // before the list: what comes between is this replica's
	if err != nil {
		return err
	}
	list, err := r.Store.List(ctx, kindSession)
	if err != nil {
		return err
	}
	there := map[string]Entry{}
	for _, e := range list {
		session := e.Values["session"]
		if e.Name != entryName(kindSession, session) {
			continue
		}
		there[session] = e
		if (e.Holder == "" || e.Age > settled/2) && ctx.Err() == nil && r.isHomeless(e) && !r.isDraining() {
			r.log(r.takeOver(ctx, session, e), "taking over a session") // so that its time is kept
		}
	}
	for session := range known { // what another replica has taken meanwhile
		if e, ok := there[session]; ok && e.Holder != "" && e.Holder != r.Name && r.peer(e.Holder) != nil {
			r.forget(ctx, session, begun)
		}
	}
	for session, h := range r.residents() {
		if ctx.Err() != nil {
			return nil // the next round goes on
		}
		e, ok := there[session]
		if ok && !known[session] && h.since.Before(begun.Add(-settled)) && r.Local.Idle(session) {
			r.remove(ctx, session, h, e)
		}
	}
	return nil
}

// isHomeless reports whether a session's home has ended, or gave it back.
func (r *Replicas) isHomeless(e Entry) bool {
	if e.Holder == r.Name {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.homes[e.Values["session"]] == nil
	}
	return e.Holder == "" || r.peer(e.Holder) == nil
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

// forget drops what this replica knows of a session whose home is another one now, and leaves that its pod.
func (r *Replicas) forget(ctx context.Context, session string, seen time.Time) {
	r.mu.Lock()
	h := r.homes[session]
	back := h != nil && h.since.After(seen) || r.placing[session]
	if !back {
		delete(r.homes, session)
	}
	r.mu.Unlock()
	if back {
		return
	}
	_, err := r.Local.GiveUp(ctx, session)
	r.log(err, "forgetting a session that another replica took over")
}

// remove removes the entry of a session that is gone.
func (r *Replicas) remove(ctx context.Context, session string, h *home, e Entry) {
	r.mu.Lock()
	if h.leaving = !h.leaving && r.homes[session] == h; !h.leaving {
		r.mu.Unlock()
		return
	}
	r.mu.Unlock()
	known, err := r.Local.Known()
	if err == nil && !known[session] && r.Local.Idle(session) {
		if _, err = r.Local.GiveUp(ctx, session); err == nil { // its owner: the next one may be another's
			err = r.Store.Delete(ctx, e)
		}
		if err == nil {
			r.mu.Lock()
			delete(r.homes, session)
			r.mu.Unlock()
		}
	}
	r.mu.Lock()
	h.leaving = false
	r.mu.Unlock()
	r.log(err, "removing the lease of a session that is gone")
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

// decideTime bounds how long Drain waits for requests that came before it, and decideLook is how often it looks.
const decideTime, decideLook = 5 * time.Second, 10 * time.Millisecond

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

func (r *Replicas) releaseAll(ctx context.Context) {
	for session := range r.residents() {
		if err := r.giveBack(ctx, session); err != nil && !errors.Is(err, errUnsettled) {
			r.log(err, "giving a session back")
		}
	}
}

// Fetch makes a session one of this replica's, and with starts also one that there is not yet. ctx is that of a request which Wrap
// passed on, about the session of its caller. It is busy where a command uses the session at another replica.
func (r *Replicas) Fetch(ctx context.Context, session string, starts bool) error {
	if r == nil {
		return nil
	}
	if err := names.CheckSession(session); err != nil {
		return err
	}
	credentials, _ := ctx.Value(credentialsKey{}).([]string)
	q := Request{Owner: access.FromContext(ctx).Name, Session: session, Starts: starts}
	for until := time.Now().Add(patience / 2); ; {
		to, err := r.home(ctx, q)
		if err == nil && to == nil {
			return nil
		}
		if err == nil {
			a := r.askOne(ctx, http.MethodPost, http.Header{"Authorization": credentials}, "/v1/sessions/"+url.PathEscape(session)+"/"+handOverPath, to)
			switch a.status {
			case http.StatusNotFound:
				return problem.New(problem.NotFound, fmt.Sprintf("no session %.80q", session), "list your sessions")
			case http.StatusNoContent:
				continue
			}
		} else if !errors.Is(err, errUnsettled) {
			return err
		}
		if !wait(ctx, until) {
			return &sandbox.Error{Cause: sandbox.CauseBusy, Message: fmt.Sprintf("session %q is used at another replica", session), Hint: "try again once that has ended", RetryAfter: time.Second}
		}
	}
}

// handOver is the path of a session below which another replica asks for it.
const handOverPath = "hand-over"

// handOver gives a session back that another replica wants, for a caller whose it is.
func (r *Replicas) handOver(w http.ResponseWriter, req *http.Request, session string) {
	who, err := access.Need(req.Context(), access.Run)
	if err == nil && !who.Owns(r.Local.Owner(session)) {
		err = problem.New(problem.NotFound, fmt.Sprintf("no session %.80q", session), "list your sessions")
	}
	if err == nil {
		if err = r.giveBack(req.Context(), session); errors.Is(err, errUnsettled) {
			err = errMoved
		}
	}
	if refuse(w, err); err == nil {
		w.WriteHeader(http.StatusNoContent)
	}
}
