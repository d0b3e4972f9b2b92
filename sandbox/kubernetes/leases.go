package kubernetes

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/internal/kube"
)

const (
	// leaseFor is how long a process that is not heard of counts as running, and renewEach how often it is heard of.
	leaseFor, renewEach = 40 * time.Second, 10 * time.Second
	// clockError is by how much a lease's time may be wrong, besides what writing it took.
	clockError = 2 * time.Second
	// leasePrefix is of the names of processes' leases, holdPrefix of those of sessions that a process is attached to.
	leasePrefix, holdPrefix = "belljar-", "belljar-session-"
)

// leases are this process's own, and those of the sessions that it is attached to.
type leases struct {
	engine *Engine
	maker  string        // in each of them: who is named as the holder may be a process with several engines
	each   time.Duration // renewEach, but in tests
	doomed doomed

	mu     sync.Mutex
	making *making // while own is made
	own    *lease
	held   map[string]*lease        // those of sessions, by their names
	alone  map[string]chan struct{} // see reaching
}

// holder names this process, for others of its host and for people.
func (e *Engine) holder() string { return e.owner.Host + " " + e.owner.Process + " " + e.owner.Name }

// gone reports whether the holder is a process of this host that has ended.
func (e *Engine) gone(holder string) bool {
	parts := strings.SplitN(holder, " ", 3)
	return len(parts) == 3 && e.owner.Gone(parts[0], parts[1])
}

func (s *leases) fresh(name string) *kube.Lease {
	now := kube.MicroTime(s.engine.client.Now())
	return &kube.Lease{
		APIVersion: "coordination.k8s.io/v1", Kind: "Lease",
		Metadata: kube.Meta{Name: name, Labels: map[string]string{labelManaged: managedBy}, Annotations: map[string]string{noteMaker: s.maker}},
		Spec:     kube.LeaseSpec{HolderIdentity: s.engine.holder(), LeaseDurationSeconds: int(leaseFor / time.Second), AcquireTime: now, RenewTime: now},
	}
}

// isOurs reports whether this engine has made or taken a lease.
func (s *leases) isOurs(l kube.Lease) bool { return l.Metadata.Annotations[noteMaker] == s.maker }

func (s *leases) create(ctx context.Context, name string) (kube.Lease, error) {
	return s.engine.makeLease(ctx, s.engine.namespace, *s.fresh(name))
}

func (s *leases) get(ctx context.Context, name string) (there kube.Lease, err error) {
	return there, s.engine.client.Get(ctx, kube.LeasePath(s.engine.namespace, name), nil, &there)
}

// making is one attempt to make this process's lease.
type making struct {
	done chan struct{} // closed once it is over
	name string        // then
	err  error         // the same
}

// ofProcess is the name of this process's lease, which there is from now on. All wait for one attempt to make it, until ctx ends, and
// take its error: else they would try in turn where the API server does not answer.
func (s *leases) ofProcess(ctx context.Context) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	s.mu.Lock()
	if s.own != nil {
		defer s.mu.Unlock()
		return s.own.name, nil
	}
	m := s.making
	if m == nil {
		m = &making{done: make(chan struct{})}
		s.making = m
		s.engine.all.Go(func() {
			own, err := s.makeOwn(ctx)
			s.mu.Lock()
			defer s.mu.Unlock()
			if m.err = err; err == nil {
				s.own, m.name = own, own.name
			}
			s.making = nil
			close(m.done)
		})
	}
	s.mu.Unlock()
	select {
	case <-m.done:
		return m.name, m.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func (s *leases) makeOwn(ctx context.Context) (*lease, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout) // a lease that was made all the same would stay
	defer cancel()
	made, err := s.create(ctx, leasePrefix+strings.ToLower(rand.Text()))
	if err != nil {
		return nil, callError(err, "making this process's lease in namespace %q", s.engine.namespace)
	}
	return s.keep(made), nil
}

