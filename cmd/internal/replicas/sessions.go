package replicas

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"belljar/cmd/internal/problem"
)

// Sessions are those that this replica is the home of, or was.
type Sessions interface {
	// Use keeps a session from being found idle until done is called. "" is none.
	Use(session string) (done func())
	// Runs reports whether a command runs in a session.
	Runs(session string) bool
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
	entry Entry
	since time.Time
	kept  *Kept // what this replica could not take, or take back
	taken bool  // another one was its home before, which may not know yet that it is none

	// unsure is that its entry may say something else, or may yet: what changed it had no answer, or this replica has counted as dead. It
	// is no home until the entry is written again.
	unsure bool
}

// maxKept bounds what a Lease has of a session, whose annotations have 256 KiB.
const maxKept = 200 << 10

// coming is of a session's entry whose holder has not taken it over yet: what that has of an earlier time is not what the session is.
const coming = "coming"

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
	moving, certain := r.placing[q.Session], r.isCertain(h)
	r.mu.Unlock()
	switch {
	case moving, h != nil && draining && (q.Starts || q.watches && !r.Local.Runs(q.Session)):
		return nil, errUnsettled // it is given up as soon as no one uses it
	case certain:
		return nil, nil
	}
	e, err := r.Store.Get(ctx, entryName(kindSession, q.Session))
	if errors.Is(err, ErrNone) {
		if h != nil { // it was removed where it was taken over: what is here is forgotten with the next look at all entries
			return nil, errUnsettled
		}
		if !q.Starts || draining {
			return nil, nil
		}
		return nil, r.found(ctx, q)
	}
	if err != nil {
		return nil, err
	}
	if e.Holder != "" && e.Holder != r.Name {
		to, err := r.find(ctx, e.Holder)
		if !errors.Is(err, errGone) {
			return to, err
		}
	}
	if draining && e.Holder != r.Name { // else it is given back once it is this one's for certain
		if to := r.any(); to != nil {
			return to, nil
		}
		return nil, errUnsettled // it is there, and soon with a replica that starts
	}
	return nil, r.takeOver(ctx, q.Session, e)
}

// found makes this replica the home of a session that has none.
func (r *Replicas) found(ctx context.Context, q Request) error {
	_, lapses, moved := r.moving(q.Session)
	if moved == nil {
		return errUnsettled
	}
	defer moved()
	e, err := r.Store.Create(ctx, Entry{
		Kind: kindSession, Name: entryName(kindSession, q.Session), Holder: r.Name, For: leaseFor, Values: put(q.Session, Kept{Owner: q.Owner}),
	})
	if errors.Is(err, ErrTaken) {
		return errUnsettled
	}
	if err != nil {
		return err
	}
	return r.settle(q.Session, &home{entry: e}, lapses)
}

// moving keeps a session that does not have its home here for certain from coming and leaving otherwise, until moved is called; nil if
// it does. It is known what is left of an earlier home, and how often this replica has counted as dead.
func (r *Replicas) moving(session string) (h *home, lapses int, moved func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h = r.homes[session]; r.placing[session] || r.isCertain(h) {
		return nil, 0, nil
	}
	if h != nil {
		now := *h
		h = &now // a lapse makes it unsure
	}
	r.placing[session] = true // a name of a session is none of an entry
	return h, r.lapses, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.placing, session)
	}
}

// isCertain reports whether this is a session's home for certain, without a look at its entry. Who counts as dead is none: others that saw
// that take the session, unless its entry is written again. r.mu is held.
func (r *Replicas) isCertain(h *home) bool {
	return h != nil && !h.unsure && time.Since(r.renewed) < leaseFor
}

// expireTime is how long a session that is idle may take to end: as long as it was certainly this replica's when that began, no other one
// has it meanwhile.
const expireTime = leaseFor / 2

// MayExpire reports whether a session that is known here is this replica's for certain, or no one's, so that it may end it once its idle
// time is over. Elsewhere that has begun again.
func (r *Replicas) MayExpire(ctx context.Context, session string) bool {
	r.mu.Lock()
	h := r.homes[session]
	own := r.isCertain(h) && time.Since(r.renewed) < leaseFor-expireTime
	r.mu.Unlock()
	if h != nil {
		return own
	}
	_, err := r.Store.Get(ctx, entryName(kindSession, session)) // it may be of a time before there were others
	return errors.Is(err, ErrNone)
}

// settle makes this replica a session's home. If it has counted as dead meanwhile, others may have taken the session since.
func (r *Replicas) settle(session string, h *home, lapses int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	h.since = time.Now()
	r.homes[session] = h
	if r.lapses != lapses {
		h.unsure = true
		return errUnsettled
	}
	return nil
}

// takeOver makes this replica the home of a session that has none any more. The Lease decides: of several, one does.
func (r *Replicas) takeOver(ctx context.Context, session string, e Entry) error {
	if e.Values["session"] != session {
		return problem.New(problem.Conflict, fmt.Sprintf("what is recorded of session %q is another's", session), "delete the Lease "+e.Name)
	}
	h, lapses, moved := r.moving(session)
	if moved == nil {
		return errUnsettled // it is here, or will be
	}
	defer moved()
	kept, mine := keptIn(e), e.Holder == r.Name
	if mine && h != nil && h.kept != nil && kept.State == "" {
		kept = *h.kept
	}
	known, err := r.Local.Known()
	if err != nil {
		return err
	}
	still := mine && e.Values[coming] == "" && (known[session] || h != nil && !h.unsure) && (h == nil || h.kept == nil)
	if e.Holder = r.Name; !still {
		e.Values = maps.Clone(e.Values)
		e.Values[coming] = "1"
	}
	e, err = r.Store.Update(ctx, e)
	if errors.Is(err, ErrTaken) || errors.Is(err, ErrNone) {
		return errUnsettled
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), takeTime) // half of it would lose the state, if the caller leaves
	defer cancel()
	if !still || kept.State != "" { // else this process's state directory has it
		r.Log.Info("taking over a session", "session", session)
		if err := r.Local.TakeOver(ctx, session, kept); err != nil { // what is known of it here may be of an earlier time
			return errors.Join(err, r.settle(session, &home{entry: e, kept: &kept, taken: true, unsure: true}, lapses))
		}
	}
	if !still || kept.State != "" { // that is of this moment only, and here now. Until that is written nothing uses the session
		e.Values = put(session, Kept{Owner: kept.Owner, Pod: kept.Pod})
		now, err := r.Store.Update(ctx, e)
		if errors.Is(err, ErrTaken) || errors.Is(err, ErrNone) {
			return errUnsettled
		}
		if err != nil { // what it had is here only, perhaps: the entry does not have it when that is read again
			return errors.Join(err, r.settle(session, &home{entry: e, kept: &kept, taken: true, unsure: true}, lapses))
		}
		e = now
	}
	return r.settle(session, &home{entry: e, taken: true}, lapses)
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
