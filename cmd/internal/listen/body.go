package listen

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"belljar/cmd/internal/problem"
)

// slowest is how many bytes of a body must arrive in a second.
const slowest = 1 << 10

// body is a request's body that must not come too slowly: it gets a time at first, and
// more for what arrives. Only the waiting for the client counts, not what the handler
// does between two reads.
type body struct {
	io.ReadCloser
	conn *http.ResponseController
	most time.Duration
	left time.Duration
	done bool
}

// steady is next for requests whose body is a body.
func (t times) steady(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody {
			next.ServeHTTP(w, r)
			return
		}
		b := &body{ReadCloser: r.Body, conn: http.NewResponseController(w), most: t.body, left: t.body}
		b.hurry()
		defer b.hurry() // net/http reads what the handler did not
		timed := *r
		timed.Body = b
		next.ServeHTTP(w, &timed)
	})
}

// hurry sets the deadline for what is read next.
func (b *body) hurry() {
	if !b.done {
		_ = b.conn.SetReadDeadline(time.Now().Add(b.left)) // only a test's recorder has none
	}
}

func (b *body) Read(p []byte) (int, error) {
	b.hurry()
	begin := time.Now()
	n, err := b.ReadCloser.Read(p)
	b.left = min(b.most, b.left-time.Since(begin)+time.Duration(n)*time.Second/slowest)
	switch {
	case errors.Is(err, io.EOF):
		b.done = true
		_ = b.conn.SetReadDeadline(time.Time{}) // the server waits for the client to leave
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = tooSlow{problem.New(problem.Timeout, "the request's body arrived too slowly", "send at least 1 KiB a second, or the input of a command in several requests")}
	}
	return n, err
}

// tooSlow is a problem, and a timeout as net has them.
type tooSlow struct{ *problem.Problem }

func (t tooSlow) Unwrap() error { return t.Problem }

func (tooSlow) Timeout() bool { return true }

func (tooSlow) Temporary() bool { return false }
