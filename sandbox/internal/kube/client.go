package kube

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
	"strconv"
	"sync/atomic"
	"time"
)

// Client talks to an API server. It is safe for concurrent use.
type Client struct {
	access *Access
	base   *url.URL
	conns  connecting
	offset atomic.Int64 // of the server's clock to ours, in nanoseconds
}

const (
	dialTimeout = 10 * time.Second
	// lively is how often a silent connection is asked whether the other side is there.
	lively = 15 * time.Second
	// maxAnswer bounds an answer.
	maxAnswer = 64 << 20
)

// New is a client. It connects with the first request.
func New(a *Access) (*Client, error) { return open(a, lively) }

func open(a *Access, lively time.Duration) (*Client, error) {
	base, err := url.Parse(a.Server)
	if err != nil || base.Host == "" {
		return nil, fmt.Errorf("%q is not the URL of an API server", a.Server)
	}
	c := &Client{access: a, base: base, conns: connecting{access: a, lively: lively}}
	if c.conns.last, err = c.conns.with(keys{a.CA, a.cert, a.key}); err != nil {
		return nil, err
	}
	return c, nil
}

// Access is what the client was made of.
func (c *Client) Access() *Access { return c.access }

// Close closes idle connections, and ends the program that logs in.
func (c *Client) Close() {
	if c.access.plugin != nil {
		c.access.plugin.close()
	}
	c.conns.now().closeIdle()
}

// Now is the API server's clock, as its answers have it, by a second or so.
func (c *Client) Now() time.Time { return time.Now().Add(time.Duration(c.offset.Load())) }

// StatusError is a request that the API server refused.
type StatusError struct {
	Code       int    // of HTTP
	Reason     string // such as AlreadyExists, one of Kubernetes' words
	Message    string
	RetryAfter time.Duration
}

// Error implements error.
func (e *StatusError) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("the API server answers %d %s", e.Code, http.StatusText(e.Code))
	}
	return e.Message
}

// CodeOf is the code of a refusal, 0 for any other error.
func CodeOf(err error) int {
	var refused *StatusError
	if errors.As(err, &refused) {
		return refused.Code
	}
	return 0
}

// Get reads an object.
func (c *Client) Get(ctx context.Context, path string, query url.Values, into any) error {
	return c.do(ctx, http.MethodGet, path, query, nil, into)
}

// Create makes an object, of which the API server knows all fields.
func (c *Client) Create(ctx context.Context, path string, object, into any) error {
	return c.do(ctx, http.MethodPost, path, url.Values{"fieldValidation": {"Strict"}}, object, into)
}

// Try says whether Create would be allowed, without making anything.
func (c *Client) Try(ctx context.Context, path string, object any) error {
	return c.do(ctx, http.MethodPost, path, url.Values{"fieldValidation": {"Strict"}, "dryRun": {"All"}}, object, nil)
}

// Update replaces an object, if it has the same resourceVersion still.
func (c *Client) Update(ctx context.Context, path string, object, into any) error {
	return c.do(ctx, http.MethodPut, path, url.Values{"fieldValidation": {"Strict"}}, object, into)
}

// Delete deletes the object there, if it has that UID and resourceVersion; each "" is any. With grace 0 the API server forgets a pod
// at once, and with more once the kubelet has seen its end.
func (c *Client) Delete(ctx context.Context, path string, is Meta, grace int) error {
	options := map[string]any{"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": grace, "propagationPolicy": "Background"}
	if is.UID != "" || is.ResourceVersion != "" {
		options["preconditions"] = Meta{UID: is.UID, ResourceVersion: is.ResourceVersion}
	}
	return c.do(ctx, http.MethodDelete, path, nil, options, nil)
}

func (c *Client) do(ctx context.Context, method, path string, query url.Values, body, into any) error {
	answer, err := c.request(ctx, method, path, query, body)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil || into == nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// request sends a request, and reads the answer if it is a refusal.
func (c *Client) request(ctx context.Context, method, path string, query url.Values, body any) (*http.Response, error) {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, c.url(path, query), bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if err := c.authorize(ctx, request.Header); err != nil {
		return nil, err
	}
	answer, err := c.conns.now().http.Do(request)
	if err != nil {
		return nil, err
	}
	c.setClock(answer.Header)
	if answer.StatusCode >= 300 {
		defer answer.Body.Close()
		return nil, c.refusal(answer)
	}
	return answer, nil
}

func (c *Client) url(path string, query url.Values) string {
	u := *c.base
	u.Path += path
	u.RawQuery = query.Encode()
	return u.String()
}

func (c *Client) authorize(ctx context.Context, h http.Header) error {
	token := c.access.token
	if c.access.plugin != nil {
		token = c.access.plugin.token
	}
	if token == nil {
		return nil
	}
	text, err := token(ctx)
	if err != nil {
		return err
	}
	h.Set("Authorization", "Bearer "+text)
	return nil
}

func (c *Client) setClock(h http.Header) {
	if at, err := http.ParseTime(h.Get("Date")); err == nil {
		c.offset.Store(int64(time.Until(at)))
	}
}

// statusError is what a Status says, and that it has a code.
func statusError(code int, text []byte) *StatusError {
	var status struct {
		Message, Reason string
		Code            int
		Details         struct{ RetryAfterSeconds int }
	}
	if json.Unmarshal(text, &status) != nil {
		return &StatusError{Code: code}
	}
	return &StatusError{Code: cmp.Or(code, status.Code), Message: status.Message, Reason: status.Reason, RetryAfter: time.Duration(status.Details.RetryAfterSeconds) * time.Second}
}

// maxRefusal bounds what is read of a refusal.
const maxRefusal = 64 << 10

func (c *Client) refusal(answer *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxRefusal))
	refused := statusError(answer.StatusCode, text)
	if after, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil {
		refused.RetryAfter = time.Duration(after) * time.Second
	}
	if answer.StatusCode == http.StatusUnauthorized && c.access.plugin != nil {
		c.access.plugin.forget()
	}
	return refused
}