// keep renews a lease from now on.
func (s *leases) keep(l kube.Lease) *lease {
	life, end := context.WithCancel(s.engine.life)
	k := &lease{of: s, name: l.Metadata.Name, end: end, done: make(chan struct{}), now: l}
	s.engine.all.Go(func() { k.renewals(life) })
	return k
}

// releaseAll deletes all leases.
func (s *leases) releaseAll() error {
	s.mu.Lock()
	own := s.own
	var all []*lease
	for _, l := range s.held {
		all = append(all, l)
	}
	s.own = nil
	s.mu.Unlock()
	if own != nil {
		all = append(all, own)
	}
	errs := make([]error, len(all))
	var each sync.WaitGroup
	for i, l := range all {
		each.Go(func() { errs[i] = l.release() })
	}
	each.Wait()
	return errors.Join(errs...)
}

// over reports whether what is to be deleted is gone, or another of that name is there.
func over(err error) bool {
	return kube.CodeOf(err) == http.StatusNotFound || kube.CodeOf(err) == http.StatusConflict
}

// takeTries is how often it is tried to make a lease or to take it over.
const takeTries = 5

// take takes the right to be attached to a session's init, which one process at a time has: by a lease, if no other process has it. It is
// called by who is alone in reaching the session.
func (s *leases) take(ctx context.Context, uid string) (*lease, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	name := holdPrefix + uid
	s.mu.Lock()
	old := s.held[name]
	s.mu.Unlock()
	if old != nil {
		old.release() // it was for a connection that broke
	}
	made, err := s.takeOnce(ctx, name)
	for try := 1; over(err) && try < takeTries; try++ { // a sweep removed that of a process that ended, or another process was first
		made, err = s.takeOnce(ctx, name)
	}
	if err != nil {
		if sandbox.CauseOf(err) == sandbox.CauseBusy {
			return nil, err
		}
		return nil, callError(err, "taking lease %s", name)
	}
	taken := s.keep(made)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held == nil {
		s.held = map[string]*lease{}
	}
	s.held[name] = taken
	return taken, nil
}

func (s *leases) takeOnce(ctx context.Context, name string) (kube.Lease, error) {
	made, err := s.create(ctx, name)
	if kube.CodeOf(err) == http.StatusConflict {
		return s.takeOver(ctx, name)
	}
	return made, err
}

// errUncertain is that the process may have ended long ago: where there was an outage just now, it renews its lease soon.
var errUncertain = errors.New("as far as is known, just after this one began")

// takeOver takes a lease that no process has any more, or this one after all: it did not get the answer that it has it.
func (s *leases) takeOver(ctx context.Context, name string) (taken kube.Lease, err error) {
	there, err := s.get(ctx, name)
	if err != nil {
		return taken, err
	}
	held, err := s.engine.mayHold(ctx, there)
	switch {
	case s.isOurs(there):
	case err != nil:
		return taken, err
	case held:
		var why error
		if there.Ended(s.engine.client.Now()) {
			why = errUncertain
		}
		busy := engineError(why, "another belljar process uses the session now").As(sandbox.CauseBusy).Hint("run the command again once that has ended")
		busy.RetryAfter = time.Second
		return taken, busy
	}
	next := s.fresh(name)
	next.Metadata.UID, next.Metadata.ResourceVersion = there.Metadata.UID, there.Metadata.ResourceVersion
	return s.engine.putLease(ctx, kube.LeasePath(s.engine.namespace, name), *next)
}

// reaching waits until no one else in this process attaches to a session, and keeps others waiting until done.
func (s *leases) reaching(ctx context.Context, uid string) (done func(), err error) {
	for {
		s.mu.Lock()
		busy, is := s.alone[uid]
		if !is {
			if s.alone == nil {
				s.alone = map[string]chan struct{}{}
			}
			mine := make(chan struct{})
			s.alone[uid] = mine
			s.mu.Unlock()
			return func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				delete(s.alone, uid)
				close(mine)
			}, nil
		}
		s.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
