package access

import (
	"context"
	"io"
	"net/http"
	"slices"
	"sync"

	"belljar/cmd/internal/problem"
)

// Bounds limit what callers may ask for at once.
type Bounds struct {
	Requests int   // at the same time, of all callers; one caller gets at most 3/4 of them
	Body     int64 // bytes of a request's body, unless its handler calls LimitBody
}

// Wrap is next within the bounds. The guard must be in front of it.
func (b Bounds) Wrap(next http.Handler) http.Handler {
	s := NewSlots(b.Requests)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A supervisor that gets no answer about a busy server would kill it, or send it no
		// more requests.
		if !slices.Contains(withoutToken, r.URL.Path) {
			who := FromContext(r.Context()).Name
			if !s.Take(who) {
				problem.New(problem.Unavailable, "too many requests at the same time", "end some, wait, or raise serve.max_requests").Write(w)
				return
			}
			defer s.Give(who)
		}
		ctx := context.WithValue(r.Context(), bodyKey{}, r.Body)
		r = r.WithContext(ctx)
		LimitBody(w, r, b.Body)
		next.ServeHTTP(w, r)
	})
}

// Slots count the requests that are being answered, by the names of their identities.
type Slots struct {
	all, each int

	mu    sync.Mutex
	total int
	used  map[string]int
}

// NewSlots has slots for so many requests. One caller gets at most 3/4 of them.
func NewSlots(all int) *Slots {
	return &Slots{all: all, each: (all*3 + 3) / 4, used: map[string]int{}}
}

// Take takes one, if there is one for the caller. Give gives it back.
func (s *Slots) Take(who string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.total >= s.all || s.used[who] >= s.each {
		return false
	}
	s.total++
	s.used[who]++
	return true
}

// Give gives back what Take took.
func (s *Slots) Give(who string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total--
	if s.used[who]--; s.used[who] == 0 {
		delete(s.used, who) // tokens come and go
	}
}

type bodyKey struct{}

// LimitBody bounds the request's body, in place of the bound of Bounds. Reading further
// is a *http.MaxBytesError. It is called before the body is read.
func LimitBody(w http.ResponseWriter, r *http.Request, most int64) {
	body, ok := r.Context().Value(bodyKey{}).(io.ReadCloser)
	if !ok {
		body = r.Body
	}
	limited := http.MaxBytesReader(w, body, most)
	if r.ContentLength > most {
		limited = oversized{limited, most}
	}
	r.Body = limited
}

// oversized is a body that says itself that it is too large: not a byte of it is needed.
type oversized struct {
	io.Closer
	most int64
}

func (o oversized) Read([]byte) (int, error) { return 0, &http.MaxBytesError{Limit: o.most} }
