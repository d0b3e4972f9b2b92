package executions

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"belljar/cmd/internal/problem"
	"belljar/sandbox"
)

// State says how far an execution is.
type State string

// The states.
const (
	Queued  State = "queued"
	Waiting State = "waiting" // for an approval
	Holding State = "held"    // until its caller begins it
	Running State = "running"
	Ended   State = "ended"
)

// Execution is one that the book knows. After its end it is only its record: everything
// else is read from the disk.
type Execution struct {
	Record
	book    *Book
	file    string // its journal
	refused bool   // it never began or left no log, and its journal has its result
	unkept  bool   // it began, and left no log

	// While it runs, and for those who found it then:
	*early
	log    *log
	input  *Input
	resize chan sandbox.TerminalSize
	ctx    context.Context // until its end
	cancel context.CancelCauseFunc
	state  atomic.Value  // State
	ending chan struct{} // closed when it is to end: its events wait for no one
	asked  atomic.Bool
	done   chan struct{} // closed when its result is there
	result sandbox.Result

	notices []string // among its events

	terminals atomic.Int64 // that callers have open
	withLast  bool         // cancel it when the last of them closes
}

// State is how far it is.
func (x *Execution) State() State {
	if x.log == nil {
		return Ended
	}
	return x.state.Load().(State)
}

// Done is closed once it has ended.
func (x *Execution) Done() <-chan struct{} {
	if x.done == nil {
		return closed
	}
	return x.done
}

var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Result waits for it. An execution whose server died has CauseEngineLost.
func (x *Execution) Result(ctx context.Context) (sandbox.Result, error) {
	if r := x.Refusal(); r != nil {
		return *r, nil
	}
	if x.log == nil {
		r, _, err := x.book.Logs.Await(ctx, x.ID)
		return r, err
	}
	select {
	case <-x.done:
		return x.result, nil
	case <-ctx.Done():
		return sandbox.Result{}, ctx.Err()
	}
}

// Ending is the result of an execution that ended, and the notices among its events.
func (x *Execution) Ending(ctx context.Context) (sandbox.Result, []string, error) {
	if x.log == nil {
		if _, err := x.book.Logs.LogInfo(ctx, x.ID); err == nil {
			return x.book.Logs.Await(ctx, x.ID)
		}
	}
	r, err := x.Result(ctx) // in memory, which is quicker
	return r, x.notices, err
}

// Cancel ends it as if its caller had, with kill at once. It may be called again.
func (x *Execution) Cancel(cause error, kill bool) {
	if x.log == nil {
		return
	}
	if !x.asked.Swap(true) {
		close(x.ending)
		x.cancel(cause)
	}
	if kill {
		x.kill()
	}
}

// Signal sends a signal to its processes.
func (x *Execution) Signal(ctx context.Context, s sandbox.Signal) error {
	if x.State() == Ended {
		return x.hasEnded()
	}
	run := x.command()
	if run == nil {
		return sandbox.Invalid("wait until its state is running", "execution %s does not run yet", x.ID)
	}
	return run.Signal(ctx, s)
}

// Touch restarts its idle timer.
func (x *Execution) Touch() error {
	if x.State() == Ended {
		return x.hasEnded()
	}
	if run := x.command(); run != nil {
		run.Touch()
	}
	return nil
}

// Input is its stdin.
func (x *Execution) Input() (*Input, error) {
	switch {
	case x.State() == Ended:
		return nil, x.hasEnded()
	case x.input == nil:
		return nil, x.noStdin()
	}
	return x.input, nil
}

// CheckTerminal says why a caller cannot have its terminal. After its end, what it wrote
// and its result are left to see.
func (x *Execution) CheckTerminal() error {
	switch {
	case x.log == nil:
		return nil
	case x.resize == nil:
		return x.noTerminal()
	case x.input == nil:
		return x.noStdin()
	}
	return nil
}

// Attach counts a caller that has its terminal, until it leaves.
func (x *Execution) Attach() (leave func(cause error)) {
	x.terminals.Add(1)
	return func(cause error) {
		if x.terminals.Add(-1) == 0 && x.withLast {
			x.Cancel(cause, false)
		}
	}
}

func (x *Execution) noTerminal() error {
	return sandbox.Invalid("set tty in the request", "execution %s has no terminal", x.ID)
}

func (x *Execution) noStdin() error {
	return sandbox.Invalid("set stdin_open in the request", "stdin of execution %s is closed", x.ID)
}

// Resize gives its terminal a new size. Of several that come at once the last one counts.
func (x *Execution) Resize(size sandbox.TerminalSize) error {
	switch {
	case x.State() == Ended:
		return x.hasEnded()
	case x.resize == nil:
		return x.noTerminal()
	}
	select {
	case <-x.resize:
	default:
	}
	select {
	case x.resize <- size:
	default: // another one came just now
	}
	return nil
}

func (x *Execution) hasEnded() error {
	return problem.New(problem.Conflict, "execution "+x.ID+" has ended", "read its result")
}

// pump takes the execution's events until its end.
func (x *Execution) pump() {
	events := x.run.Events()
	var next *sandbox.Event
	for {
		if next == nil {
			e, more := <-events
			if !more {
				return
			}
			next = &e
		}
		e := *next
		next = nil
		if e.Type == sandbox.EventResult {
			x.end(e)
			continue
		}
		if isOutput(e.Type) {
			e, next = merged(e, events, x.log.patience())
		}
		switch e.Type {
		case sandbox.EventStart:
			x.state.Store(Running)
		case sandbox.EventNotice:
			if !e.Binary && !e.Waits && e.LeftOut == 0 { // those that are kept, too
				x.notices = append(x.notices, string(e.Data))
			}
		}
		x.log.room(weight(e), x.ending)
		x.log.add(e)
	}
}

// merged is an event with the output that waits behind it or comes soon, and the event
// after that, if it was taken, too.
func merged(e sandbox.Event, events <-chan sandbox.Event, soon time.Duration) (_ sandbox.Event, next *sandbox.Event) {
	whole, ours := e, false
	for over := time.After(soon); len(whole.Data) < mergeSize; {
		n, more := take(events, soon, over)
		if !more {
			return whole, nil
		}
		if n.Type != e.Type || n.Binary != e.Binary || len(whole.Data)+len(n.Data) > mergeSize {
			return whole, &n
		}
		if !ours {
			whole.Data, ours = slices.Clip(whole.Data), true // append copies it, and takes no more than it needs
		}
		whole.Data = append(whole.Data, n.Data...)
		whole.Size += n.Size
		whole.Encoding = max(whole.Encoding, n.Encoding)
	}
	return whole, nil
}

// take is an event that is there or, if there is time, comes before it is over.
func take(events <-chan sandbox.Event, soon time.Duration, over <-chan time.Time) (e sandbox.Event, more bool) {
	select {
	case e, more = <-events:
		return e, more
	default:
	}
	if soon == 0 {
		return e, false
	}
	select {
	case e, more = <-events:
		return e, more
	case <-over:
		return e, false
	}
}

// end is the execution's end.
func (x *Execution) end(e sandbox.Event) {
	x.finish(e, false)
	x.book.ended(x)
}

// finish tells everyone that it has ended.
func (x *Execution) finish(e sandbox.Event, refused bool) {
	x.result = *e.Result
	x.input.Close()
	x.cancel(errors.New("it ended"))
	x.state.Store(Ended) // before done: who waited must see that it has ended
	close(x.done)
	x.log.end(e, refused)
	if x.release != nil {
		x.release()
	}
}
