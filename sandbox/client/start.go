package client

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"net/url"
	"path"
	"time"

	"belljar/internal/names"
	"belljar/sandbox"
)

var errCanceled = &sandbox.Error{Cause: sandbox.CauseCanceled, Message: "canceled before the command started"}

// Start implements sandbox.Runner.
func (c *Client) Start(ctx context.Context, command sandbox.Command) (sandbox.Execution, error) {
	s, err := c.begin(ctx, command, nil)
	if err != nil {
		return nil, err
	}
	return newExecution(ctx, c, command, s), nil
}

// Prepare implements sandbox.Preparer: the sidecar holds the command, checked and
// approved, for as long as the connection lasts.
func (c *Client) Prepare(ctx context.Context, command sandbox.Command) (sandbox.Prepared, error) {
	s, err := c.begin(ctx, command, url.Values{"hold": {"1"}})
	if err != nil {
		return nil, err
	}
	p := &prepared{client: c, command: command, stream: s}
	p.forget = context.AfterFunc(ctx, s.close)
	return p, nil
}

// prepared is a command that the sidecar holds.
type prepared struct {
	client  *Client
	command sandbox.Command
	stream  *stream
	forget  func() bool
}

// Start implements sandbox.Prepared.
func (p *prepared) Start(ctx context.Context) (sandbox.Execution, error) {
	if !p.forget() {
		return nil, errCanceled
	}
	if ctx.Err() != nil {
		p.stream.close()
		return nil, errCanceled
	}
	err := p.client.again(ctx, request{method: http.MethodPost, path: execution(p.stream.id) + "/start"}, nil)
	if err == nil {
		return newExecution(ctx, p.client, p.command, p.stream), nil
	}
	p.stream.close()
	if of, ok := errors.AsType[*refused](err); ok && of.status == http.StatusNotFound { // the connection broke meanwhile
		return p.client.Start(ctx, p.command)
	}
	p.client.abandon(ctx, p.stream.id)
	if ctx.Err() != nil {
		return nil, errCanceled
	}
	return nil, p.client.told(ctx, err)
}

// begin has the sidecar accept a command, and is its events. A connection that breaks
// meanwhile is no end: the command has a key, with which it is accepted once.
func (c *Client) begin(ctx context.Context, command sandbox.Command, query url.Values) (*stream, error) {
	command.ID = orNew(command.ID)
	r, err := c.submission(ctx, command, query)
	if err != nil {
		return nil, err
	}
	live, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel) // until it is accepted
	var in *lines
	err = c.accepted(ctx, func() (err error) { in, err = c.lines(live, r); return err })
	if !stop() {
		if err == nil {
			in.close()
		}
		err = errCanceled
	}
	if err != nil {
		cancel()
		if ctx.Err() != nil {
			c.abandon(ctx, command.ID)
			err = errCanceled
		}
		return nil, c.told(context.WithoutCancel(ctx), err)
	}
	return &stream{client: c, id: acceptedID(in.location, command.ID), in: in, end: cancel}, nil
}

// Detach has a command run without its caller: see LogInfo, Await and End.
func (c *Client) Detach(ctx context.Context, command sandbox.Command) (id string, err error) {
	command.ID = orNew(command.ID)
	r, err := c.submission(ctx, command, url.Values{"wait": {"0"}})
	if err != nil {
		return "", err
	}
	if err = c.accepted(ctx, func() error { return c.call(ctx, r, nil) }); err != nil {
		if ctx.Err() != nil {
			c.abandon(ctx, command.ID)
			return "", errCanceled
		}
		return "", c.told(ctx, err)
	}
	return command.ID, nil
}

func orNew(id string) string {
	if id == "" {
		return names.NewID()
	}
	return id
}

// submission is the request that runs a command.
func (c *Client) submission(ctx context.Context, command sandbox.Command, query url.Values) (request, error) {
	if ctx.Err() != nil {
		return request{}, errCanceled
	}
	text, err := encode(command)
	if err != nil {
		return request{}, err
	}
	header := http.Header{"Accept": {acceptEvents}, "Content-Type": {"application/json"}, "Idempotency-Key": {rand.Text()}}
	return request{method: http.MethodPost, path: "/v1/executions", query: query, header: header, body: text}, nil
}

// accepted calls try until the sidecar accepts or refuses. If there is no sidecar at all,
// that is the answer.
func (c *Client) accepted(ctx context.Context, try func() error) error {
	err := try()
	if isUnsent(err) {
		return err
	}
	for gone := (outage{}); err != nil && gone.wait(ctx, err, c.lostAfter); {
		err = try()
	}
	return err
}

// abandonTime is how long the caller who canceled waits for the sidecar.
const abandonTime = 3 * time.Second

// abandon cancels a command that the sidecar may have accepted, or is about to.
func (c *Client) abandon(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonTime)
	defer cancel()
	for pause := firstPause; pause < 8*firstPause; {
		if err := c.call(ctx, request{method: http.MethodDelete, path: execution(id)}, nil); err == nil || !sleep(ctx, &pause) {
			return
		}
	}
}

// execution is a command's path in the API.
func execution(id string) string { return "/v1/executions/" + url.PathEscape(id) }

// acceptedID is the name that the sidecar gave the command.
func acceptedID(location, chosen string) string {
	if id := path.Base(location); names.CheckID(id) == nil && id != "" && id != "." {
		return id
	}
	return chosen
}
