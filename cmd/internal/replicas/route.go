package replicas

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"belljar/cmd/internal/access"
	"belljar/cmd/internal/problem"
	"belljar/internal/names"
)

// Wrap is next for what is this replica's, and another replica for what is its. The guard and the bounds are in front of it.
func (r *Replicas) Wrap(next http.Handler) http.Handler {
	if r == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		kind, name, rest := split(req.URL)
		req = asItCame(req)
		switch {
		case Sent(req.Header) && cmp.Or(req.Header.Get(addressee), r.Name) != r.Name:
			problem.New(problem.Misdirected, "the request is for another replica, which does not have this one's address any more", "send it again").Write(w)
		case Sent(req.Header) && !r.isFrom(req.Context(), req.Header.Get(mark)):
			problem.New(problem.Misdirected, "the header "+mark+" names no replica that runs, or not its proof", "leave out the header: it is for requests between replicas").Write(w)
		case kind == "sessions" && rest == handOverPath && Sent(req.Header) && req.Method == http.MethodPost:
			r.handOver(w, req, name)
		case kind == "sessions" && rest == handOverPath && !Sent(req.Header): // it is for replicas only
			next.ServeHTTP(w, req)
		case kind == "sessions" && name != "":
			r.session(w, req, name, next)
		case kind == "sessions" && req.Method == http.MethodPost:
			r.newSession(w, req, next)
		case Sent(req.Header):
			next.ServeHTTP(w, req)
		case name == "" && req.Method == http.MethodGet && lists[kind] != nil:
			r.list(w, req, kind, next)
		case (kind == "executions" || kind == "approvals") && name != "":
			r.execution(w, req, kind, name, next)
		default:
			next.ServeHTTP(w, req.WithContext(context.WithValue(req.Context(), credentialsKey{}, req.Header["Authorization"])))
		}
	})
}

// maxSession is more bytes than a request for a session has.
const maxSession = 1 << 20

// newSession has a session made at its home.
func (r *Replicas) newSession(w http.ResponseWriter, req *http.Request, next http.Handler) {
	text, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxSession))
	if err != nil {
		refuse(w, err)
		return
	}
	again := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }
	req.GetBody = again
	req.Body, _ = again()
	var asked struct{ Name string }
	who, err := access.Need(req.Context(), access.Run)
	if err != nil || json.Unmarshal(text, &asked) != nil || names.CheckSession(asked.Name) != nil {
		next.ServeHTTP(w, req) // which says what is wrong
		return
	}
	refuse(w, r.Do(w, req, Request{Owner: who.Name, Session: asked.Name, Starts: true}, func() error {
		next.ServeHTTP(w, req)
		return nil
	}))
}

// split is what a URL of the API is about: /v1/KIND/NAME/REST. REST is as it was sent.
func split(u *url.URL) (kind, name, rest string) {
	root, path, _ := strings.Cut(strings.TrimPrefix(u.EscapedPath(), "/"), "/")
	kind, path, _ = strings.Cut(path, "/")
	name, rest, _ = strings.Cut(path, "/")
	for _, element := range []*string{&root, &kind, &name} { // as http.ServeMux does
		plain, err := url.PathUnescape(*element)
		if err != nil {
			return "", "", ""
		}
		*element = plain
	}
	if root != "v1" {
		return "", "", ""
	}
	return kind, name, rest
}

// execution sends a request about an execution to its replica.
func (r *Replicas) execution(w http.ResponseWriter, req *http.Request, kind, id string, next http.Handler) {
	owner, err := r.toOwner(w, req, kind, id, false)
	if errors.Is(err, errMissed) {
		owner, err = r.toOwner(w, req, kind, id, true)
	}
	switch {
	case err == nil && (owner == "" || owner == r.Name):
		next.ServeHTTP(w, req)
	case err == nil:
	case errors.Is(err, errGone) && r.returns(owner):
		unavailable(fmt.Sprintf("replica %s of execution %.80q has ended and may start again", owner, id), "send the request again later").Write(w)
	case errors.Is(err, errGone):
		gone(w, fmt.Sprintf("replica %s of execution %.80q has ended", owner, id))
	case isUndone(err):
		unreached(w, owner)
	default:
		problem.Of(err).Write(w)
	}
}

// errMissed is that an execution whose ID a caller chose is not where it was: another replica may have one of that ID.
var errMissed = fmt.Errorf("%w: what was asked for is not there any more", errMoved)

// toOwner sends the request to the replica that has the execution, if it is another one. It is errMissed where that does not have it;
// with last, that is the answer.
func (r *Replicas) toOwner(w http.ResponseWriter, req *http.Request, kind, id string, last bool) (owner string, err error) {
	owner = OwnerOf(id)
	if owner == "" && !r.hasHere(req, kind, id) {
		if owner, err = r.whoChose(req, kind, id); err != nil {
			return "", err
		}
	}
	if owner == "" || owner == r.Name {
		return owner, nil
	}
	to, err := r.find(req.Context(), owner)
	if err != nil {
		return owner, err
	}
	return owner, r.send(w, req, to, func(answer *http.Response) error {
		if answer.StatusCode != http.StatusNotFound || OwnerOf(id) != "" {
			return nil
		}
		if r.missed(req, id); last {
			return nil
		}
		return errMissed
	})
}

// hasHere reports whether what is asked for is here: a question is for who may answer it, whose the execution is.
func (r *Replicas) hasHere(req *http.Request, kind, id string) bool {
	return kind == "approvals" && r.Local.Asks(id) || r.Local.Knows(req.Context(), id)
}

// session sends a request about a session to its home.
func (r *Replicas) session(w http.ResponseWriter, req *http.Request, name string, next http.Handler) {
	q := Request{Session: name, watches: isWatch(req)}
	refuse(w, r.Do(w, req, q, func() error {
		if q.watches {
			watching, done := r.watching(req, name)
			defer done()
			next.ServeHTTP(w, watching)
			return nil
		}
		next.ServeHTTP(w, req)
		return nil
	}))
	if req.Method == http.MethodDelete {
		r.ends(req.Context(), name)
	}
}

// refuse answers with what is wrong, if anything is.
func refuse(w http.ResponseWriter, err error) {
	switch {
	case err == nil:
	case errors.Is(err, errMoved): // to the replica that sent it on
		if errors.Is(err, errNever) {
			w.Header().Set(mark, "never")
		}
		w.WriteHeader(http.StatusMisdirectedRequest)
	default:
		problem.Of(err).Write(w)
	}
}

// wait waits for a pause. It is false once there is no more time.
func wait(ctx context.Context, until time.Time) bool {
	if time.Now().After(until) {
		return false
	}
	select {
	case <-time.After(pause):
		return true
	case <-ctx.Done():
		return false
	}
}
