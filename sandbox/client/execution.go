package client

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"belljar/internal/names"
	"belljar/sandbox"
)

// running is a command that the sidecar runs.
type running struct {
	client  *Client
	command sandbox.Command
	id      string
	events  chan sandbox.Event
	live    context.Context // of what is asked about the command, until its result
	result  sandbox.Result  // with err, complete once events is closed
	err     error

	mu      sync.Mutex
	over    bool // nothing more is asked
	asking  sync.WaitGroup
	giveUp  context.CancelCauseFunc // what is asked, and the events
	unsaid  error                   // why stdin has no end, where the sidecar does not know
	killed  sync.Once
	touches atomic.Bool // one is under way
}

// newExecution follows a command's events in goroutines that end with them.
func newExecution(ctx context.Context, c *Client, command sandbox.Command, s *stream) *running {
	x := &running{client: c, command: command, id: s.id, events: make(chan sandbox.Event)}
	x.live, x.giveUp = context.WithCancelCause(context.WithoutCancel(ctx))
	canceled := context.AfterFunc(ctx, x.cancel)
	stdin := x.sendStdin()
	x.sendSizes()
	go func() {
		defer close(x.events)
		last := x.follow(s)
		canceled()
		x.mu.Lock()
		x.over = true
		x.mu.Unlock()
		x.giveUp(nil)
		x.asking.Wait()
		stdin.stop()
		if x.unsaid != nil && last.Result.Cause == sandbox.CauseCanceled {
			last.Result.Message = x.unsaid.Error()
		}
		x.result = *last.Result
		if x.result.Error != nil {
			x.err = x.result.Error
		}
		x.events <- last
	}()
	return x
}

// follow passes events on, and returns the last, which has the result.
func (x *running) follow(s *stream) sandbox.Event {
	defer s.close()
	defer context.AfterFunc(x.live, s.end)()
	for {
		e, err := s.next(x.live)
		if err == nil && e.Type == sandbox.EventResult && e.Result == nil {
			err = s.lost(x.client.garbage("a result event without a result"))
		}
		if err != nil {
			of := x.command
			of.ID = x.id
			lost := sandbox.Refused(of, err)
			e = sandbox.Event{Type: sandbox.EventResult, Seq: s.last + 1, Time: time.Now(), Result: &lost}
		}
		switch {
		case e.Result != nil:
			e.Result.Command = x.command.Script // as it was: JSON is text
			return e
		case e.Start != nil:
			e.Start.Command = x.command.Script
		}
		x.events <- e
	}
}

// ID implements sandbox.Execution.
func (x *running) ID() string { return x.id }

// Events implements sandbox.Execution.
func (x *running) Events() <-chan sandbox.Event { return x.events }

// Wait implements sandbox.Execution.
func (x *running) Wait() (sandbox.Result, error) {
	for range x.events {
	}
	return x.result, x.err
}

// ask does something about the command in the background, until its result.
func (x *running) ask(do func(ctx context.Context)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.over {
		x.asking.Go(func() { do(x.live) })
	}
}

// send asks for a change that is the same where it is made twice. How long the sidecar may be
// out of reach, the events say: a change may wait for the command, and its connection break
// each time.
func (x *running) send(ctx context.Context, r request) error {
	for pause := time.Duration(0); ; {
		err := x.client.call(ctx, r, nil)
		if !passes(err) || !sleep(ctx, &pause) {
			return err
		}
	}
}

func (x *running) cancel() {
	x.ask(func(ctx context.Context) { x.send(ctx, request{method: http.MethodDelete, path: execution(x.id)}) })
}

// Kill implements sandbox.Execution.
func (x *running) Kill() {
	x.killed.Do(func() {
		x.ask(func(ctx context.Context) {
			x.send(ctx, request{method: http.MethodDelete, path: execution(x.id), query: killing})
		})
	})
}

// Touch implements sandbox.Execution. One at a time is enough.
func (x *running) Touch() {
	if x.touches.Swap(true) {
		return
	}
	x.ask(func(ctx context.Context) {
		defer x.touches.Store(false)
		x.client.call(ctx, request{method: http.MethodPost, path: execution(x.id) + "/touch"}, nil)
	})
}

// Signal implements sandbox.Execution.
func (x *running) Signal(ctx context.Context, signal sandbox.Signal) error {
	return x.client.signal(ctx, x.id, signal)
}

// signal is sent once: a second one would be another signal.
func (c *Client) signal(ctx context.Context, id string, signal sandbox.Signal) error {
	if err := names.CheckSignal(signal); err != nil {
		return err
	}
	return c.told(ctx, c.call(ctx, post(execution(id)+"/signal", map[string]sandbox.Signal{"signal": signal}), nil))
}

// Read implements sandbox.Execution.
func (x *running) Read(ctx context.Context, which sandbox.Stream, offset int64) (sandbox.Reader, error) {
	return x.client.open(ctx, x.id, which, offset)
}

// sendSizes sends the terminal's sizes.
func (x *running) sendSizes() {
	if x.command.TTY == nil || x.command.Resize == nil {
		return
	}
	x.ask(func(ctx context.Context) {
		for {
			select {
			case size, more := <-x.command.Resize:
				if !more {
					return
				}
				x.send(ctx, post(execution(x.id)+"/resize", sizeOf(size)))
			case <-ctx.Done():
				return
			}
		}
	})
}

// post sends a value as JSON.
func post(path string, value any) request {
	text, _ := json.Marshal(value) // of plain values
	return request{method: http.MethodPost, path: path, header: http.Header{"Content-Type": {"application/json"}}, body: text}
}
