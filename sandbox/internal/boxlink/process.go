package boxlink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"belljar/internal/boxinit/wire"
	"belljar/sandbox"
)

// Start is a process to start.
type Start struct {
	Args     []string // the first one is looked up on Env's PATH
	Env      []string // "NAME=value", complete
	Dir      string
	UID, GID int                   // not 0, and not the init's
	Stdin    io.Reader             // nil means empty
	TTY      *sandbox.TerminalSize // nil for none; all output goes to Stdout then

	// Stdout and Stderr get every byte, never both at once. One that is slow holds up its
	// own process only.
	Stdout, Stderr io.Writer

	Around *Around // nil for nothing
}

// Reason is why a process was not started.
type Reason = wire.Reason

// The reasons.
const (
	Failed        = wire.Failed        // anything else
	NoProgram     = wire.NoProgram     // it is not on the PATH
	NotExecutable = wire.NotExecutable // it is there, but cannot be executed
	NoDir         = wire.NoDir         // the directory does not exist, or the user cannot enter it
	NoProcess     = wire.NoProcess     // the limit of processes is reached
	NoMemory      = wire.NoMemory      // memory ran out
	TooLong       = wire.TooLong       // arguments and environment are longer than the kernel takes
	Stuck         = wire.Stuck         // another process of its user stopped it before it began
	BadRequest    = wire.BadRequest    // no command may run like that
)

// StartError is why a process does not run: nothing of it did.
type StartError struct {
	Reason Reason
	Errno  syscall.Errno
	Step   string // what failed, such as "executing the program"
}

// Error implements error.
func (e *StartError) Error() string { return fmt.Sprintf("%s: %v", e.Step, e.Errno) }

// Unwrap returns the errno.
func (e *StartError) Unwrap() error { return e.Errno }

// Process is a started process.
type Process struct {
	link     *Link
	id       uint32
	pid      int
	ticks    int64
	answered chan struct{} // closed once it is known whether it runs
	refused  error
	asked    Start
	stdin    *stdin // nil without one
	output   output
	queue    *queue // of output in frames, or
	ends     *ends  // the streams themselves
	close    sync.Once

	exited chan struct{}
	status int
	when   time.Time

	around *around // nil: nothing

	kept atomic.Pointer[chan struct{}] // Drain waits until it is closed
	cut  atomic.Pointer[string]
}

// Start starts a process. Canceling ctx cancels a start that was not sent yet. A process that
// does not run is a *StartError.
func (l *Link) Start(ctx context.Context, s Start) (*Process, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	request := wire.StartRequest{UID: uint32(s.UID), GID: uint32(s.GID), Stdin: s.Stdin != nil, Dir: s.Dir, Args: s.Args, Env: s.Env}
	if s.TTY != nil {
		size := sizeOf(*s.TTY)
		request.Terminal = &size
	}
	body := request.Encode(nil)
	if len(body) > wire.MaxRequest-5 {
		return nil, &StartError{TooLong, syscall.E2BIG, "sending the request"}
	}
	p := &Process{link: l, asked: s, answered: make(chan struct{}), exited: make(chan struct{})}
	p.output.init(s)
	if l.files == nil {
		p.queue = newQueue(&p.output)
	}
	if s.Stdin != nil {
		p.stdin = newStdin(s.Stdin, s.TTY != nil)
	}
	l.mu.Lock()
	l.last++
	p.id = l.last
	l.procs[p.id] = p
	var lines []byte
	if s.Around != nil {
		lines = p.askAround(*s.Around)
	}
	l.mu.Unlock()
	if err := l.sendLine(ctx, wire.AppendLine(lines, l.nonce, wire.Start, p.id, body)); err != nil {
		l.forget(p)
		p.checkAround(false, false)
		return nil, err
	}
	// A process that started has maybe done something already: to say that it did not would be wrong,
	// also where ctx ends now.
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
	defer cancel()
	select {
	case <-p.answered:
	case <-l.done:
		select {
		case <-p.answered: // the last that was heard
		default:
			return nil, fmt.Errorf("the connection to the container's init broke (%w): %w", l.Err(), ErrUnknown)
		}
	case <-late.Done():
		l.start(p.abandon)
		return nil, fmt.Errorf("the container's init does not answer: %w", ErrUnknown)
	}
	p.checkAround(true, p.pid != 0)
	if p.refused != nil {
		p.killStreamless()
		return nil, p.refused
	}
	p.run()
	return p, nil
}

