package executions

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"

	"belljar/cmd/internal/problem"
	"belljar/sandbox"
)

// Held is an execution that is checked and approved, and begins when its caller says so.
type Held struct {
	ID    string
	Owner string

	book    *Book
	x       *Execution
	command sandbox.Command
	ready   sandbox.Prepared // nil until it is approved
	request Request
	taken   bool // it began, or is about to
	started chan *Execution

	key    string
	cancel context.CancelFunc // gives up its approval
	gone   chan struct{}      // closed once it is held no longer
}

// Hold checks a command, and has it approved where the policy asks. It is held until Start,
// or until its caller calls Close.
func (b *Book) Hold(ctx context.Context, c sandbox.Command, r Request) (*Held, error) {
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	chosen := c.ID
	c.ID = cmp.Or(c.ID, b.ChooseID())
	x := b.newExecution(c, r)
	if err := b.checkID(chosen); err != nil {
		x.refuse(c, err)
		return nil, err
	}
	h := &Held{ID: x.ID, Owner: x.Owner, book: b, x: x, request: r, started: make(chan *Execution, 1), key: r.Key, cancel: cancel, gone: make(chan struct{})}
	h.command = x.connected(c)
	if err := b.reserve(ctx, h); err != nil {
		x.refuse(c, err)
		return nil, err
	}
	defer context.AfterFunc(x.ctx, cancel)()
	ready, err := b.prepare(asking, h.command)
	if err != nil {
		h.close(err)
		if b.Refused != nil && !errors.Is(err, asking.Err()) {
			b.Refused(c, err)
		}
		return nil, err
	}
	if !h.approved(asking, ready) {
		h.Close()
		return nil, asking.Err()
	}
	return h, nil
}

// approved lets it start, unless another one has taken its place.
func (h *Held) approved(asking context.Context, ready sandbox.Prepared) bool {
	h.book.mu.Lock()
	defer h.book.mu.Unlock()
	if asking.Err() != nil {
		return false
	}
	h.ready = ready
	h.x.state.Store(Holding)
	return true
}

// execution is what a held one begins; nil without one.
func (h *Held) execution() (*Execution, sandbox.Prepared) {
	if h == nil {
		return nil, nil
	}
	return h.x, h.ready
}

// reserve takes the ID before anyone is asked about it: an answer is for one command. A request
// that is repeated takes the place of the earlier one, whose connection broke.
func (b *Book) reserve(ctx context.Context, h *Held) error {
	for {
		old, err := b.tryReserve(h)
		if old == nil {
			return err
		}
		old.cancel()
		if old.isReady() {
			old.Close()
		}
		select {
		case <-old.gone:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tryReserve returns the one that h repeats, if there is one.
func (b *Book) tryReserve(h *Held) (old *Held, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	old = b.held[h.ID]
	switch {
	case b.draining:
		return nil, errDraining
	case old != nil && !old.taken && h.key != "" && old.key == h.key && old.Owner == h.Owner && bytes.Equal(old.request.Body, h.request.Body):
		return old, nil
	case old != nil || b.has(h.ID):
		return nil, conflict(Record{ID: h.ID})
	case h.key != "" && b.holdsAnother(h.x.Record):
		return nil, conflict(h.x.Record)
	}
	b.held[h.ID] = h
	return nil, nil
}

// heldAs is what is held for a request with that owner and key; nil for none. b.mu is held.
func (b *Book) heldAs(of [2]string) *Held {
	for _, h := range b.held {
		if h.key != "" && of == [2]string{h.Owner, h.key} {
			return h
		}
	}
	return nil
}

// holdsAnother reports whether another request with its key is held. b.mu is held.
func (b *Book) holdsAnother(r Record) bool {
	h := b.heldAs([2]string{r.Owner, r.Key})
	return h != nil && h.x.Request != r.Request
}

func (h *Held) isReady() bool {
	h.book.mu.Lock()
	defer h.book.mu.Unlock()
	return h.ready != nil
}

func (b *Book) prepare(ctx context.Context, c sandbox.Command) (sandbox.Prepared, error) {
	preparer, ok := b.Runner.(sandbox.Preparer)
	if !ok {
		return nil, sandbox.Invalid("leave out hold", "this server cannot hold executions")
	}
	return preparer.Prepare(ctx, c)
}

// StartHeld begins a held execution. One that began already is the same.
func (b *Book) StartHeld(ctx context.Context, id string, mine func(owner string) bool) error {
	h, x := b.take(id, mine)
	switch {
	case x != nil && mine(x.Owner):
		return nil
	case h == nil:
		return problem.New(problem.NotFound, fmt.Sprintf("no execution %.80q is held", id), "ask for it again: POST /v1/executions")
	}
	r := h.request
	r.held = h
	x, err := b.Start(context.WithoutCancel(ctx), h.command, r)
	h.started <- x // nil where it was refused
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.held, id) // it uses its session until the execution does
	close(h.gone)
	return err
}

// take is the held execution that is to begin, once, or the one that began.
func (b *Book) take(id string, mine func(owner string) bool) (*Held, *Execution) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := b.held[id]
	if h == nil || h.taken || h.ready == nil || !mine(h.Owner) {
		return nil, b.known[id]
	}
	h.taken = true
	h.x.state.Store(Queued)
	return h, nil
}

// Started waits for Start. It is nil where Start failed, the execution was canceled or the caller left
// before. One that began is returned also to a caller that left: its end may be to cancel it.
func (h *Held) Started(ctx context.Context) *Execution {
	select {
	case x := <-h.started:
		return x
	case <-ctx.Done():
	case <-h.x.ending:
	}
	h.Close()
	<-h.gone
	select {
	case x := <-h.started: // it began first
		return x
	default:
		return nil
	}
}

// Close forgets it, unless it began.
func (h *Held) Close() {
	h.close(&sandbox.Error{Cause: sandbox.CauseCanceled, Message: "canceled before the command started"})
}

func (h *Held) close(why error) {
	h.book.mu.Lock()
	defer h.book.mu.Unlock()
	if h.book.held[h.ID] == h && !h.taken {
		delete(h.book.held, h.ID)
		close(h.gone)
		h.x.refuse(h.command, why)
	}
}

// run starts a command, or one that was held.
func (b *Book) run(ctx context.Context, c sandbox.Command, held sandbox.Prepared) (sandbox.Execution, error) {
	if held != nil {
		return held.Start(ctx)
	}
	return b.Runner.Start(ctx, c)
}
