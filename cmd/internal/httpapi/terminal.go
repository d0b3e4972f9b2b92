package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"belljar/cmd/internal/executions"
	"belljar/cmd/internal/problem"
	"belljar/cmd/internal/strictjson"
	"belljar/internal/names"
	"belljar/sandbox"

	"github.com/coder/websocket"
	"golang.org/x/sync/errgroup"
)

const (
	// maxMessage is the most bytes of a client's message.
	maxMessage = 64 << 10

	// maxFrame is the most bytes that one write sends, which has stallTime.
	maxFrame = 32 << 10

	// silence is how long a client may give no sign of life. It is asked for one at
	// every heartbeat.
	silence = 4 * stallTime
)

var (
	errOutput = errors.New("reading what the terminal shows")
	errSilent = errors.New("the client is silent")
	errShown  = errors.New("all is shown")
)

// terminal is one client's WebSocket to an execution's terminal.
type terminal struct {
	x      *executions.Execution
	conn   *websocket.Conn
	offset int64          // of the next output
	after  uint64         // the number of the last notice
	result *sandbox.Event // the execution's last

	typed   chan typed    // for the command
	done    chan struct{} // closed once no more of that is taken
	leave   func()        // the client is gone
	writing chan struct{} // has one while a message is written
	busy    atomic.Int32  // writes to the client, and messages of its for which there is no room
	seen    atomic.Int64  // when the client gave the last sign of life, in nanoseconds
}

// serve shows output and takes what is typed until the execution has ended or the client
// is gone. Cancelling ctx cuts the connection.
func (t *terminal) serve(ctx context.Context) error {
	t.seen.Store(time.Now().UnixNano())
	t.writing, t.typed, t.done = make(chan struct{}, 1), make(chan typed, maxTyped), make(chan struct{})
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return t.receive(ctx) })
	all.Go(func() error { return t.take(ctx) })
	all.Go(func() error { return t.watch(ctx) })
	all.Go(func() error { return t.show(ctx) })
	return all.Wait()
}

// show sends all there is to see, and then the result.
func (t *terminal) show(ctx context.Context) error {
	both, shown := errgroup.WithContext(ctx)
	both.Go(func() error { return t.output(shown) })
	both.Go(func() error { return t.notices(shown) })
	err := both.Wait()
	if err == nil && t.result != nil {
		err = t.sendEvent(ctx, *t.result)
	}
	switch {
	case errors.Is(err, errOutput) && ctx.Err() == nil:
		t.conn.Close(websocket.StatusInternalError, "the output cannot be read")
	case err == nil:
		t.conn.Close(websocket.StatusNormalClosure, "")
		err = errShown
	}
	return err
}

// output sends what the command writes.
func (t *terminal) output(ctx context.Context) error {
	r, err := t.x.Read(ctx, sandbox.Stdout, t.offset)
	if err != nil {
		return fmt.Errorf("%w: %w", errOutput, err)
	}
	defer r.Close()
	for {
		c, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: %w", errOutput, err)
		}
		if c.Missed > 0 {
			if err := t.notice(ctx, fmt.Sprintf("%d bytes of output are no longer kept", c.Missed), c.Missed); err != nil {
				return err
			}
		}
		for part := range slices.Chunk(c.Data, maxFrame) {
			if err := t.send(ctx, websocket.MessageBinary, func(w io.Writer) error { _, err := w.Write(part); return err }); err != nil {
				return err
			}
		}
	}
}

// notices sends the events that are for people, and keeps the result.
func (t *terminal) notices(ctx context.Context) error {
	f := t.x.Follow(t.after, false)
	defer f.Close()
	for {
		e, err := f.Next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return nil // the client has the result
		case err != nil:
			return fmt.Errorf("%w: %w", errOutput, err)
		case e.Type == sandbox.EventResult:
			t.result = &e
			return nil
		case e.Type == sandbox.EventNotice:
			if err := t.sendEvent(ctx, e); err != nil {
				return err
			}
		}
	}
}

// notice is one for this client only: it has no number.
func (t *terminal) notice(ctx context.Context, text string, leftOut int64) error {
	return t.sendEvent(ctx, sandbox.Event{Type: sandbox.EventNotice, Time: time.Now(), Data: []byte(text), LeftOut: leftOut})
}

func (t *terminal) sendEvent(ctx context.Context, e sandbox.Event) error {
	return t.send(ctx, websocket.MessageText, e.WriteJSON)
}

// send writes a message. A client that takes none of it for stallTime is cut off.
func (t *terminal) send(ctx context.Context, kind websocket.MessageType, write func(io.Writer) error) error {
	select {
	case t.writing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-t.writing }()
	t.busy.Add(1)
	defer t.busy.Add(-1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m, err := t.conn.Writer(ctx, kind)
	if err != nil {
		return err
	}
	out := &message{w: m, patience: time.AfterFunc(stallTime, cancel)}
	defer out.patience.Stop()
	if err := write(out); err != nil {
		return err // and the message stays open: serve ends the connection
	}
	return m.Close()
}

// message is one that is being written. Each part has its time.
type message struct {
	w        io.Writer
	patience *time.Timer
}

func (m *message) Write(p []byte) (n int, err error) {
	for part := range slices.Chunk(p, maxFrame) {
		m.patience.Reset(stallTime)
		written, err := m.w.Write(part)
		if n += written; err != nil {
			return n, err
		}
	}
	return n, nil
}

// watch asks the client for signs of life. Proxies on the way see them, too.
func (t *terminal) watch(ctx context.Context) error {
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if t.busy.Load() == 0 && time.Since(time.Unix(0, t.seen.Load())) > silence {
			return errSilent
		}
		waiting, cancel := context.WithTimeout(ctx, heartbeat)
		err := t.conn.Ping(waiting)
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
}

// wrongMessage is one that no client of this protocol sends.
type wrongMessage struct {
	reason string // at most 123 bytes
}

func (w *wrongMessage) Error() string { return w.reason }

// control is a message with JSON.
func (t *terminal) control(ctx context.Context, text []byte) error {
	var c struct {
		Type   string `json:"type"`
		Rows   int    `json:"rows"`
		Cols   int    `json:"cols"`
		Signal string `json:"signal"`
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if strictjson.Check(text) != nil || d.Decode(&c) != nil || d.InputOffset() != int64(len(bytes.TrimRight(text, " \t\r\n"))) {
		return &wrongMessage{"a text message is one JSON object with a type and its fields"}
	}
	switch c.Type {
	case "resize":
		if min(c.Rows, c.Cols) < 0 || max(c.Rows, c.Cols) > 65535 {
			return &wrongMessage{"rows and cols are from 0 to 65535"}
		}
		return t.x.Resize(Size{Rows: c.Rows, Cols: c.Cols}.size())
	case "signal":
		signal, err := names.ParseSignal(c.Signal)
		if err != nil {
			return err
		}
		return t.x.Signal(ctx, signal)
	case "eof":
		return t.stdin(ctx, nil, true)
	}
	return &wrongMessage{"the type is none of resize, signal and eof"}
}

func (t *terminal) stdin(ctx context.Context, data []byte, end bool) error {
	input, err := t.x.Input()
	if err != nil {
		return err
	}
	return input.Append(ctx, bytes.NewReader(data), end)
}

// refuse tells the client what could not be done. What came after the command's end needs
// no word: the result says it.
func (t *terminal) refuse(ctx context.Context, err error) error {
	select {
	case <-t.x.Done():
		return ctx.Err()
	default:
	}
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	return t.notice(ctx, problem.Of(err).Error(), 0)
}
