package replicas

import (
	"context"
	"encoding/json"
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

// credentialsKey is of a request's credentials, for Fetch.
type credentialsKey struct{}

// Fetch makes a session one of this replica's, and with starts also one that there is not yet. ctx is that of a request which Wrap
// passed on, about the session of its caller. It is busy where a command uses the session at another replica.
func (r *Replicas) Fetch(ctx context.Context, session string, starts bool) error {
	if r == nil {
		return nil
	}
	if err := names.CheckSession(session); err != nil {
		return err
	}
	q := Request{Owner: access.FromContext(ctx).Name, Session: session, Starts: starts}
	for until := time.Now().Add(patience / 2); ; {
		if r.isLeaving(q) { // it takes nothing that it would give back at once, and what it does not have it knows nothing of
			return unavailable("this replica is about to end", "send the request again: another one answers it")
		}
		to, err := r.home(ctx, q)
		if err == nil && to == nil {
			return nil
		}
		if err == nil {
			if err = r.askFor(ctx, session, to); err == nil {
				continue
			}
		}
		if !isUndone(err) {
			return err
		}
		if wait(ctx, until) {
			continue
		}
		if errors.Is(err, errMoved) {
			return &sandbox.Error{Cause: sandbox.CauseBusy, Message: fmt.Sprintf("session %q is used at another replica", session), Hint: "try again once that has ended", RetryAfter: time.Second}
		}
		return unavailable(fmt.Sprintf("session %q does not come here now: %v", session, err), "send the request again later")
	}
}

// isLeaving reports whether this replica drains, and has no use of the session any more.
func (r *Replicas) isLeaving(q Request) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.draining && (q.Starts || !r.isCertain(r.homes[q.Session]))
}

// askFor has a session's home give it back. It is errMoved where that is not its home, or has a use of it.
func (r *Replicas) askFor(ctx context.Context, session string, from *peer) error {
	credentials, _ := ctx.Value(credentialsKey{}).([]string)
	a := r.askOne(ctx, http.MethodPost, http.Header{"Authorization": credentials}, "/v1/sessions/"+url.PathEscape(session)+"/"+handOverPath, from)
	switch a.status {
	case http.StatusNoContent:
		return nil
	case http.StatusMisdirectedRequest:
		return errMoved
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
		said := problem.New(problem.CodeOf(a.status), "", "")
		_ = json.Unmarshal(a.text, said) // else its status says it
		return problem.New(problem.CodeOf(a.status), said.Detail, said.Hint)
	}
	return fmt.Errorf("%w: %s", errUnreached, from.name)
}

// handOverPath is the path of a session below which another replica asks for it.
const handOverPath = "hand-over"

// handOver gives a session back that another replica wants, for a caller whose it is: also one who may only read, as it stays what it is.
func (r *Replicas) handOver(w http.ResponseWriter, req *http.Request, session string) {
	who, err := access.Need(req.Context(), access.Read)
	if err == nil {
		err = r.handsOver(req.Context(), who, session)
	}
	if errors.Is(err, errUnsettled) {
		err = errMoved
	}
	if refuse(w, err); err == nil {
		w.WriteHeader(http.StatusNoContent)
	}
}

func (r *Replicas) handsOver(ctx context.Context, who access.Identity, session string) error {
	r.mu.Lock()
	h := r.homes[session]
	certain, moving := r.isCertain(h), r.placing[session]
	var kept *Kept
	if h != nil {
		kept = h.kept
	}
	r.mu.Unlock()
	if h == nil || moving {
		return errMoved // what is known of it here may be of another time
	}
	owner := r.Local.Owner(session)
	if kept != nil {
		owner = kept.Owner
	}
	switch {
	case who.Owns(owner):
		return r.giveBack(ctx, session)
	case certain:
		return problem.New(problem.NotFound, fmt.Sprintf("no session %.80q", session), "list your sessions")
	}
	return errMoved
}
