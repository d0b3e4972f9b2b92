package sandbox

import "context"

// Runner runs commands: on this host, or at the other end of a socket.
type Runner interface {
	// Start begins a command and returns before it ends. Cancelling ctx ends
	// the command whenever that happens, with CauseCanceled: one that was
	// canceled before starts nothing. An error is a
	// refusal, a *Error such as of CauseInvalid or CauseDenied: nothing began.
	// A command that the Runner loses sight of ends with CauseEngineLost.
	Start(ctx context.Context, c Command) (Execution, error)
}

// Execution is a command that runs.
type Execution interface {
	ID() string
	// Events are the command's events, up to and with its result, then the
	// channel is closed. They are a pipe: a command waits until its events are
	// read, and that time does not count as time without output. Read them to the
	// end, or call Wait.
	Events() <-chan Event
	// Wait discards the unread events and returns the result. The
	// error is non-nil where the status is StatusFatal or StatusDenied, and
	// tells what Result.Error does; the result is whole either way. It may be
	// called again, and by several.
	Wait() (Result, error)
	// Kill ends the command at once, without listing what runs. It does not
	// wait for that, and does nothing once the command ended.
	Kill()
	// Read reads what the command wrote, from an offset on, while it runs and
	// until its output expires. Unlike Events, it never makes the command wait.
	// Cancelling ctx gives up the call, not the Reader.
	Read(ctx context.Context, which Stream, offset int64) (Reader, error)
}

// Preparer does everything that comes before a command runs, so that a caller can
// run several commands only if all are allowed. A Runner may implement it.
type Preparer interface {
	// Prepare checks a command, judges it by its policy and, where that asks,
	// waits for a person. An error is a refusal, as Start's is. What is prepared
	// is to be started while ctx lives: after that it may be forgotten.
	Prepare(ctx context.Context, c Command) (Prepared, error)
}

// Prepared is a command that may run.
type Prepared interface {
	// Start runs it. It is called once. Cancelling ctx ends the command.
	Start(ctx context.Context) (Execution, error)
}

// Run starts a command and waits for its result. The result is usable with
// every error.
func Run(ctx context.Context, r Runner, c Command) (Result, error) {
	x, err := r.Start(ctx, c)
	if err != nil {
		return Refused(c, err), err
	}
	return x.Wait()
}

// Refused is the result of a command that Start refused with err.
func Refused(c Command, err error) Result {
	r := Result{ID: c.ID, Command: c.Script, Dir: c.Dir, Profile: c.Profile, Session: c.Session}
	r.Fail(err)
	return r
}

// Reader reads what a command wrote, while it writes and afterwards, at its own
// pace: the command does not wait for it, and where it comes too late it learns
// what it missed. It is not safe for concurrent use.
type Reader interface {
	// Next waits for the next chunk. Its error is io.EOF once the command ended
	// and everything was read. Cancelling ctx gives up waiting.
	Next(ctx context.Context) (Chunk, error)
	// Ready is Next, but does not wait for the command: its error is io.EOF
	// where there is nothing more now.
	Ready(ctx context.Context) (Chunk, error)
	// Close lets go of what is read. It comes last, and once.
	Close() error
}
