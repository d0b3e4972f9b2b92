package boxlink

import (
	"context"
	"syscall"

	"belljar/internal/boxinit/wire"
)

// call is a request that is answered once.
type call struct {
	id       uint32
	answered chan struct{}
	errno    syscall.Errno
	records  [][]string
	size     int
}

// do asks for something that is done, or fails with an errno.
func (l *Link) do(ctx context.Context, kind wire.Kind, body []byte) error {
	_, err := l.ask(ctx, func(id uint32) error { return l.send(ctx, kind, id, body) })
	return err
}

func (l *Link) ask(ctx context.Context, send func(id uint32) error) (*call, error) {
	l.mu.Lock()
	c := l.newCall()
	l.mu.Unlock()
	if err := send(c.id); err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.calls, c.id)
		return nil, err
	}
	return l.await(ctx, c)
}

// newCall is a request that is about to be sent. The link is locked.
func (l *Link) newCall() *call {
	l.last++
	c := &call{id: l.last, answered: make(chan struct{})}
	l.calls[c.id] = c
	return c
}

// await waits for the answer.
func (l *Link) await(ctx context.Context, c *call) (*call, error) {
	select {
	case <-c.answered:
	case <-l.done:
		select {
		case <-c.answered: // the last that was heard
		default:
			return nil, l.Err()
		}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if c.errno != 0 {
		return nil, c.errno
	}
	return c, nil
}
