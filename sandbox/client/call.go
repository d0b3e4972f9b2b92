package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"belljar/sandbox"
)

// request is one call of the API.
type request struct {
	method string
	path   string // escaped, such as /v1/sessions
	query  url.Values
	header http.Header
	body   []byte    // sent again where the request is
	stream io.Reader // instead of body: sent once
	size   int64     // of stream; -1 is unknown
}

// unreachable is that no whole answer came.
type unreachable struct {
	error
	unsent   bool // nothing reached the sidecar
	answered bool // the sidecar had: it was in reach until now
}

func (u unreachable) Unwrap() error { return u.error }

// do sends a request once. The answer's status is 2xx; its body is to be closed.
// Cancelling ctx also ends the body.
func (c *Client) do(ctx context.Context, r request) (*http.Response, error) {
	address := c.base + r.path
	if len(r.query) > 0 {
		address += "?" + r.query.Encode()
	}
	body := r.stream
	if r.body != nil {
		body = bytes.NewReader(r.body)
	}
	q, err := http.NewRequestWithContext(ctx, r.method, address, body)
	if err != nil {
		return nil, sandbox.Invalid("see the sidecar's address and the names that were given", "no request can be made: %v", err)
	}
	if r.header != nil {
		q.Header = r.header.Clone()
	}
	if r.stream != nil {
		q.ContentLength = r.size
	}
	if c.token != "" {
		q.Header.Set("Authorization", "Bearer "+c.token)
	}
	answer, err := c.http.Do(q)
	if err != nil {
		if of, ok := errors.AsType[*url.Error](err); ok {
			err = of.Err
		}
		if errors.Is(err, io.EOF) { // no end of anything, as it is where a body is read
			err = io.ErrUnexpectedEOF
		}
		of, ok := errors.AsType[*net.OpError](err)
		return nil, unreachable{error: err, unsent: ok && of.Op == "dial"}
	}
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		defer answer.Body.Close()
		return nil, c.refusal(answer)
	}
	return answer, nil
}

// call sends a request, and decodes the answer into out, unless that is nil. Cancelling
// ctx gives it up.
func (c *Client) call(ctx context.Context, r request, out any) error {
	answer, err := c.do(ctx, r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxLine+1))
	switch {
	case err != nil:
		return unreachable{error: err}
	case len(text) > maxLine:
		return c.garbage("its answer is longer than any that belljar gives")
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return c.garbage(err.Error())
	}
	return nil
}

// tries is how often a request is sent that can be sent again, where a connection breaks or a
// proxy has none. Where there is none at all, that is said at once.
const tries = 4

// get is call for a request that changes nothing the second time.
func (c *Client) get(ctx context.Context, r request, out any) error {
	if r.method == "" {
		r.method = http.MethodGet
	}
	return c.told(ctx, c.again(ctx, r, out))
}

// again is get, with errors that say what kind they are.
func (c *Client) again(ctx context.Context, r request, out any) error {
	pause := time.Duration(0)
	for i := 1; ; i++ {
		err := c.call(ctx, r, out)
		if !isBroken(err) || isUnsent(err) || i == tries || !sleep(ctx, &pause) {
			return err
		}
	}
}

const (
	firstPause = 20 * time.Millisecond // between two tries; each is twice as long as the one before
	lastPause  = 2 * time.Second
)

// sleep waits for a pause, and doubles it; after none comes the first. It is false once
// ctx is done.
func sleep(ctx context.Context, pause *time.Duration) bool {
	timer := time.NewTimer(*pause)
	defer timer.Stop()
	*pause = min(max(*pause*2, firstPause), lastPause)
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// outage is since when the sidecar is out of reach, and how long the next try waits. What
// came before the first failure does not count, however long it took.
type outage struct {
	since time.Time // zero while the sidecar is in reach
	pause time.Duration
}

// wait waits after a failure until the next try. It is false where that would be in vain:
// the sidecar refused, or was out of reach for longer than limit, or ctx is done.
func (o *outage) wait(ctx context.Context, err error, limit time.Duration) bool {
	broken, _ := errors.AsType[unreachable](err)
	if o.since.IsZero() || broken.answered {
		o.since = time.Now()
	}
	return passes(err) && time.Since(o.since) <= limit && sleep(ctx, &o.pause)
}

// passes reports whether an error may be gone the next time: the connection broke, or was
// too slow, or the sidecar is starting or ending, as it says.
func passes(err error) bool {
	of, ok := errors.AsType[*refused](err)
	return isBroken(err) || ok && (of.status == http.StatusServiceUnavailable || of.status == http.StatusRequestTimeout)
}

// isBroken reports whether no answer of the sidecar came: the connection failed, or a proxy's to it.
func isBroken(err error) bool {
	if _, ok := errors.AsType[unreachable](err); ok {
		return true
	}
	of, ok := errors.AsType[*refused](err)
	return ok && of.foreign && slices.Contains([]int{http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}, of.status)
}

// told is err as a *sandbox.Error for people, or ctx's own.
func (c *Client) told(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	if of, ok := errors.AsType[*refused](err); ok {
		return of.err
	}
	broken, ok := errors.AsType[unreachable](err)
	switch {
	case ok && broken.unsent:
		return &sandbox.Error{Cause: sandbox.CauseEngine, Message: "connecting to the sidecar " + c.host, Err: broken.error, Hint: "start it: belljar serve; or check -H and BELLJAR_HOST"}
	case ok:
		return &sandbox.Error{Cause: sandbox.CauseEngineLost, Message: "the connection to the sidecar " + c.host + " broke", Err: broken.error, Hint: "see whether it runs: belljar ps"}
	}
	return err
}

// garbage is an answer that no sidecar gives.
func (c *Client) garbage(what string) error {
	return &sandbox.Error{Cause: sandbox.CauseEngine, Message: "the sidecar " + c.host + " answers what belljar does not understand: " + what, Hint: "check the address, and that both have the same version"}
}

// isUnsent reports whether nothing of a request reached the sidecar.
func isUnsent(err error) bool {
	of, ok := errors.AsType[unreachable](err)
	return ok && of.unsent
}
