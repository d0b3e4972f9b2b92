package replicas

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"time"

	"belljar/cmd/internal/problem"
)

// settled is after how long a replica that knows nothing of a key, or of a session, takes its entry for one of nothing.
const settled = 3 * patience

// claim is an idempotency key's entry, while its request is placed.
type claim struct {
	entry Entry
	ours  bool   // only this request changes it
	never string // the entry's version when its holder said errNever
}

// look finds the replica that a request with the same key was for. It is nil, without an error, if there was none, or if it is this
// one.
func (r *Replicas) look(ctx context.Context, q Request, key *claim) (*peer, error) {
	e, err := r.Store.Get(ctx, entryName(kindKey, q.Owner, q.Key))
	if errors.Is(err, ErrNone) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if e.Values["request"] != hex.EncodeToString(q.Sum) {
		return nil, problem.New(problem.Conflict, fmt.Sprintf("the Idempotency-Key %.80q was used for another request", q.Key), "use a new key for each request, and the same one only to repeat it")
	}
	key.entry = e
	key.ours = e.Holder == "" || e.Version == key.never
	if key.ours || e.Holder == r.Name {
		return nil, nil // it never began, or is for this one
	}
	to, err := r.find(ctx, e.Holder)
	if errors.Is(err, errGone) && r.returns(e.Holder) {
		return nil, unavailable(fmt.Sprintf("the request with the Idempotency-Key %.80q was for replica %.20s, which has ended and may start again", q.Key, e.Holder), "send the request again later")
	}
	if errors.Is(err, errGone) {
		return nil, problem.New(problem.Gone, fmt.Sprintf("the request with the Idempotency-Key %.80q was for replica %.20s, which has ended", q.Key, e.Holder), "its command may have run; see what it did before you send the request with another key")
	}
	if err == nil && e.Values[shared] == "" { // so that who chose that replica does not choose another one now
		err = r.share(ctx, key)
	}
	if errors.Is(err, ErrTaken) || errors.Is(err, ErrNone) {
		return nil, errUnsettled
	}
	return to, err
}

// shared is of a key's entry whose holder has the request from more than the replica that chose it: from another one, or itself.
const shared = "shared"

func (r *Replicas) share(ctx context.Context, key *claim) (err error) {
	key.entry.Values = maps.Clone(key.entry.Values)
	key.entry.Values[shared] = "1"
	key.entry, err = r.Store.Update(ctx, key.entry)
	return err
}

// claimKey notes which replica a request with a key is for, before that gets it.
func (r *Replicas) claimKey(ctx context.Context, q Request, key *claim, to *peer) (err error) {
	holder := r.Name
	if to != nil {
		holder = to.name
	}
	switch {
	case key.entry.Version == "":
		key.entry, err = r.Store.Create(ctx, Entry{
			Kind: kindKey, Name: entryName(kindKey, q.Owner, q.Key), Holder: holder, For: leaseFor, Values: map[string]string{"request": hex.EncodeToString(q.Sum)},
		})
		key.ours = err == nil
	case key.entry.Holder != holder:
		if key.entry.Holder == r.Name { // one that was sent here may still come
			r.denies(key.entry.Name)
		}
		key.entry.Holder, key.entry.Values = holder, map[string]string{"request": hex.EncodeToString(q.Sum)}
		key.entry, err = r.Store.Update(ctx, key.entry)
		key.ours = err == nil
	case to == nil && !key.ours: // another replica chose this one, and could choose one more while the request runs here
		err = r.share(ctx, key)
	}
	if errors.Is(err, ErrTaken) || errors.Is(err, ErrNone) {
		*key = claim{}
		return errUnsettled // the same request is at another replica, too
	}
	return err
}

// errNever is that a replica has nothing of a request with a key, and begins none that has it before it has changed the key's
// entry. So who then gives the key to another replica does that only if it has not begun.
var errNever = fmt.Errorf("%w, and does not begin here", errMoved)

// deny says so of a request that is for another replica, unless one with its key has begun here since it came. The key is reserved: no
// other request with it is being placed here.
func (r *Replicas) deny(q Request, here func() error) error {
	switch {
	case q.Key == "":
		return errMoved
	case r.Local.KnowsKey(q.Owner, q.Key):
		return here()
	}
	r.denies(entryName(kindKey, q.Owner, q.Key))
	return errNever
}

// denies has requests with a key that were sent here begin only once its entry is changed: see recall.
func (r *Replicas) denies(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.denied[name] = time.Now()
}

// remembers reports whether a request may still come that was sent before then.
func (r *Replicas) remembers(at time.Time) bool { return time.Since(at) <= max(r.Keep, settled) }

// denyForgotten is which of this replica's entries are of keys that it knows nothing of, and so are to be removed. A request with one
// that was sent here may still come.
func (r *Replicas) denyForgotten(list []Entry) map[string]bool {
	known, unknown := r.known(), map[string]bool{}
	r.mu.Lock()
	for _, e := range list {
		if e.Holder == r.Name && e.Age > settled && !known[e.Name] && !r.placing[e.Name] && r.repeats[e.Name] == 0 {
			unknown[e.Name], r.denied[e.Name] = true, time.Now()
		}
	}
	r.mu.Unlock()
	for name := range r.known() {
		delete(unknown, name) // it began just before
	}
	return unknown
}

