package local

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/internal/gate"
	"belljar/sandbox/internal/record"
)

// expirePause is how often sessions are looked through for idle ones.
const expirePause = 5 * time.Second

// waitsFor is how long a command waits for its turn before it says so.
const waitsFor = 200 * time.Millisecond

// sessions are those that this process has to do with: that somebody holds, or
// that have a container open.
type sessions struct {
	mu   sync.Mutex
	live map[string]*session
}

// session is one as this process knows it. What other processes must know, too,
// is in its record.
type session struct {
	name  string
	held  int           // by how many it is used, or about to be; sessions.mu guards it
	turns chan struct{} // holds the turn of a command that is not parallel
	use   chan struct{} // holds the right to use what follows, and the record

	box    sandbox.Container // nil where this process has none open
	made   sandbox.Kept      // what box was made as
	spare  *gate.Gate        // waits for the next command, of the same user
	active map[string]bool
}

// get is the session, held.
func (s *sessions) get(name string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live == nil {
		s.live = map[string]*session{}
	}
	if s.live[name] == nil {
		s.live[name] = &session{name: name, turns: make(chan struct{}, 1), use: make(chan struct{}, 1), active: map[string]bool{}}
	}
	s.live[name].held++
	return s.live[name]
}

// hold is for who goes on with a session beside its holder.
func (s *sessions) hold(session *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	session.held++
}

// letGo is the last that a holder does with a session. One that has nothing open
// then is forgotten: there is no end to names.
func (s *sessions) letGo(session *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if session.held--; session.held == 0 && session.box == nil {
		delete(s.live, session.name)
	}
}

// all are the sessions known here, held.
func (s *sessions) all() []*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*session
	for _, session := range s.live {
		session.held++
		list = append(list, session)
	}
	return list
}

// lock waits for its place in a channel of one.
func lock(ctx context.Context, c chan struct{}) error {
	select {
	case c <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// sessionTurn is a command's turn in a session: alone, or beside other parallel
// ones, also of other processes.
type sessionTurn struct {
	x       *execution
	session *session
	store   record.Store
	lock    *os.File
	lost    bool   // the session is, and that was told
	why     string // it is, by us
}

// turn waits for the command's turn.
func (s *sessions) turn(ctx context.Context, x *execution) (*sessionTurn, error) {
	t := &sessionTurn{x: x, session: s.get(x.command.Session), store: record.Store{Dir: x.local.sessionDir(), Name: x.command.Session}}
	told := make(chan struct{})
	waits := time.AfterFunc(waitsFor, func() { // beside the wait, which keeps its place among others
		defer close(told)
		x.output.emit(sandbox.Event{Type: sandbox.EventNotice, Waits: true, Data: fmt.Appendf(nil, "waiting for session %q: another command runs in it", t.session.name)})
	})
	err := t.wait(ctx)
	if !waits.Stop() {
		<-told
	}
	if err == nil {
		return t, nil
	}
	s.letGo(t.session)
	if ctx.Err() != nil {
		err = x.local.admission.waited(ctx, x.local.Admission)
	}
	return nil, err
}

func (t *sessionTurn) wait(ctx context.Context) error {
	parallel := t.x.command.Parallel
	if !parallel {
		if err := lock(ctx, t.session.turns); err != nil {
			return err
		}
	}
	var err error
	if t.lock, err = t.store.LockTurn(ctx, !parallel); err != nil && !parallel {
		<-t.session.turns
	}
	return err
}

// end passes the turn on.
func (t *sessionTurn) end() {
	t.lock.Close()
	if !t.x.command.Parallel {
		<-t.session.turns
	}
	t.x.local.sessions.letGo(t.session)
}

// change reads and writes the session and its record, alone.
func (t *sessionTurn) change(ctx context.Context, change func(r *record.Record) error) error {
	if err := lock(ctx, t.session.use); err != nil {
		return err
	}
	defer func() { <-t.session.use }()
	return t.store.Change(ctx, change)
}
