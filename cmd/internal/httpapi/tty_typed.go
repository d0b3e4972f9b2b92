package httpapi

import (
	"context"
	"errors"
	"time"

	"github.com/coder/websocket"
)

// maxTyped is how many of a client's messages wait for a command that does not read stdin.
// While there are that many no more are read, so that a client cannot fill the memory.
const maxTyped = 16

// typed is a message of the client.
type typed struct {
	kind websocket.MessageType
	data []byte
}

// receive reads the client's messages. A client that leaves is noticed also while the command
// does not read what it sent before; what the command then reads of that, it still gets.
func (t *terminal) receive(ctx context.Context) error {
	for {
		kind, data, err := t.conn.Read(ctx)
		if errors.Is(err, websocket.ErrMessageTooBig) {
			t.conn.Close(websocket.StatusMessageTooBig, "a message has at most 64 KiB")
		}
		if err != nil {
			t.leave()
			close(t.typed)
			<-t.done
			return err
		}
		t.busy.Add(1)
		select {
		case t.typed <- typed{kind, data}:
		case <-t.done:
		}
		t.seen.Store(time.Now().UnixNano())
		t.busy.Add(-1)
	}
}

// take does what the messages say.
func (t *terminal) take(ctx context.Context) error {
	defer close(t.done)
	for {
		select {
		case m, more := <-t.typed:
			if !more {
				return nil
			}
			if err := t.obey(ctx, m); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (t *terminal) obey(ctx context.Context, m typed) (err error) {
	if m.kind == websocket.MessageBinary {
		err = t.stdin(ctx, m.data, false)
	} else {
		err = t.control(ctx, m.data)
	}
	if wrong := (*wrongMessage)(nil); errors.As(err, &wrong) {
		t.conn.Close(websocket.StatusPolicyViolation, wrong.reason)
		return err
	}
	return t.refuse(ctx, err)
}
