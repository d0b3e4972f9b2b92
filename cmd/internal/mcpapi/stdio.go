package mcpapi

import (
	"bufio"
	"context"
	"errors"
	"io"
	"sync"

	"belljar/cmd/internal/access"
	"belljar/cmd/internal/executions"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Stdio serves one client over in and out, until in ends or ctx does. Then it kills what the
// client's executions still run, also those that outlived their call, and waits for their end.
// Sessions stay. Closing in must end a Read of it.
func (s *Server) Stdio(ctx context.Context, in io.ReadCloser, out io.WriteCloser, who access.Identity) error {
	s.open()
	life, cancel := context.WithCancel(access.With(ctx, who))
	defer cancel()
	lines := newLines(in, out)
	session, err := s.server(who).Connect(context.WithValue(life, lifeKey{}, life), lines, nil)
	if err != nil {
		return errors.Join(err, lines.Close())
	}
	stop := context.AfterFunc(ctx, func() { lines.Close() })
	defer stop()
	err = session.Wait()
	cancel()
	lines.Close()
	<-lines.done
	s.killAll(who)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// killAll ends all that an owner's executions run.
func (s *Server) killAll(who access.Identity) {
	live := s.Book.List(func(x *executions.Execution) bool { return x.Owner == who.Name && x.State() != executions.Ended })
	for _, x := range live {
		x.Cancel(errCanceled, true)
	}
	for _, x := range live {
		<-x.Done()
	}
}

// lines is a transport of one message a line. Unlike the SDK's own it survives a line that is no
// message: it says so, and goes on.
type lines struct {
	in   io.ReadCloser
	out  io.WriteCloser
	read chan jsonrpc.Message
	done chan struct{} // closed once in is no longer read

	write  sync.Mutex
	close  sync.Once
	closed chan struct{}
	err    error // of Close
}

func newLines(in io.ReadCloser, out io.WriteCloser) *lines {
	l := &lines{in: in, out: out, read: make(chan jsonrpc.Message), done: make(chan struct{}), closed: make(chan struct{})}
	go func() {
		defer close(l.done)
		defer close(l.read)
		l.pump()
	}()
	return l
}

// Connect implements mcp.Transport.
func (l *lines) Connect(context.Context) (mcp.Connection, error) { return l, nil }

// SessionID implements mcp.Connection: there is one client, and so no need for one.
func (l *lines) SessionID() string { return "" }

// pump reads messages until the end.
func (l *lines) pump() {
	in := bufio.NewReader(l.in)
	for {
		line, whole, err := readLine(in, maxMessage)
		if err != nil && len(line) == 0 {
			return
		}
		m, wrong := message(line, whole)
		switch {
		case wrong != nil:
			_ = l.Write(context.Background(), &jsonrpc.Response{Error: wrong})
		case m != nil:
			select {
			case l.read <- m:
			case <-l.closed:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// readLine is the next line, without its end. Of one that is too long it is the beginning.
func readLine(in *bufio.Reader, most int) (line []byte, whole bool, err error) {
	for whole = true; ; {
		part, err := in.ReadSlice('\n')
		if len(line)+len(part) > most {
			part, whole = part[:max(most-len(line), 0)], false
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, whole, err
		}
	}
}

// message is that of a line, or what is wrong with it. An empty line has none.
func message(line []byte, whole bool) (jsonrpc.Message, error) {
	wrong := func(text string) error {
		return &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: text}
	}
	if !whole {
		return nil, wrong("the message is longer than 8 MiB: send files with several calls of file_write")
	}
	for len(line) > 0 && line[len(line)-1] <= ' ' {
		line = line[:len(line)-1]
	}
	if len(line) == 0 {
		return nil, nil
	}
	err := check(line)
	var m jsonrpc.Message
	if err == nil {
		m, err = jsonrpc.DecodeMessage(line)
	}
	if err != nil {
		return nil, wrong("the line is no JSON-RPC message: " + err.Error())
	}
	return m, nil
}

// Read implements mcp.Connection.
func (l *lines) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case m, more := <-l.read:
		if !more {
			return nil, io.EOF
		}
		return m, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Write implements mcp.Connection.
func (l *lines) Write(_ context.Context, m jsonrpc.Message) error {
	text, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	l.write.Lock()
	defer l.write.Unlock()
	_, err = l.out.Write(append(text, '\n'))
	return err
}

// Close implements mcp.Connection.
func (l *lines) Close() error {
	l.close.Do(func() {
		close(l.closed)
		l.err = errors.Join(l.in.Close(), l.out.Close())
	})
	return l.err
}
