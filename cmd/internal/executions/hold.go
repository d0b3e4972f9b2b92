package executions

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"belljar/cmd/internal/problem"
	"belljar/internal/names"
	"belljar/sandbox"
)

// Held is an execution that is checked and approved, and begins when its caller says so.
type Held struct {
	ID    string
	Owner string

	book    *Book
	session string
	input   *Input
	begin   func(ctx context.Context) (*Execution, error) // nil until it is approved
	taken   bool                                          // it began, or is about to
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
	h := &Held{ID: cmp.Or(c.ID, names.NewID()), Owner: r.Owner, book: b, session: c.Session, input: r.Input, started: make(chan *Execution, 1), key: r.Key, cancel: cancel, gone: make(chan struct{})}
	err := b.reserve(ctx, h)
	if err != nil {
		r.Input.Close()
		return nil, err
	}
	x := &Execution{Record: Record{ID: h.ID}, input: r.Input}
	c.ID = h.ID
	c = x.connected(c)
	if r.held, err = b.prepare(asking, c); err != nil {
		h.Close()
		if b.Refused != nil && !errors.Is(err, asking.Err()) {
			b.Refused(c, err)
		}
		return nil, err
	}
	r.resize = x.resize
	if !h.ready(asking, func(ctx context.Context) (*Execution, error) { return b.Start(ctx, c, r) }) {
		h.Close()
		return nil, asking.Err()
	}
	return h, nil
}

// ready lets begin start it, unless another one has taken its place.
func (h *Held) ready(asking context.Context, begin func(ctx context.Context) (*Execution, error)) bool {
	h.book.mu.Lock()
	defer h.book.mu.Unlock()
	if asking.Err() != nil {
		return false
	}
	h.begin = begin
	return true
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
	case old != nil && !old.taken && h.key != "" && old.key == h.key && old.Owner == h.Owner:
		return old, nil
	case old != nil || b.has(h.ID):
		return nil, conflict(Record{ID: h.ID})
	}
	b.held[h.ID] = h
	return nil, nil
}

func (h *Held) isReady() bool {
	h.book.mu.Lock()
	defer h.book.mu.Unlock()
	return h.begin != nil
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
	x, err := h.begin(context.WithoutCancel(ctx))
	b.mu.Lock()
	delete(b.held, id) // it uses its session until the execution does
	close(h.gone)
	b.mu.Unlock()
	h.started <- x // nil where it was refused
	return err
}

// take is the held execution that is to begin, once, or the one that began.
func (b *Book) take(id string, mine func(owner string) bool) (*Held, *Execution) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := b.held[id]
	if h == nil || h.taken || h.begin == nil || !mine(h.Owner) {
		return nil, b.known[id]
	}
	h.taken = true
	return h, nil
}

// Started waits for Start. It is nil where Start failed.
func (h *Held) Started(ctx context.Context) (*Execution, error) {
	select {
	case x := <-h.started:
		return x, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Close forgets it, unless it began.
func (h *Held) Close() {
	h.book.mu.Lock()
	defer h.book.mu.Unlock()
	if h.book.held[h.ID] == h && !h.taken {
		delete(h.book.held, h.ID)
		close(h.gone)
		h.input.Close()
	}
}

// run starts a command, or one that was held.
func (b *Book) run(ctx context.Context, c sandbox.Command, held sandbox.Prepared) (sandbox.Execution, error) {
	if held != nil {
		return held.Start(ctx)
	}
	return b.Runner.Start(ctx, c)
}