// known are the entries of the keys that this replica knows.
func (r *Replicas) known() map[string]bool {
	all := map[string]bool{}
	for _, k := range r.Local.Keys() {
		all[entryName(kindKey, k[0], k[1])] = true
	}
	return all
}

// recall is for a request that was sent here, perhaps long ago: the key may be another replica's, if this one said errNever or gave it away since.
// What an earlier process of the same name said is not known.
func (r *Replicas) recall(ctx context.Context, q Request, key *claim) (err error) {
	name := entryName(kindKey, q.Owner, q.Key)
	r.mu.Lock()
	denied := !r.denied[name].IsZero() || r.remembers(r.resumed)
	r.mu.Unlock()
	if !denied {
		return nil
	}
	if key.entry, err = r.Store.Get(ctx, name); errors.Is(err, ErrNone) || err == nil && key.entry.Holder != r.Name {
		return errNever
	}
	if err == nil {
		err = r.share(ctx, key)
	}
	if errors.Is(err, ErrTaken) || errors.Is(err, ErrNone) {
		return errUnsettled
	}
	if err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.denied, name)
	}
	return err
}

// repeating counts a request whose key may be known here, until done. It comes before the look whether that is so: the request that
// made the key known may be refused meanwhile, and then this one begins.
func (r *Replicas) repeating(q Request) (done func()) {
	name := entryName(kindKey, q.Owner, q.Key)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.repeats[name]++
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.repeats[name]--; r.repeats[name] == 0 {
			delete(r.repeats, name)
		}
	}
}

// hasKey reports whether a request with the key has begun here, or may yet. The key is reserved.
func (r *Replicas) hasKey(q Request) bool {
	r.mu.Lock()
	repeats := r.repeats[entryName(kindKey, q.Owner, q.Key)]
	r.mu.Unlock()
	return repeats > 0 || r.Local.KnowsKey(q.Owner, q.Key) // in this order: one that was counted has begun by now, or never does
}

// unclaim leaves a key of a request that was refused here to the replica that gets it next.
func (r *Replicas) unclaim(ctx context.Context, q Request, key *claim) {
	if !key.ours || key.entry.Holder != r.Name || key.entry.Values[shared] != "" || r.hasKey(q) {
		return
	}
	r.leaves(ctx, q, key)
}

// abandon does that for a request of which nothing began at the replica that was to have it. The condition is that under which another one
// would be chosen.
func (r *Replicas) abandon(ctx context.Context, q Request, key *claim) {
	if q.Key != "" && key.entry.Version == "" && key.never != "" { // its holder said errNever
		var err error
		if key.entry, err = r.Store.Get(context.WithoutCancel(ctx), entryName(kindKey, q.Owner, q.Key)); err != nil {
			return
		}
		key.ours = key.entry.Version == key.never
	}
	if key.ours && key.entry.Holder != "" && key.entry.Holder != r.Name {
		r.leaves(ctx, q, key)
	}
}

func (r *Replicas) leaves(ctx context.Context, q Request, key *claim) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), renewEach)
	defer cancel()
	key.entry.Holder, key.entry.Values = "", map[string]string{"request": hex.EncodeToString(q.Sum)}
	if _, err := r.Store.Update(ctx, key.entry); !errors.Is(err, ErrTaken) && !errors.Is(err, ErrNone) {
		r.log(err, "leaving an idempotency key to others")
	}
}

// refused is what the header mark of an answer says where nothing of a request with a key began, and none that has it begins before the
// key's entry is changed: the replica that chose this one for it may leave it to another one.
const refused = "refused"

// tellRefused says so of a request that another replica sent on.
func (r *Replicas) tellRefused(w http.ResponseWriter, req *http.Request, q Request) {
	if q.Key != "" && Sent(req.Header) && !r.hasKey(q) {
		r.denies(entryName(kindKey, q.Owner, q.Key))
		w.Header().Set(mark, refused)
	}
}

// SweepKeys removes the keys that are not known any more: this replica's, those of replicas that ended as long ago as
// executions are kept, and those of requests that were refused.
func (r *Replicas) SweepKeys(ctx context.Context) error {
	if r == nil {
		return nil
	}
	list, err := r.Store.List(ctx, kindKey)
	if err != nil {
		return err
	}
	there, err := r.Store.List(ctx, kindReplica)
	if err != nil {
		return err
	}
	r.mu.Lock()
	maps.DeleteFunc(r.denied, func(_ string, at time.Time) bool { return !r.remembers(at) })
	r.mu.Unlock()
	unknown, noted := r.denyForgotten(list), map[string]bool{}
	for _, e := range there {
		if over := e.Age > r.Keep; over && (!e.Lives || e.Holder == "") {
			err = errors.Join(err, r.Store.Delete(ctx, e))
		} else {
			noted[e.Name] = true
		}
	}
	for _, e := range list {
		if ctx.Err() != nil {
			return ctx.Err() // the next time goes on
		}
		refused := e.Holder == "" && e.Age > settled
		if refused || unknown[e.Name] || e.Holder != r.Name && e.Age > max(r.Keep, settled) && !noted[entryName(kindReplica, e.Holder)] {
			err = errors.Join(err, r.Store.Delete(ctx, e))
		}
	}
	return err
}
