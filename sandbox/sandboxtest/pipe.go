package sandboxtest

import (
	"io"
	"sync/atomic"
	"time"

	"belljar/sandbox"
)

// pipe is an exec's output: one connection for both streams, held by all
// processes that have it open.
type pipe struct {
	stdout, stderr io.Writer
	terminal       *terminal // nil is none
	turn           chan bool // holds whether it is open, while no one writes
	holders        atomic.Int32
	eof            chan struct{} // closed when no process has it open any more
}

func newPipe(x sandbox.Exec) *pipe {
	p := &pipe{stdout: orDiscard(x.Stdout), stderr: orDiscard(x.Stderr), terminal: newTerminal(x.TTY), turn: make(chan bool, 1), eof: make(chan struct{})}
	p.turn <- true
	if p.terminal != nil {
		p.stderr = p.stdout
	}
	return p
}

func orDiscard(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}

// write discards the data once the connection is closed, as an engine does.
func (p *pipe) write(to io.Writer, b []byte) {
	open := <-p.turn
	if open {
		to.Write(p.terminal.output(b))
	}
	p.turn <- open
}

// close waits for the write under way.
func (p *pipe) close() {
	<-p.turn
	p.turn <- false
}

func (p *pipe) hold() { p.holders.Add(1) }

func (p *pipe) release() {
	if p.holders.Add(-1) == 0 {
		close(p.eof)
	}
}

// stdin is an exec's input. It is read ahead, as an engine does: the
// command's own reading has no influence.
type stdin struct {
	from   io.Reader // nil is empty
	chunks chan []byte
	rest   []byte
	closed chan struct{}
	done   chan struct{}
}

func newStdin(from io.Reader) *stdin {
	s := &stdin{from: from, chunks: make(chan []byte), closed: make(chan struct{}), done: make(chan struct{})}
	go s.pump()
	return s
}

// stdinOf is the stdin of an exec. A terminal without input has no end.
func stdinOf(x sandbox.Exec) *stdin {
	if x.TTY != nil && x.Stdin == nil {
		return &stdin{closed: make(chan struct{})}
	}
	return newStdin(x.Stdin)
}

func (s *stdin) pump() {
	defer close(s.done)
	defer close(s.chunks)
	for s.from != nil {
		b := make([]byte, 32<<10)
		n, err := s.from.Read(b)
		if n > 0 {
			select {
			case s.chunks <- b[:n]:
			case <-s.closed:
				return
			}
		}
		if err != nil {
			return // any error ends the input, as EOF does
		}
	}
}

// stop ends the pump, unless its reader blocks and supports no deadline.
func (s *stdin) stop() {
	select {
	case <-s.closed:
		return
	default:
		close(s.closed)
	}
	deadline, ok := s.from.(interface{ SetReadDeadline(time.Time) error })
	if ok && deadline.SetReadDeadline(time.Now()) == nil {
		<-s.done
		deadline.SetReadDeadline(time.Time{})
	}
}

func (s *stdin) read(b []byte, killed <-chan struct{}) (int, error) {
	if len(s.rest) == 0 {
		select {
		case chunk, ok := <-s.chunks:
			if !ok {
				return 0, io.EOF
			}
			s.rest = chunk
		case <-killed:
			return 0, io.EOF
		}
	}
	n := copy(b, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}