// killStreamless ends a process that runs, but whose streams could not be taken.
func (p *Process) killStreamless() {
	if p.pid == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	p.link.Signal(ctx, p.pid, p.ticks, syscall.SIGKILL)
}

// run begins to carry the streams.
func (p *Process) run() {
	run := func() { p.queue.run(p) }
	if p.ends != nil {
		run = func() { p.ends.run(p) }
	}
	if !p.link.start(run) {
		go run() // it reads what is there, and Close joins it
	}
	switch {
	case p.stdin == nil:
	case p.ends != nil:
		go p.stdin.runTo(p.ends.stdin)
	default:
		go p.stdin.run(p)
	}
}

// answerTimeout is how long an init may take to start a process: it looks after a moment whether something
// holds it up.
const answerTimeout = 10 * time.Second

// ErrUnknown is of a start that was sent and not answered.
var ErrUnknown = errors.New("it is unknown whether the command started")

// abandon ends a process that may still start though no one waits for it.
func (p *Process) abandon() {
	select {
	case <-p.answered:
	case <-p.link.done:
		return
	}
	if p.refused == nil {
		p.run()
		p.Close()
		p.link.Signal(context.Background(), p.pid, p.ticks, syscall.SIGKILL)
	} else {
		p.killStreamless()
	}
}

// PID is the process's, inside the container.
func (p *Process) PID() int { return p.pid }

// StartTicks is when it started, as /proc says; with its PID it names one process.
func (p *Process) StartTicks() int64 { return p.ticks }

// Exited is closed once the process itself has ended and was reaped. It stays open if the link
// broke before.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Status is its exit status, or 128 and the signal that ended it, once Exited is closed.
func (p *Process) Status() int { return p.status }

// When is when it ended on the container's clock, once Exited is closed.
func (p *Process) When() time.Time { return p.when }

// Ended is closed once its streams came to their end, or the link broke, and what was received is
// written. Processes that it started may hold them open after its own end.
func (p *Process) Ended() <-chan struct{} { return p.output.ended }

// Rested is closed once the process has ended and all that it wrote itself is written out, also where others
// hold its streams open. Ended comes later, or at the same time.
func (p *Process) Rested() <-chan struct{} { return p.output.rested }

// Complete reports, once Ended is closed, whether the streams came to their end.
func (p *Process) Complete() bool { return p.output.complete() }

// Resize changes the size of its terminal. After its end, and without one, it does nothing.
func (p *Process) Resize(ctx context.Context, size sandbox.TerminalSize) error {
	if p.ends != nil {
		p.ends.resize(sizeOf(size))
		return nil
	}
	return p.link.send(ctx, wire.Resize, p.id, sizeOf(size).Encode(nil))
}

// Close closes our ends of its streams, as is due for any process once it has ended. A process
// that still writes gets SIGPIPE, and a terminal hangs up. It joins the goroutines of the
// streams, except a Read of stdin that has no deadline to set.
func (p *Process) Close() {
	p.close.Do(func() {
		if p.ends != nil {
			p.ends.release()
		} else {
			p.link.start(func() { p.link.send(context.Background(), wire.Release, p.id, nil) })
			p.queue.release()
		}
		p.link.mu.Lock()
		p.link.settle(p)
		p.link.mu.Unlock()
	})
	p.stdin.stop()
	<-p.output.ended
}

// sizeOf is a terminal's size that the kernel takes.
func sizeOf(s sandbox.TerminalSize) wire.Size {
	const most = 1<<16 - 1
	if s.Columns <= 0 || s.Rows <= 0 {
		return wire.Size{Rows: 24, Columns: 80}
	}
	return wire.Size{Rows: uint16(min(s.Rows, most)), Columns: uint16(min(s.Columns, most))}
}
