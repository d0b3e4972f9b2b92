package eval

import (
	"context"
	"slices"
	"sync"

	"belljar/sandbox"
)

// spares are containers that are made before they are needed: for the tests while the agent
// works, and for the next control while the tests run. Nothing ran in any but ":", and each is taken
// once.
type spares struct {
	mu   sync.Mutex
	list []*spare       // that no one took, the oldest first
	all  sync.WaitGroup // that make or remove one
}

// spare is one of them.
type spare struct {
	base  sandbox.Command
	known chan struct{} // closed once it is known whether there is a container
	made  bool
}

// isLike reports whether a container that was made for a command is what another needs.
func isLike(c, other sandbox.Command) bool {
	return c.Profile == other.Profile && c.Image == other.Image && c.Network == other.Network &&
		c.Limits.OfContainer() == other.Limits.OfContainer() && slices.Equal(c.Tmpfs, other.Tmpfs)
}

// ahead has a container made for commands such as this one, of which that user runs the first. There are at
// most as many as trials that may run at the same time: if that many are like it, trials that ended early left them.
func (h *Harness) ahead(ctx context.Context, base sandbox.Command, first sandbox.User) {
	h.spares.mu.Lock()
	defer h.spares.mu.Unlock()
	most, like := max(1, h.Jobs), 0
	for _, s := range h.spares.list {
		if isLike(s.base, base) {
			like++
		}
	}
	if like >= most || ctx.Err() != nil {
		return
	}
	for len(h.spares.list) >= most {
		h.drop(h.spares.list[0])
		h.spares.list = h.spares.list[1:]
	}
	base.Session, base.User, base.Script = h.newSession(), first, ":"
	s := &spare{base: base, known: make(chan struct{})}
	h.spares.list = append(h.spares.list, s)
	h.spares.all.Go(func() {
		defer close(s.known)
		r, err := sandbox.Run(ctx, h.Runner, s.base)
		if s.made = err == nil && r.Status == sandbox.StatusSuccess; !s.made {
			h.removeSession(ctx, s.base.Session) // what is wrong, the one that needs it finds out
		}
	})
}

// drop removes one that no one took.
func (h *Harness) drop(s *spare) {
	h.spares.all.Go(func() {
		if <-s.known; s.made {
			h.removeSession(context.Background(), s.base.Session)
		}
	})
}

// take returns the session of a container for commands such as this one, and waits for it if it is being
// made. Without any it is the name of a new one.
func (h *Harness) take(base sandbox.Command) (session string) {
	h.spares.mu.Lock()
	i := slices.IndexFunc(h.spares.list, func(s *spare) bool { return isLike(s.base, base) })
	if i < 0 {
		h.spares.mu.Unlock()
		return h.newSession()
	}
	s := h.spares.list[i]
	h.spares.list = slices.Delete(h.spares.list, i, i+1)
	h.spares.mu.Unlock()
	if <-s.known; !s.made {
		return h.newSession()
	}
	return s.base.Session
}

// dropAll removes those that no one took, and waits until all is done.
func (h *Harness) dropAll() {
	h.spares.mu.Lock()
	for _, s := range h.spares.list {
		h.drop(s)
	}
	h.spares.list = nil
	h.spares.mu.Unlock()
	h.spares.all.Wait()
}
