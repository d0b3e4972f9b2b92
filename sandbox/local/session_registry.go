package local

import (
	"context"
	"sync"

	"belljar/sandbox"
	"belljar/sandbox/internal/gate"
)

// sessions are those that this process uses, or has a container
// open of.
type sessions struct {
	mu   sync.Mutex
	live map[string]*session

	mayExpire func(ctx context.Context, name string) bool // see ExpireOnly; may be nil
}

// session is this process's view of a session. What other processes must know, too,
// is in its record.
type session struct {
	name   string
	refs   int           // number of users, counted from before they use it; sessions.mu guards it
	turns  chan struct{} // holds the turn of a command that is not parallel
	access chan struct{} // holds the right to use the record and the fields below

	box    sandbox.Container // nil where this process has none open
	made   sandbox.Kept      // what box was made as
	spare  *gate.Gate        // waits for the next command of the same user
	active map[string]bool
}

// acquire returns the session, retained.
func (s *sessions) acquire(name string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live == nil {
		s.live = map[string]*session{}
	}
	if s.live[name] == nil {
		s.live[name] = &session{name: name, turns: make(chan struct{}, 1), access: make(chan struct{}, 1), active: map[string]bool{}}
	}
	s.live[name].refs++
	return s.live[name]
}

// retain is for a further user of a session that is already acquired.
func (s *sessions) retain(session *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	session.refs++
}

// release ends a use of the session. It must not be used afterwards. A session with nothing
// open is forgotten then: names are unlimited.
func (s *sessions) release(session *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if session.refs--; session.refs == 0 && session.box == nil {
		delete(s.live, session.name)
	}
}

// acquireAll returns all sessions of this process, retained.
func (s *sessions) acquireAll() []*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*session
	for _, session := range s.live {
		session.refs++
		list = append(list, session)
	}
	return list
}

// closeEnded closes the containers that ended, of unused sessions.
func (s *sessions) closeEnded() {
	for _, session := range s.acquireAll() {
		select {
		case session.access <- struct{}{}:
			if session.box != nil && len(session.active) == 0 && isClosed(session.box.Lost()) {
				session.detach(nil)
			}
			<-session.access
		default: // in use
		}
		s.release(session)
	}
}

// close releases all sessions. Their containers run on.
func (s *sessions) close() {
	for _, session := range s.acquireAll() {
		session.access <- struct{}{}
		session.detach(nil)
		<-session.access
		s.release(session)
	}
}

// detach closes the container, which the session no longer has or which is
// gone. With a box, it does so only if that is the current one.
func (s *session) detach(box sandbox.Container) {
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

// acquire takes the one place in a channel.
func acquire(ctx context.Context, c chan struct{}) error {
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
