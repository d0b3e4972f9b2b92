package httpapi

import (
	"context"
	"io"
	"sync"
	"time"

	"belljar/cmd/internal/access"
	"belljar/cmd/internal/problem"

	"github.com/danielgtaylor/huma/v2"
)

const (
	// smallBody is what a body may have in any case.
	smallBody = 1 << 20

	// turnWait is how long a larger one waits for its turn.
	turnWait = 10 * time.Second

	// maxTurns is how many are read at a time: one of each caller.
	maxTurns = 2
)

// turns are those of large bodies: while one is read and parsed, it has several times its
// size in memory, and a caller may send as many as it has requests.
type turns struct {
	all chan struct{}

	mu   sync.Mutex
	each map[string]chan struct{} // by caller
}

func newTurns() *turns {
	return &turns{all: make(chan struct{}, maxTurns), each: map[string]chan struct{}{}}
}

func (t *turns) of(caller string) chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.each[caller] == nil {
		t.each[caller] = make(chan struct{}, 1)
	}
	return t.each[caller]
}

// take waits for a turn, up to turnWait. end is nil if there was none.
func (t *turns) take(ctx context.Context, caller string) (end func()) {
	ctx, cancel := context.WithTimeout(ctx, turnWait)
	defer cancel()
	own := t.of(caller)
	select {
	case own <- struct{}{}:
	case <-ctx.Done():
		return nil
	}
	select {
	case t.all <- struct{}{}:
		return sync.OnceFunc(func() { <-t.all; <-own })
	case <-ctx.Done():
		<-own
		return nil
	}
}

// largeBody is a request's body that takes a turn once it is not small any more: who
// sends little, however slowly, takes none.
type largeBody struct {
	humaContext
	ctx  context.Context
	in   io.Reader
	read int
	take func() (end func())
	end  func()
}

type turnKey struct{}

// wrap is a middleware. A handler that has what it needs of the body calls endTurn.
func (t *turns) wrap(c huma.Context, next func(huma.Context)) {
	if c.Operation().MaxBodyBytes <= smallBody {
		next(c)
		return
	}
	b := &largeBody{humaContext: c, in: c.BodyReader(), end: func() {}}
	b.take = func() func() { return t.take(c.Context(), access.FromContext(c.Context()).Name) }
	b.ctx = context.WithValue(c.Context(), turnKey{}, func() { b.end() })
	defer func() { b.end() }()
	next(b)
}

func (b *largeBody) Unwrap() huma.Context     { return b.humaContext }
func (b *largeBody) Context() context.Context { return b.ctx }
func (b *largeBody) BodyReader() io.Reader    { return b }

func (b *largeBody) Read(p []byte) (int, error) {
	n, err := b.in.Read(p)
	small := b.read <= smallBody
	if b.read += n; small && b.read > smallBody {
		end := b.take()
		if end == nil {
			return n, problem.New(problem.Unavailable, "too many large requests at the same time", "send it again, or send files through the session's files")
		}
		b.end = end
	}
	return n, err
}

// endTurn lets the next large body in.
func endTurn(ctx context.Context) {
	if end, ok := ctx.Value(turnKey{}).(func()); ok {
		end()
	}
}
