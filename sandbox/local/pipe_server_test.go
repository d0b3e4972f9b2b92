package local_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"belljar/sandbox"
	"belljar/sandbox/local"
	"belljar/sandbox/sandboxtest"
)

// half is a Runner's, where its commands run.
type half struct {
	*local.Local
	engine     *sandboxtest.Engine
	mu         sync.Mutex
	executions map[string]sandbox.Execution
}

// close reports what is left.
func (h *half) close() error {
	h.Close()
	if n := len(h.engine.Left()); n > 0 {
		return fmt.Errorf("%d containers left", n)
	}
	return nil
}

// pipeServer has the halves, by number.
type pipeServer struct {
	mu     sync.Mutex
	halves map[int]*half
}

// half is whose call it is. It is made by the first.
func (s *pipeServer) half(q request) *half {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.Call == "open" {
		l, engine := behind(*q.Behind, q.Dir)
		s.halves[q.Runner] = &half{Local: l, engine: engine, executions: map[string]sandbox.Execution{}}
	}
	return s.halves[q.Runner]
}

// serve is one call's whole life.
func (s *pipeServer) serve(conns []*net.UnixConn) {
	for _, c := range conns {
		defer c.Close()
	}
	w := newWire(conns[0])
	var q request
	if w.in.Decode(&q) == nil {
		s.half(q).serve(w, q, conns[1:])
	}
}

func (h *half) serve(w *wire, q request, stdin []*net.UnixConn) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	switch q.Call {
	case "start", "prepare":
		c := q.Command
		c.Script = string(q.Script)
		if len(stdin) > 0 {
			c.Stdin = stdin[0]
		}
		h.run(ctx, cancel, w, q, *c)
	case "read":
		r, err := h.execution(q.ID).Read(ctx, q.Which, q.Offset)
		read(ctx, w, r, err)
	case "read log":
		r, err := h.ReadLog(ctx, q.ID, q.Which, q.Offset)
		read(ctx, w, r, err)
	default:
		w.send(h.answer(ctx, q))
	}
}

func (h *half) execution(id string) sandbox.Execution {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.executions[id]
}

func (h *half) answer(ctx context.Context, q request) (a response) {
	var err error
	switch q.Call {
	case "close":
		err = h.close()
	case "signal":
		err = h.execution(q.ID).Signal(ctx, q.Signal)
	case "sessions":
		a.Sessions, err = h.Sessions(ctx)
	case "remove session":
		err = h.RemoveSession(ctx, q.ID)
	case "logs":
		a.Logs, err = h.Logs(ctx)
	case "log info":
		a.Logs = make([]sandbox.LogInfo, 1)
		a.Logs[0], err = h.LogInfo(ctx, q.ID)
	case "pools":
		a.Pools, err = h.Pools(ctx)
	}
	a.Error = sandbox.ErrorOf(err)
	return a
}

// pipeStdin is a stdin whose end the client explains.
type pipeStdin struct {
	ctx context.Context
	*net.UnixConn
	end <-chan string
}

func (s pipeStdin) Read(p []byte) (int, error) {
	n, err := s.UnixConn.Read(p)
	if errors.Is(err, io.EOF) {
		select {
		case why := <-s.end:
			if why != "" {
				err = errors.New(why)
			}
		case <-s.ctx.Done():
		}
	}
	return n, err
}

// run prepares a command, runs it, and sends its events. Its client's end cancels
// it.
func (h *half) run(ctx context.Context, cancel context.CancelFunc, w *wire, q request, c sandbox.Command) {
	sizes := make(chan sandbox.TerminalSize, 1) // the latest: none waits for the command
	if q.Resized {
		c.Resize = sizes
	}
	end := make(chan string, 1)
	if c.Stdin != nil {
		c.Stdin = pipeStdin{ctx, c.Stdin.(*net.UnixConn), end}
	}
	begun, started := make(chan struct{}), make(chan sandbox.Execution, 1)
	var listening sync.WaitGroup
	defer listening.Wait()
	defer w.Close() // ends the listening
	listening.Go(func() {
		defer cancel()
		var x sandbox.Execution
		for {
			var said request
			if w.in.Decode(&said) != nil {
				return
			}
			switch said.Call {
			case "start":
				close(begun)
			case "cancel":
				cancel()
			case "end":
				end <- said.ID
			case "kill", "touch":
				if x == nil {
					x = <-started
				}
				if said.Call == "touch" {
					x.Touch()
				} else {
					x.Kill()
				}
			case "size":
				select {
				case <-sizes:
				default:
				}
				sizes <- said.Size
			}
		}
	})
	p, err := h.Prepare(ctx, c)
	if q.Call == "prepare" || err != nil {
		w.send(response{Error: sandbox.ErrorOf(err)})
		if err != nil {
			return
		}
		select {
		case <-begun:
		case <-ctx.Done():
			return
		}
	}
	x, err := p.Start(ctx)
	if err != nil {
		w.send(response{Error: sandbox.ErrorOf(err)})
		return
	}
	h.mu.Lock()
	h.executions[x.ID()] = x
	h.mu.Unlock()
	started <- x
	failed := w.send(response{ID: x.ID()})
	for e := range x.Events() {
		if failed == nil {
			failed = w.send(response{Event: &e})
		}
		if failed != nil {
			cancel()
		}
	}
}

// read reads for a client: a chunk for each of its calls, which it may give up.
func read(ctx context.Context, w *wire, r sandbox.Reader, err error) {
	w.send(response{Error: sandbox.ErrorOf(err)})
	if err != nil {
		return
	}
	defer r.Close()
	var reading sync.WaitGroup
	defer reading.Wait()
	turn, giveUp := 0, func() {}
	defer func() { giveUp() }()
	for {
		var q request
		if w.in.Decode(&q) != nil {
			return
		}
		if q.Call == "give up" {
			if q.Turn == turn {
				giveUp()
			}
			continue
		}
		next := r.Next
		if q.Call == "ready" {
			next = r.Ready
		}
		reading.Wait()
		turnCtx, cancel := context.WithCancel(ctx)
		turn, giveUp = q.Turn, cancel
		reading.Go(func() {
			defer cancel()
			c, err := next(turnCtx)
			if errors.Is(err, io.EOF) {
				w.send(response{})
			} else {
				w.send(response{Chunk: &c, Error: sandbox.ErrorOf(err)})
			}
		})
	}
}
