package local_test

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"belljar/internal/input"
	"belljar/sandbox"

	"golang.org/x/sys/unix"
)

// pipeRunner is the half of a Runner over a pipe that callers have.
type pipeRunner struct {
	*pipe
	number int
}

var errCanceled = &sandbox.Error{Cause: sandbox.CauseCanceled, Message: "canceled before the command started"}

func errLost(err error) error {
	return &sandbox.Error{Cause: sandbox.CauseEngineLost, Message: "the other half of the runner is gone", Err: err, Hint: "run it again"}
}

// dial opens the connections of a call: the second is for stdin.
func (p *pipe) dial(n int) (conns []*net.UnixConn, err error) {
	var fds []int
	defer func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
		if err != nil {
			for _, c := range conns {
				c.Close()
			}
		}
	}()
	for range n {
		c, fd, err := pair(unix.SOCK_STREAM)
		if err != nil {
			return conns, err
		}
		conns, fds = append(conns, c), append(fds, fd)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, _, err := p.control.WriteMsgUnix([]byte{1}, unix.UnixRights(fds...), nil); err != nil {
		return conns, errLost(err)
	}
	return conns, nil
}

// open begins a call, which has one connection.
func (r *pipeRunner) open(q request) (*wire, error) {
	conns, err := r.dial(1)
	if err != nil {
		return nil, err
	}
	w := newWire(conns[0])
	q.Runner = r.number
	if err := w.send(q); err != nil {
		w.Close()
		return nil, errLost(err)
	}
	return w, nil
}

// receive is the next answer.
func (w *wire) receive() (a response, err error) {
	if err := w.in.Decode(&a); err != nil {
		return a, errLost(err)
	}
	if a.Error != nil {
		return a, a.Error
	}
	return a, nil
}

// ask is a call with one answer. Cancelling ctx gives it up.
func (r *pipeRunner) ask(ctx context.Context, q request) (response, error) {
	w, err := r.open(q)
	if err != nil {
		return response{}, err
	}
	defer w.Close()
	defer context.AfterFunc(ctx, func() { w.Close() })()
	a, err := w.receive()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return a, err
}

func (r *pipeRunner) Sessions(ctx context.Context) ([]sandbox.SessionInfo, error) {
	a, err := r.ask(ctx, request{Call: "sessions"})
	return a.Sessions, err
}

func (r *pipeRunner) RemoveSession(ctx context.Context, name string) error {
	_, err := r.ask(ctx, request{Call: "remove session", ID: name})
	return err
}

func (r *pipeRunner) Logs(ctx context.Context) ([]sandbox.LogInfo, error) {
	a, err := r.ask(ctx, request{Call: "logs"})
	return a.Logs, err
}

func (r *pipeRunner) LogInfo(ctx context.Context, id string) (sandbox.LogInfo, error) {
	a, err := r.ask(ctx, request{Call: "log info", ID: id})
	if err != nil {
		return sandbox.LogInfo{}, err
	}
	return a.Logs[0], nil
}

func (r *pipeRunner) Pools(ctx context.Context) ([]sandbox.PoolStatus, error) {
	a, err := r.ask(ctx, request{Call: "pools"})
	return a.Pools, err
}

func (r *pipeRunner) ReadLog(ctx context.Context, id string, which sandbox.Stream, offset int64) (sandbox.Reader, error) {
	return r.read(ctx, request{Call: "read log", ID: id, Which: which, Offset: offset})
}

func (r *pipeRunner) read(ctx context.Context, q request) (sandbox.Reader, error) {
	w, err := r.open(q)
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { w.Close() })()
	if _, err := w.receive(); err != nil {
		w.Close()
		return nil, err
	}
	return &pipeReader{w: w}, nil
}

// pipeReader is a sandbox.Reader.
type pipeReader struct {
	w    *wire
	turn int
}

func (r *pipeReader) Next(ctx context.Context) (sandbox.Chunk, error) { return r.call(ctx, "next") }

func (r *pipeReader) Ready(ctx context.Context) (sandbox.Chunk, error) { return r.call(ctx, "ready") }

func (r *pipeReader) Close() error { return r.w.Close() }

// call asks for a chunk. What came at the moment it was given up is not lost.
func (r *pipeReader) call(ctx context.Context, what string) (sandbox.Chunk, error) {
	r.turn++
	turn := r.turn
	if err := r.w.send(request{Call: what, Turn: turn}); err != nil {
		return sandbox.Chunk{}, errLost(err)
	}
	defer context.AfterFunc(ctx, func() { r.w.send(request{Call: "give up", Turn: turn}) })()
	a, err := r.w.receive()
	switch {
	case err != nil && ctx.Err() != nil:
		return sandbox.Chunk{}, ctx.Err()
	case err != nil:
		return sandbox.Chunk{}, err
	case a.Chunk == nil:
		return sandbox.Chunk{}, io.EOF
	}
	return *a.Chunk, nil
}

func (r *pipeRunner) Start(ctx context.Context, c sandbox.Command) (sandbox.Execution, error) {
	p, err := r.call(ctx, "start", c)
	if err != nil {
		return nil, err
	}
	return p.begun(ctx)
}

func (r *pipeRunner) Prepare(ctx context.Context, c sandbox.Command) (sandbox.Prepared, error) {
	p, err := r.call(ctx, "prepare", c)
	if err != nil {
		return nil, err
	}
	if _, err := p.answer(ctx); err != nil {
		return nil, err
	}
	p.forget = context.AfterFunc(ctx, p.close)
	return p, nil
}

