package replicas

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"belljar/cmd/internal/problem"
	"belljar/internal/names"
	"belljar/sandbox"
)

// Request is what decides which replica a request is for.
type Request struct {
	Owner   string
	Key     string // its Idempotency-Key, "" for none
	Sum     []byte // of its body
	Session string // "" for none
	ID      string // that the caller chose, "" for none
	Starts  bool   // a command, and its session if there is none
	watches bool   // it is answered until its caller leaves, or the session does
}

// requests are those for commands that are not answered, and those that watch sessions.
type requests struct {
	starting int            // all of them
	deciding int            // of these, those that may begin here, or are about to
	repeats  map[string]int // those that are here without a look at the entries of their keys, by these entries' names
	watches  map[*watch]bool
}

// errUnsettled is that no replica can be asked now.
var errUnsettled = errors.New("no replica has the session now")

// Do calls here if a request is for this replica, and else sends it to the one that it is for. w and req are the request's. If
// req has a body, it has GetBody, or nothing was read of it.
func (r *Replicas) Do(w http.ResponseWriter, req *http.Request, q Request, here func() error) error {
	if r == nil {
		return here()
	}
	if OwnerOf(q.ID) != "" {
		return problem.New(string(sandbox.CauseInvalid), fmt.Sprintf("the id %s is one that a sidecar chooses", q.ID), "choose another id, or leave it out")
	}
	if q.Session != "" && names.CheckSession(q.Session) != nil {
		return here() // which says what is wrong
	}
	if q.Starts {
		defer r.startsOne()()
	}
	err := r.do(w, req, q, here)
	switch {
	case errors.Is(err, errMoved):
		refuse(w, err)
		return nil
	case errors.Is(err, errGone):
		return problem.New(problem.Gone, "the replica that had the request ended before it answered", "the command may have run; see what it did before you send the request again")
	}
	return err
}

// startsOne counts a request until it is answered.
func (r *Replicas) startsOne() (answered func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.starting++
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.starting--
	}
}

// Settle waits until all requests for commands are answered, or ctx ends. Drain comes first.
func (r *Replicas) Settle(ctx context.Context) {
	for until := time.Now().Add(time.Hour); r != nil && r.isStarting() && wait(ctx, until); {
	}
}

func (r *Replicas) isStarting() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.starting > 0
}

// isUndone reports whether nothing began, and the request is to be tried again.
func isUndone(err error) bool {
	return errors.Is(err, errMoved) || errors.Is(err, errUnreached) || errors.Is(err, errUnsettled)
}

func (r *Replicas) do(w http.ResponseWriter, req *http.Request, q Request, here func() error) error {
	ctx, key := req.Context(), &claim{}
	for until := time.Now().Add(patience); ; {
		err := r.try(ctx, w, req, q, key, here)
		if !isUndone(err) {
			return err
		}
		if Sent(req.Header) { // the replica that sent it tries again
			if !errors.Is(err, errMoved) {
				err = errMoved
			}
			return err
		}
		if !wait(ctx, until) {
			r.abandon(ctx, q, key)
			return cmp.Or(ctx.Err(), error(unavailable("the replica that the request is for does not answer", "send it again later: another one takes its place once it is known to have ended")))
		}
	}
}

// try does it once.
func (r *Replicas) try(ctx context.Context, w http.ResponseWriter, req *http.Request, q Request, key *claim, here func() error) error {
	if q.Key != "" {
		repeated := r.repeating(q)
		if r.Local.KnowsKey(q.Owner, q.Key) {
			defer repeated()
			return here()
		}
		repeated()
	}
	release, err := r.reserve(q)
	if err != nil {
		return err
	}
	defer func() { release() }()
	begun := time.Now()
	to, err := r.target(ctx, q, key, Sent(req.Header))
	switch {
	case Sent(req.Header) && (to != nil || errors.Is(err, errMoved)):
		return r.deny(q, here)
	case err != nil:
		if !Sent(req.Header) && !isUndone(err) {
			r.abandon(ctx, q, key) // what was sent before began nowhere, and nothing is from now on
		}
		return err
	case to == nil:
		err = here()
		if err != nil {
			r.unclaim(ctx, q, key)
			r.tellRefused(w, req, q)
		}
		release()
		release = func() {}
		r.drop(ctx, q, begun)
		return err
	}
	release()
	release = func() {}
	err = r.send(w, req, to, func(answer *http.Response) error {
		if answer.Header.Get(mark) == refused {
			r.abandon(ctx, q, key)
		}
		return nil
	})
	if errors.Is(err, errNever) {
		*key = claim{never: key.entry.Version} // it is looked for again, as this request may have been on its way for long
	}
	return err
}

// reserve keeps this replica from giving the session away, and from placing another request with the same key, until release.
func (r *Replicas) reserve(q Request) (release func(), err error) {
	name := entryName(kindKey, q.Owner, q.Key)
	r.mu.Lock()
	taken := q.Key != "" && r.placing[name]
	if q.Key != "" && !taken {
		r.placing[name] = true
	}
	if !taken && q.Starts {
		r.deciding++
	}
	r.mu.Unlock()
	if taken {
		return nil, errUnsettled
	}
	unused := r.Local.Use(q.Session) // before it is known whose it is: from then on it stays so
	return func() {
		unused()
		r.mu.Lock()
		defer r.mu.Unlock()
		if q.Starts {
			r.deciding--
		}
		if q.Key != "" {
			delete(r.placing, name)
		}
	}, nil
}

// target is the replica that a request is for, nil for this one.
func (r *Replicas) target(ctx context.Context, q Request, key *claim, sent bool) (to *peer, err error) {
	if q.Key != "" && !sent && !key.ours {
		if to, err := r.look(ctx, q, key); to != nil || err != nil {
			return to, err
		}
	}
	if q.Session != "" {
		if to, err = r.home(ctx, q); err != nil {
			return nil, err
		}
	}
	if to == nil && q.Starts && r.isDraining() {
		if sent {
			return nil, errMoved
		}
		to = r.any()
	}
	switch {
	case q.Key != "" && !sent:
		err = r.claimKey(ctx, q, key, to)
	case q.Key != "" && to == nil:
		err = r.recall(ctx, q, key)
	}
	return to, err
}

// any is a replica that lives, nil if there is none but this one.
func (r *Replicas) any() *peer {
	all := r.living()
	if len(all) == 0 {
		return nil
	}
	return all[rand.IntN(len(all))]
}

func (r *Replicas) isDraining() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.draining
}
