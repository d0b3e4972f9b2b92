package client

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"belljar/internal/names"
	"belljar/sandbox"
)

// state is how far an execution is.
type state string

const (
	stateEnded state = "ended"
	stateHeld  state = "held" // it is prepared, and may never begin
)

// record is an execution as the API describes it.
type record struct {
	sandbox.LogInfo
	State   state           `json:"state"`
	Notices []string        `json:"notices"`
	Result  *sandbox.Result `json:"result"`
}

// waitPart is how long one request waits for an end: less than the minute after which a
// proxy answers in the sidecar's place.
const waitPart = 30 * time.Second

func checkID(id string) error {
	if id == "" || names.CheckID(id) != nil {
		return sandbox.Invalid("see: belljar logs", "there is no command %.80q", id)
	}
	return nil
}

// maxListed is how many executions are listed: the newest.
const maxListed = 1000

// Logs implements sandbox.Logs: of the executions that the caller may see, the oldest first.
func (c *Client) Logs(ctx context.Context) ([]sandbox.LogInfo, error) {
	var all struct {
		Executions []record `json:"executions"`
	}
	query := url.Values{"limit": {strconv.Itoa(maxListed)}}
	if err := c.get(ctx, request{path: "/v1/executions", query: query}, &all); err != nil {
		return nil, err
	}
	list := make([]sandbox.LogInfo, 0, len(all.Executions))
	for _, r := range slices.Backward(all.Executions) {
		if r.State != stateHeld {
			list = append(list, r.info())
		}
	}
	return list, nil
}

// LogInfo implements sandbox.Logs.
func (c *Client) LogInfo(ctx context.Context, id string) (sandbox.LogInfo, error) {
	r, err := c.record(ctx, id, url.Values{"result": {"0"}})
	if err == nil && r.State == stateHeld {
		err = sandbox.Invalid("begin it first", "command %s has not begun", id)
	}
	return r.info(), err
}

func (r record) info() sandbox.LogInfo {
	r.Running = r.ID != "" && r.State != stateEnded
	return r.LogInfo
}

func (c *Client) record(ctx context.Context, id string, query url.Values) (r record, err error) {
	if err = checkID(id); err == nil {
		err = c.get(ctx, request{path: execution(id), query: query}, &r)
	}
	return r, err
}

// ReadLog implements sandbox.Logs.
func (c *Client) ReadLog(ctx context.Context, id string, which sandbox.Stream, offset int64) (sandbox.Reader, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	return c.open(ctx, id, which, offset)
}

// Await waits until a command ended, and returns its result and its notices. An error
// means that nothing is kept of it, or that ctx was canceled.
func (c *Client) Await(ctx context.Context, id string) (sandbox.Result, []string, error) {
	if err := checkID(id); err != nil {
		return sandbox.Result{}, nil, err
	}
	query := url.Values{"wait": {strconv.Itoa(int(waitPart / time.Second))}}
	var gone *outage // nil until there was an answer
	for {
		var r record
		err := c.again(ctx, request{path: execution(id), query: query}, &r)
		switch {
		case err != nil && gone != nil && gone.wait(ctx, err, c.lostAfter):
			continue
		case err != nil:
			return sandbox.Result{}, nil, c.told(ctx, err)
		case r.Result != nil:
			return *r.Result, r.Notices, nil
		case r.State == stateEnded:
			return sandbox.Result{}, nil, c.garbage("an execution that ended without a result")
		}
		gone = &outage{}
	}
}

// End cancels a command or, if signal is not "", sends that to it. It does not wait for the
// end: see Await.
func (c *Client) End(ctx context.Context, id string, signal sandbox.Signal) error {
	if err := checkID(id); err != nil {
		return err
	}
	if signal != "" {
		return c.signal(ctx, id, signal)
	}
	return c.endNow(ctx, id, nil)
}

// Kill ends a command at once, without waiting for anything.
func (c *Client) Kill(ctx context.Context, id string) error {
	if err := checkID(id); err != nil {
		return err
	}
	return c.endNow(ctx, id, killing)
}

// killing is the query of a request to cancel that is forceful.
var killing = url.Values{"kill": {"1"}}

func (c *Client) endNow(ctx context.Context, id string, query url.Values) error {
	var r record
	err := c.get(ctx, request{method: http.MethodDelete, path: execution(id), query: query}, &r)
	if err == nil && r.State == stateEnded {
		return sandbox.Invalid("see how it ended: belljar wait "+id, "command %s has ended", id)
	}
	return err
}
