package executions

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"sync"
	"time"

	"belljar/sandbox"
)

// early is an execution before its command begins: it is known, can be followed and
// canceled, and has no output.
type early struct {
	Script      string
	Description string
	release     func() // see Request

	waits chan struct{} // closed once it waits, or has waited, for an approval, or for longer than its caller
	told  sync.Once

	mu      sync.Mutex
	run     sandbox.Execution // what runs
	begun   chan struct{}     // closed once run is there, or it is clear that it never will be
	killing bool              // kill it as soon as it begins
}

// newExecution is one that is not known yet. Its end is finish.
func (b *Book) newExecution(c sandbox.Command, q Request) *Execution {
	sum := sha256.Sum256(q.Body)
	x := &Execution{
		Record: Record{ID: c.ID, Owner: q.Owner, Key: q.Key, Request: hex.EncodeToString(sum[:]), Started: time.Now(), Profile: c.Profile, Session: c.Session},
		book:   b, log: newLog(), input: q.Input, withLast: q.CancelWithTerminal, ending: make(chan struct{}), done: make(chan struct{}),
		early: &early{Script: c.Script, Description: c.Description, release: q.Release, waits: make(chan struct{}), begun: make(chan struct{})},
	}
	x.ctx, x.cancel = context.WithCancelCause(b.ctx)
	x.state.Store(Queued)
	return x
}

// command is what runs, nil before that.
func (e *early) command() sandbox.Execution {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.run
}

// begins says that the command does.
func (e *early) begins(run sandbox.Execution) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.run = run; e.killing {
		run.Kill()
	}
	close(e.begun)
}

// Begun is closed once its command runs, or never will.
func (x *Execution) Begun() <-chan struct{} {
	if x.early == nil {
		return closed
	}
	return x.begun
}

func (e *early) kill() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.killing = true
	if e.run != nil {
		e.run.Kill()
	}
}

// tell notes that callers know of it, or may, before it begins.
func (x *Execution) tell() {
	x.told.Do(func() {
		x.log.waits()
		close(x.waits)
	})
}

// waited reports whether callers knew of it before it began.
func (e *early) waited() bool { return isClosed(e.waits) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Approver lets callers see which executions wait for that approver's answer.
func (b *Book) Approver(of sandbox.Approver) sandbox.Approver { return approver{b, of} }

type approver struct {
	book *Book
	of   sandbox.Approver
}

// Approve implements sandbox.Approver.
func (a approver) Approve(ctx context.Context, q sandbox.Question) (sandbox.Approval, error) {
	if x, err := a.book.Find(q.ID); err == nil && x.log != nil {
		x.state.Store(Waiting)
		x.tell()
		defer x.state.CompareAndSwap(Waiting, Queued)
	}
	return a.of.Approve(ctx, q)
}

// refuse ends an execution that does not begin.
func (x *Execution) refuse(c sandbox.Command, why error) {
	c.ID = x.ID
	result := sandbox.Refused(c, why)
	x.finish(sandbox.Event{Type: sandbox.EventResult, Time: time.Now(), Result: &result}, true)
	close(x.begun) // who waited must see that it has ended
}

// Refusal is the result of one that never began, or left no log. nil of all others.
func (x *Execution) Refusal() *sandbox.Result {
	if !x.refused {
		return nil
	}
	e, err := x.lastEvent()
	if err != nil {
		x.book.Log.Warn("an execution's record cannot be read", "execution", x.ID, "error", err)
	}
	return e.Result
}

// Outcome is the result of one that has no log on the disk: while it is remembered, or
// because it never began. nil if there is none.
func (x *Execution) Outcome() *sandbox.Result {
	if x.log != nil && x.State() == Ended {
		return &x.result
	}
	return x.Refusal()
}

// lastEvent is the result that its journal has: of one that was refused, or that left no log.
func (x *Execution) lastEvent() (e sandbox.Event, err error) {
	j, err := openJournal(x.file)
	if err != nil {
		return e, err
	}
	defer j.Close()
	for err == nil && e.Result == nil {
		e, _, err = j.Next()
	}
	return e, err
}

// refusedWith is why an execution never began, for those who ask for it again. nil if it did, or may.
func (x *Execution) refusedWith() error {
	r := x.Refusal()
	switch {
	case r == nil || x.unkept:
		return nil
	case r.Error == nil:
		return &sandbox.Error{Cause: r.Cause, Message: r.Message}
	}
	r.Error.Judgment = r.Policy
	return r.Error
}

// Read reads what it wrote.
func (x *Execution) Read(ctx context.Context, which sandbox.Stream, offset int64) (sandbox.Reader, error) {
	switch {
	case x.refused:
		return nothing{}, nil
	case x.log == nil:
		return x.book.Logs.ReadLog(ctx, x.ID, which, offset)
	}
	if run := x.command(); run != nil {
		return run.Read(ctx, which, offset)
	}
	return &lateReader{x: x, which: which, offset: offset}, nil
}

// nothing is the output of an execution that never began.
type nothing struct{}

func (nothing) Next(context.Context) (sandbox.Chunk, error)  { return sandbox.Chunk{}, io.EOF }
func (nothing) Ready(context.Context) (sandbox.Chunk, error) { return sandbox.Chunk{}, io.EOF }
func (nothing) Close() error                                 { return nil }

// lateReader reads the output of an execution that may not have begun.
type lateReader struct {
	x      *Execution
	which  sandbox.Stream
	offset int64
	of     sandbox.Reader // nil until it began
}

// open is the reader to use now.
func (r *lateReader) open(ctx context.Context) (_ sandbox.Reader, err error) {
	if run := r.x.command(); r.of == nil && run != nil {
		r.of, err = run.Read(ctx, r.which, r.offset)
	}
	if r.of == nil {
		return nothing{}, err
	}
	return r.of, err
}

// Next implements sandbox.Reader.
func (r *lateReader) Next(ctx context.Context) (sandbox.Chunk, error) {
	select {
	case <-r.x.begun:
	case <-ctx.Done():
		if !isClosed(r.x.begun) { // else its end may be there already
			return sandbox.Chunk{}, ctx.Err()
		}
	}
	of, err := r.open(ctx)
	if err != nil {
		return sandbox.Chunk{}, err
	}
	return of.Next(ctx)
}

// Ready implements sandbox.Reader.
func (r *lateReader) Ready(ctx context.Context) (sandbox.Chunk, error) {
	of, err := r.open(ctx)
	if err != nil {
		return sandbox.Chunk{}, err
	}
	return of.Ready(ctx)
}

// Close implements sandbox.Reader.
func (r *lateReader) Close() error {
	if r.of == nil {
		return nil
	}
	return r.of.Close()
}

// ended is when it did.
func (x *Execution) ended(ctx context.Context) time.Time {
	if info, err := x.book.Logs.LogInfo(ctx, x.ID); err == nil {
		return info.Ended
	}
	if about, err := os.Stat(x.file); err == nil {
		return about.ModTime()
	}
	return time.Now()
}
