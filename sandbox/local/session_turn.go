package local

import (
	"context"
	"fmt"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/internal/record"
)

// waitsFor is how long a command waits for its turn before it says so.
const waitsFor = 200 * time.Millisecond

// request is a command, with everything that decides about its place.
type request struct {
	command   sandbox.Command
	profile   sandbox.Profile
	secrets   []string        // "NAME=value"
	approval  sessionApproval // the approval's, in the session
	narrowing narrowing       // by the policy
}

// sessionTurn is a command's turn in a session: alone, or in parallel with other parallel
// ones, also of other processes.
type sessionTurn struct {
	request
	local   *Local
	session *session
	store   record.Store
}

// sessionTurn waits for the command's turn, and calls waits if that takes a
// while.
func (l *Local) sessionTurn(ctx context.Context, r request, waits func()) (*sessionTurn, error) {
	name := r.command.Session
	t := &sessionTurn{request: r, local: l, session: l.sessions.acquire(name), store: record.Store{Dir: l.sessionDir(), Name: name}}
	called := make(chan struct{})
	timer := time.AfterFunc(waitsFor, func() { // a timer, as giving up the wait would lose the place in the queue
		defer close(called)
		waits()
	})
	err := t.wait(ctx)
	if !timer.Stop() {
		<-called
	}
	if err == nil {
		return t, nil
	}
	l.sessions.release(t.session)
	if ctx.Err() != nil {
		err = l.admission.waitError(ctx, l.Admission, fmt.Sprintf("another command runs in session %q, and did not end", name))
	}
	return nil, err
}

func (t *sessionTurn) wait(ctx context.Context) error {
	parallel := t.command.Parallel
	if !parallel {
		if err := acquire(ctx, t.session.turns); err != nil {
			return err
		}
	}
	var err error
	if t.store.Turn, err = t.store.LockTurn(ctx, !parallel); err != nil && !parallel {
		<-t.session.turns
	}
	return err
}

// release ends the turn, so that the next one begins.
func (t *sessionTurn) release() {
	t.store.Turn.Close()
	if !t.command.Parallel {
		<-t.session.turns
	}
	t.local.sessions.release(t.session)
}

// change reads and writes the session and its record, with exclusive access.
func (t *sessionTurn) change(ctx context.Context, change func(r *record.Record) error) error {
	if err := acquire(ctx, t.session.access); err != nil {
		return err
	}
	defer func() { <-t.session.access }()
	return t.store.Change(ctx, change)
}
