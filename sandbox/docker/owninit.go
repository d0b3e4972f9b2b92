package docker

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"belljar/sandbox"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
)

// ownInit is a container's init of ours, as one handle of the container uses it.
type ownInit struct {
	hostname string
	env      []string // the container's own variables
	link     atomic.Pointer[link]

	following sync.WaitGroup // those who wait for its processes' ends

	attaching sync.Mutex // held while link changes
}

// know takes from the engine's description what commands need.
func (i *ownInit) know(about container.InspectResponse) {
	i.hostname, i.env = about.Config.Hostname, about.Config.Env
}

// startInit attaches to the init before it starts it, which so never runs without us.
func (b *box) startInit(ctx context.Context) error {
	e := b.engine
	l, err := e.attachInit(ctx, b.id)
	if err != nil {
		return noAnswer(err)
	}
	if !e.endsWithUs(b.spec) {
		lock, err := e.lockAttach(b.id)
		if err != nil {
			l.Close()
			return noAnswer(err)
		}
		l.Yield = lock.release
	}
	if err := b.run(ctx); err != nil {
		l.Close()
		return err
	}
	if err := greet(ctx, l); err != nil {
		if ctx.Err() != nil {
			return noAnswer(err)
		}
		return e.unlessProven(b.spec.Runtime, noAnswer(err))
	}
	e.links.Add(b.id, l)
	if !e.endsWithUs(b.spec) {
		if err := l.Stay(ctx); err != nil {
			l.Release()
			return noAnswer(err)
		}
	}
	if b.spec.Session != "" && e.endsWithUs(b.spec) {
		l.AddUser() // the engine: it ends with its connection
	}
	b.init.link.Store(l)
	e.proveInit(b.spec.Runtime)
	return nil
}

// adoptInit attaches to the init of a session's container. While another process is, this
// handle starts commands by the engine, if that may. One that does not answer is asked again for each.
func (b *box) adoptInit(ctx context.Context, about container.InspectResponse) {
	b.init = &ownInit{}
	b.init.know(about)
	l, err := b.attached(ctx)
	switch {
	case err == nil:
		l.Release()
	case errors.Is(err, errAttached) && !b.byInitOnly():
		b.init = nil
	}
}

// attached is the link to the container's init, for one more user. It is nil where there
// is a keeper. The engine starts nothing in place of an init that does not answer any
// more: it would show what it starts to all who ask.
func (b *box) attached(ctx context.Context) (*link, error) {
	i := b.init
	if i == nil {
		return nil, nil
	}
	i.attaching.Lock()
	defer i.attaching.Unlock()
	l := i.link.Load()
	if l != nil && !l.Broken() {
		l.AddUser()
		return l, nil
	}
	if b.spec.Session == "" || b.ending.Load() {
		return nil, endedError()
	}
	if l != nil && l.Yield != nil {
		l.Yield() // it is broken for all who use it
	}
	fresh := b.engine.links.Use(b.id)
	if fresh == nil {
		var err error
		if fresh, err = b.attachAgain(ctx); err != nil {
			return nil, err
		}
	}
	if i.link.Store(fresh); l != nil {
		l.Release()
	}
	fresh.AddUser()
	return fresh, nil
}

// attachAgain attaches to an init that runs, as its one client.
func (b *box) attachAgain(ctx context.Context) (*link, error) {
	e := b.engine
	lock, err := e.lockAttach(b.id)
	if err != nil {
		return nil, noAnswer(err)
	}
	l, err := e.attachInit(ctx, b.id)
	if err != nil {
		lock.release()
		if errdefs.IsNotFound(err) || errdefs.IsConflict(err) {
			return nil, endedError()
		}
		return nil, noAnswer(err)
	}
	l.Yield = lock.release
	if err := greet(ctx, l); err != nil {
		return nil, noAnswer(err)
	}
	e.links.Add(b.id, l)
	return l, nil
}

// detach is the handle's end. What it started may go on using the link.
func (b *box) detach() {
	if b.init == nil {
		return
	}
	b.init.attaching.Lock()
	defer b.init.attaching.Unlock()
	if l := b.init.link.Swap(nil); l != nil {
		l.Release()
	}
}

// Answers reports whether the container's init answers. With a keeper it is false.
func (b *box) Answers(ctx context.Context) bool {
	l, err := b.attached(ctx)
	if l == nil || err != nil {
		return false
	}
	defer l.Release()
	return l.Answers(ctx)
}

func endedError() error {
	return engineError(nil, "the container ended before the command started").As(sandbox.CauseEngineLost).Hint("another program may have removed it: run the command again")
}