// pipePrepared is a command whose connections are open.
type pipePrepared struct {
	runner  *pipeRunner
	command sandbox.Command
	w       *wire
	stdin   net.Conn // nil is none
	forget  func() bool
}

func (r *pipeRunner) call(ctx context.Context, what string, c sandbox.Command) (*pipePrepared, error) {
	if ctx.Err() != nil {
		return nil, errCanceled
	}
	n := 1
	if c.Stdin != nil {
		n = 2
	}
	conns, err := r.dial(n)
	if err != nil {
		return nil, err
	}
	p := &pipePrepared{runner: r, command: c, w: newWire(conns[0])}
	if n > 1 {
		p.stdin = conns[1]
	}
	bare := c
	bare.Script = ""
	if err := p.w.send(request{Runner: r.number, Call: what, Command: &bare, Script: []byte(c.Script), Resized: c.Resize != nil}); err != nil {
		p.close()
		return nil, errLost(err)
	}
	return p, nil
}

func (p *pipePrepared) close() {
	p.w.Close()
	if p.stdin != nil {
		p.stdin.Close()
	}
}

// answer waits for what became of it, also where ctx is cancelled meanwhile.
func (p *pipePrepared) answer(ctx context.Context) (response, error) {
	defer context.AfterFunc(ctx, func() { p.w.send(request{Call: "cancel"}) })()
	a, err := p.w.receive()
	if err != nil {
		p.close()
	}
	return a, err
}

func (p *pipePrepared) Start(ctx context.Context) (sandbox.Execution, error) {
	if !p.forget() {
		return nil, errCanceled
	}
	if err := p.w.send(request{Call: "start"}); err != nil {
		p.close()
		return nil, errLost(err)
	}
	return p.begun(ctx)
}

func (p *pipePrepared) begun(ctx context.Context) (sandbox.Execution, error) {
	a, err := p.answer(ctx)
	if err != nil {
		return nil, err
	}
	x := &pipeExecution{pipePrepared: p, id: a.ID, events: make(chan sandbox.Event), ended: make(chan struct{})}
	stop := context.AfterFunc(ctx, func() { p.w.send(request{Call: "cancel"}) })
	go x.pump()
	if p.command.Resize != nil {
		go x.resize()
	}
	go func() {
		defer close(x.events)
		defer close(x.ended)
		defer stop()
		defer x.close()
		x.follow()
	}()
	return x, nil
}

// pipeExecution is a sandbox.Execution.
type pipeExecution struct {
	*pipePrepared
	id     string
	events chan sandbox.Event
	ended  chan struct{}
	result sandbox.Result
	err    error
}

func (x *pipeExecution) ID() string { return x.id }

func (x *pipeExecution) Events() <-chan sandbox.Event { return x.events }

func (x *pipeExecution) Kill() { x.w.send(request{Call: "kill"}) } // fails once it ended

func (x *pipeExecution) Touch() { x.w.send(request{Call: "touch"}) }

func (x *pipeExecution) Signal(ctx context.Context, signal sandbox.Signal) error {
	_, err := x.runner.ask(ctx, request{Call: "signal", ID: x.id, Signal: signal})
	return err
}

func (x *pipeExecution) Wait() (sandbox.Result, error) {
	for range x.events {
	}
	return x.result, x.err
}

func (x *pipeExecution) Read(ctx context.Context, which sandbox.Stream, offset int64) (sandbox.Reader, error) {
	return x.runner.read(ctx, request{Call: "read", ID: x.id, Which: which, Offset: offset})
}

// follow passes events on, up to the result.
func (x *pipeExecution) follow() {
	for last := uint64(0); ; {
		a, err := x.w.receive()
		if err != nil {
			lost := x.command
			lost.ID = x.id
			r := sandbox.Refused(lost, err)
			a.Event = &sandbox.Event{Type: sandbox.EventResult, Seq: last + 1, Time: time.Now(), Result: &r}
		}
		last = a.Event.Seq
		if r := a.Event.Result; r != nil {
			r.Command = x.command.Script // as it was, where it is no UTF-8
			if x.result = *r; r.Error != nil {
				x.err = r.Error
			}
			x.events <- *a.Event
			return
		}
		x.events <- *a.Event
	}
}

// pump passes stdin on. A Read that blocks past the end is abandoned, unless it
// takes a deadline.
func (x *pipeExecution) pump() {
	if x.stdin == nil {
		return
	}
	if d, ok := x.command.Stdin.(interface{ SetReadDeadline(time.Time) error }); ok {
		done := make(chan struct{})
		defer close(done)
		go func() {
			select {
			case <-x.ended:
				d.SetReadDeadline(time.Now())
			case <-done:
			}
		}()
	}
	_, err := io.Copy(x.stdin, x.command.Stdin)
	said := request{Call: "end"} // with why, unless it is that the other half reads no more
	if input.Broken(err) && !errors.As(err, new(*net.OpError)) {
		said.ID = err.Error()
	}
	x.w.send(said)
	x.stdin.Close()
}

func (x *pipeExecution) resize() {
	for {
		select {
		case size, more := <-x.command.Resize:
			if !more {
				return
			}
			x.w.send(request{Call: "size", Size: size})
		case <-x.ended:
			return
		}
	}
}
