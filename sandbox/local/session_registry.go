package local

import (
	"context"
	"sync"

	"belljar/sandbox"
	"belljar/sandbox/internal/gate"
)

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

// closeGone closes the containers that are gone, of sessions that nobody uses.
func (s *sessions) closeGone() {
	for _, session := range s.all() {
		select {
		case session.use <- struct{}{}:
			if session.box != nil && len(session.active) == 0 && isClosed(session.box.Lost()) {
				session.drop(nil)
			}
			<-session.use
		default: // somebody does
		}
		s.letGo(session)
	}
}

// close lets go of all sessions, which live on.
func (s *sessions) close() {
	for _, session := range s.all() {
		session.use <- struct{}{}
		session.drop(nil)
		<-session.use
		s.letGo(session)
	}
}

// drop lets go of the container, which the session no longer has or which is
// gone. With a box, it does so only if that is the one.
func (s *session) drop(box sandbox.Container) {
	if s.box == nil || box != nil && s.box != box {
		return
	}
	if s.spare != nil {
		s.spare.Close()
		s.spare = nil
	}
	s.box.Close()
	s.box = nil
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
