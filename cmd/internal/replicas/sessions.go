package replicas

import (
	"context"
	"errors"
	"fmt"
	"time"

	"belljar/cmd/internal/problem"
)

// Sessions are those that this replica is the home of, or was.
type Sessions interface {
	// Use keeps a session from being found idle until done is called. "" is none.
	Use(session string) (done func())
	// Idle reports whether no one uses a session.
	Idle(session string) bool
	// Known are the names of all that there are, or were until just now, here.
	Known() (map[string]bool, error)
	// Owner is whose a session is here, "" if it is no one's.
	Owner(session string) string
	// GiveUp ends what this replica has to do with a session that no one uses, and forgets it. What it returns is for TakeOver.
	GiveUp(ctx context.Context, session string) (Kept, error)
	// TakeOver makes a session one of this replica's.
	TakeOver(ctx context.Context, session string, k Kept) error
}

// Kept is what replicas know of a session.
type Kept struct {
	Owner string
	Pod   string // what the engine recorded of its pod, "" before there is one
	State string // what its last home recorded besides, "" if that was killed
}

// home is a session whose home this is.
type home struct {
	entry   Entry
	since   time.Time
	leaving bool // it is being given up
	unsure  bool // that may have been done, without an answer: its entry says whether this still is the home
}

// maxKept bounds what a Lease has of a session, whose annotations have 256 KiB.
const maxKept = 200 << 10

func keptIn(e Entry) Kept {
	return Kept{Owner: e.Values["owner"], Pod: e.Values["pod"], State: e.Values["state"]}
}

// put is the values of an entry with what is known of the session.
func put(session string, k Kept) map[string]string {
	values := map[string]string{"session": session, "owner": k.Owner}
	if k.Pod != "" {
		values["pod"] = k.Pod
	}
	if k.State != "" && len(k.State)+len(k.Pod) <= maxKept {
		values["state"] = k.State
	}
	return values
}

// home is where a session's home is, nil for this replica. If it is nowhere and the request starts a command, it is here from
// now on. What is left by a replica that has ended is taken over.
func (r *Replicas) home(ctx context.Context, q Request) (*peer, error) {
	r.mu.Lock()
	h, draining := r.homes[q.Session], r.draining
	leaving, certain := h != nil && h.leaving, h != nil && !h.unsure && time.Since(r.renewed) < leaseFor
	r.mu.Unlock()
	switch {
	case leaving, h != nil && draining && q.Starts:
		return nil, errUnsettled // it is given up as soon as no one uses it
	case certain:
		return nil, nil
	}
	e, err := r.Store.Get(ctx, entryName(kindSession, q.Session))
	if errors.Is(err, ErrNone) {
		if !q.Starts || draining {
			return nil, nil
		}
		return nil, r.found(ctx, q)
	}
	if err != nil {
		return nil, err
	}
	if e.Holder == r.Name && h != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		if h.leaving || r.homes[q.Session] != h {
			return nil, errUnsettled // it is, or was, given up meanwhile
		}
		h.unsure = false
		return nil, nil // it is so still
	}
	if e.Holder != "" && e.Holder != r.Name {
		to, err := r.find(ctx, e.Holder)
		if !errors.Is(err, errGone) {
			return to, err
		}
	}
	if draining {
		if to := r.any(); to != nil {
			return to, nil
		}
		return nil, errUnsettled // it is there, and soon with a replica that starts
	}
	return nil, r.takeOver(ctx, q.Session, e)
}

// found makes this replica the home of a session that has none.
func (r *Replicas) found(ctx context.Context, q Request) error {
	e, err := r.Store.Create(ctx, Entry{
		Kind: kindSession, Name: entryName(kindSession, q.Session), Holder: r.Name, For: leaseFor, Values: put(q.Session, Kept{Owner: q.Owner}),
	})
	if errors.Is(err, ErrTaken) {
		return errUnsettled
	}
	if err != nil {
		return err
	}
	r.settle(q.Session, e)
	return nil
}

func (r *Replicas) settle(session string, e Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h := r.homes[session]; h != nil {
		h.entry, h.unsure = e, false
		return
	}
	r.homes[session] = &home{entry: e, since: time.Now()}
}

// takeOver makes this replica the home of a session that has none any more. The Lease decides: of several, one does.
func (r *Replicas) takeOver(ctx context.Context, session string, e Entry) error {
	if e.Values["session"] != session {
		return problem.New(problem.Conflict, fmt.Sprintf("what is recorded of session %q is another's", session), "delete the Lease "+e.Name)
	}
	r.mu.Lock()
	h := r.homes[session]
	busy, done := r.placing[session], h != nil && !h.unsure
	if !busy && !done {
		r.placing[session] = true // a name of a session is none of an entry
		defer func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			delete(r.placing, session)
		}()
	}
	r.mu.Unlock()
	if busy || done {
		return errUnsettled // it is here, or will be
	}
	kept, mine := keptIn(e), e.Holder == r.Name
	e.Holder = r.Name
	e, err := r.Store.Update(ctx, e)
	if errors.Is(err, ErrTaken) || errors.Is(err, ErrNone) {
		return errUnsettled
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), takeTime) // half of it would lose the state, if the caller leaves
	defer cancel()
	known, err := r.Local.Known()
	if err != nil {
		return err
	}
	if !mine || !known[session] || kept.State != "" { // else this process's state directory has it
		r.Log.Info("taking over a session", "session", session)
		if err := r.Local.TakeOver(ctx, session, kept); err != nil {
			return err
		}
	}
	if kept.State != "" { // it is of this moment only, and here now. Until that is written nothing uses the session
		e.Values = put(session, Kept{Owner: kept.Owner, Pod: kept.Pod})
		if e, err = r.Store.Update(ctx, e); err != nil {
			return err
		}
	}
	r.settle(session, e)
	return nil
}

// takeTime bounds how long a session that the Lease says is here is taken over: the engine waits for its last home.
const takeTime = 30 * time.Second

// Record notes the pod of a session, before a command runs in it.
func (r *Replicas) Record(ctx context.Context, session, pod string) error {
	if r == nil {
		return errUnsettled
	}
	r.mu.Lock()
	h := r.homes[session]
	r.mu.Unlock()
	if h == nil {
		return errors.New("another replica has the session")
	}
	return r.change(ctx, session, h, func(e *Entry) {
		e.Values = put(session, Kept{Owner: r.Local.Owner(session), Pod: pod})
	})
}

// errNotHome is of a session that another replica has, or none.
var errNotHome = errors.New("this replica is not its home any more")

// change changes a session's entry, if this replica is its home still.
func (r *Replicas) change(ctx context.Context, session string, h *home, change func(*Entry)) error {
	r.mu.Lock()
	e := h.entry
	r.mu.Unlock()
	change(&e)
	now, err := r.Store.Update(ctx, e)
	if errors.Is(err, ErrTaken) {
		if e, err = r.Store.Get(ctx, e.Name); err == nil && e.Holder != r.Name {
			return fmt.Errorf("replica %.20q has session %q: %w", e.Holder, session, errNotHome)
		}
		if err == nil {
			change(&e)
			now, err = r.Store.Update(ctx, e)
		}
	}
	if err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		h.entry = now
	}
	return err
}
