package access

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// errEnded is why a request ends whose caller may not make it any more.
var errEnded = errors.New("the token or certificate of the request is no longer valid")

// proof is what a request proved when it came: the identity, until when, and how to look again.
type proof struct {
	Identity
	expires time.Time                               // zero: never
	again   func(now time.Time) (credential, error) // nil: by the socket, which stays
}

// openRequests are the requests that are being answered for a token or a certificate: a stream or a
// terminal may stay open for hours.
type openRequests struct {
	mu  sync.Mutex
	all map[*openRequest]struct{}
}

type openRequest struct {
	proof
	end   context.CancelCauseFunc
	timer *time.Timer // until it expires; nil: never. openRequests.mu guards it
}

// untilEnded is ctx until the proof is no longer valid. The caller calls done.
func (t *Tokens) untilEnded(ctx context.Context, p proof) (_ context.Context, done func()) {
	if p.again == nil {
		return ctx, func() {}
	}
	ctx, end := context.WithCancelCause(ctx)
	r := &openRequest{proof: p, end: end}
	t.open.mu.Lock()
	if t.open.all == nil {
		t.open.all = map[*openRequest]struct{}{}
	}
	t.open.all[r] = struct{}{}
	r.check(time.Now()) // the tokens may have changed since
	t.open.mu.Unlock()
	return ctx, func() {
		t.open.mu.Lock()
		r.until(time.Time{})
		delete(t.open.all, r)
		t.open.mu.Unlock()
		end(nil)
	}
}

// changed ends the requests that could not be made any more.
func (t *Tokens) changed() {
	t.open.mu.Lock()
	defer t.open.mu.Unlock()
	for r := range t.open.all {
		r.check(time.Now())
	}
}

// check ends it, now or once it may be made no longer. openRequests.mu is held.
func (r *openRequest) check(now time.Time) {
	c, err := r.again(now)
	if err != nil || !c.covers(r.Identity) {
		r.end(errEnded)
		return
	}
	r.until(c.expires)
}

// until ends it then, and no earlier. Zero is never. openRequests.mu is held.
func (r *openRequest) until(expires time.Time) {
	if r.timer != nil {
		r.timer.Stop()
		r.timer = nil
	}
	if !expires.IsZero() {
		r.timer = time.AfterFunc(time.Until(expires), func() { r.end(errEnded) })
	}
}

// covers reports whether an identity is the same one and may do as much.
func (i Identity) covers(before Identity) bool {
	lacksScope := func(s Scope) bool { return !i.Can(s) }
	lacksProfile := func(p string) bool { return !i.MayUse(p) }
	return i.Name == before.Name && !slices.ContainsFunc(before.Scopes, lacksScope) && !slices.ContainsFunc(before.Profiles, lacksProfile)
}
