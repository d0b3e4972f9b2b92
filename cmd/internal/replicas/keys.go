package replicas

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"

	"belljar/cmd/internal/problem"
)

// settled is after how long no request is being placed any more that has the key of an entry.
const settled = 3 * patience

// claim is an idempotency key's entry, while its request is placed.
type claim struct {
	entry Entry
	ours  bool   // only this request changes it
	moved string // the replica that last said that it has nothing of the request, and will not
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
	if key.ours = e.Holder == "" || e.Holder == r.Name || e.Holder == key.moved && e.Age > settled; key.ours {
		return nil, nil // it never began
	}
	to, err := r.find(ctx, e.Holder)
	if errors.Is(err, errGone) {
		return nil, problem.New(problem.Gone, fmt.Sprintf("the request with the Idempotency-Key %.80q was for replica %.20s, which has ended", q.Key, e.Holder), "its command may have run; see what it did before you send the request with another key")
	}
	if err == nil && e.Values[shared] == "" { // so that who chose that replica does not choose another one now
		key.entry.Values = maps.Clone(e.Values)
		key.entry.Values[shared] = "1"
		key.entry, err = r.Store.Update(ctx, key.entry)
	}
	if errors.Is(err, ErrTaken) || errors.Is(err, ErrNone) {
		return nil, errUnsettled
	}
	return to, err
}

// shared is of a key's entry that more than one replica has sent the request to its holder by.
const shared = "shared"

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
		key.entry.Holder, key.entry.Values = holder, map[string]string{"request": hex.EncodeToString(q.Sum)}
		key.entry, err = r.Store.Update(ctx, key.entry)
	}
	if errors.Is(err, ErrTaken) || errors.Is(err, ErrNone) {
		*key = claim{moved: key.moved}
		return errUnsettled // the same request is at another replica, too
	}
	return err
}

// unclaim leaves a key of a request that was refused here to the replica that gets it next.
func (r *Replicas) unclaim(ctx context.Context, q Request, key *claim) {
	if !key.ours || key.entry.Holder != r.Name || key.entry.Values[shared] != "" || r.Local.KnowsKey(q.Owner, q.Key) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), renewEach)
	defer cancel()
	key.entry.Holder = ""
	if _, err := r.Store.Update(ctx, key.entry); !errors.Is(err, ErrTaken) && !errors.Is(err, ErrNone) {
		r.log(err, "leaving an idempotency key to others")
	}
}

// SweepKeys removes the keys that are not known any more: this replica's, and those of replicas that ended as long ago as
// executions are kept.
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
	known, noted := map[string]bool{}, map[string]bool{}
	for _, k := range r.Local.Keys() {
		known[entryName(kindKey, k[0], k[1])] = true
	}
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
		kept := known[e.Name]
		if e.Holder != r.Name {
			kept = noted[entryName(kindReplica, e.Holder)] || e.Age <= r.Keep
		}
		if !kept && e.Age > settled {
			err = errors.Join(err, r.Store.Delete(ctx, e))
		}
	}
	return err
}
