package boxlink

import (
	"context"
	"io"
	"sync"
)

// Shared is this process's one link to a container's init, over a connection of the type C. All handles of the container are its users:
// the last one closes it.
type Shared[C io.ReadWriteCloser] struct {
	*Link        // nil before Greet
	Conn  C      // what carries it
	Yield func() // lets other processes attach to the init: called once it is closed, if not nil

	table *Table[C]
	id    string
	users int // guarded by table.mu
	once  sync.Once
}

// Table is an engine's links, by the IDs of their containers. The zero value is an empty one.
type Table[C io.ReadWriteCloser] struct {
	mu        sync.Mutex
	all       map[string]*Shared[C]
	following sync.WaitGroup // see Follow
}

// Greet waits for the init's first answer, and closes the link where there is none.
func (s *Shared[C]) Greet(ctx context.Context) error {
	s.Link = Frames(s.Conn)
	err := s.Hello(ctx)
	if err != nil {
		s.Close()
	}
	return err
}

// Use returns the link of a container, for one more user, or nil. A broken one is of no use to a new user.
func (t *Table[C]) Use(id string) *Shared[C] {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.all[id]
	if s == nil || s.Broken() {
		return nil
	}
	s.users++
	return s
}

// Add takes up a link that answers, which has one user.
func (t *Table[C]) Add(id string, s *Shared[C]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == nil {
		t.all = map[string]*Shared[C]{}
	}
	t.all[id], s.table, s.id, s.users = s, t, id, 1
}

// AddUser is called by who has the link in use already.
func (s *Shared[C]) AddUser() {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	s.users++
}

// Release is called by each user, at last.
func (s *Shared[C]) Release() {
	t := s.table
	t.mu.Lock()
	s.users--
	last := s.users == 0
	if last && t.all[s.id] == s {
		delete(t.all, s.id)
	}
	t.mu.Unlock()
	if last {
		s.Close()
	}
}

// Follow runs f, as one more user, which f releases. Closing the table joins it.
func (s *Shared[C]) Follow(f func()) {
	s.AddUser()
	s.table.following.Go(f)
}

// Broken reports whether the link is at its end.
func (s *Shared[C]) Broken() bool {
	select {
	case <-s.Done():
		return true
	default:
		return false
	}
}

// Close ends what the link carries, for all its users. A container that ends with it does so now.
func (s *Shared[C]) Close() {
	s.once.Do(func() {
		if s.Link != nil {
			s.Link.Close()
		}
		s.Conn.Close()
		if s.Yield != nil {
			s.Yield()
		}
	})
}

// Close closes all links that are left.
func (t *Table[C]) Close() {
	t.mu.Lock()
	all := t.all
	t.all = nil
	t.mu.Unlock()
	for _, s := range all {
		s.Close()
	}
	t.following.Wait()
}
