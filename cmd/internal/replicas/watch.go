package replicas

import (
	"context"
	"net/http"
	"strconv"
	"time"
)

// watch is a request that is answered with what changes in a session's directory, until its caller leaves. It ends where the session is
// given back, which such a caller would keep from that for ever: who then watches again is sent to the next home.
type watch struct {
	session string
	end     context.CancelFunc
}

func isWatch(req *http.Request) bool {
	values, there := req.URL.Query()["watch"]
	if !there || values[0] == "" { // ?watch is ?watch=true
		return there
	}
	is, err := strconv.ParseBool(values[0])
	return is && err == nil
}

// watching is a request that endWatches ends, until done.
func (r *Replicas) watching(req *http.Request, session string) (_ *http.Request, done func()) {
	ctx, cancel := context.WithCancel(req.Context())
	own := &watch{session, cancel}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watches[own] = true
	return req.WithContext(ctx), func() {
		cancel()
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.watches, own)
	}
}

// endWatches ends those of a session, and waits a moment for them. The session is leaving: no new one begins.
func (r *Replicas) endWatches(session string) {
	some := false
	r.mu.Lock()
	for w := range r.watches {
		if w.session == session {
			w.end()
			some = true
		}
	}
	r.mu.Unlock()
	for until := time.Now().Add(pause); some && !r.Local.Idle(session) && time.Now().Before(until); {
		time.Sleep(decideLook)
	}
}
