package kubernetes

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/internal/kube"
)

const (
	// leaseFor is how long a process that is not heard of counts as running, and renewEach how often it is heard of.
	leaseFor, renewEach = 40 * time.Second, 10 * time.Second
	// leasePrefix is of the names of processes' leases, holdPrefix of those of sessions that a process is attached to.
	leasePrefix, holdPrefix = "belljar-", "belljar-session-"
)

// leases are what this process renews: its own, and those of the sessions it is attached to.
type leases struct {
	engine *Engine
	mu     sync.Mutex
	own    string // the name of this process's, "" before there is one
	held   map[string]*kube.Lease
	doomed map[string]string // pods that could not be deleted, by their UIDs: their names
	renews bool
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
		Metadata: kube.Meta{Name: name, Labels: map[string]string{labelManaged: managedBy}},
		Spec:     kube.LeaseSpec{HolderIdentity: s.engine.holder(), LeaseDurationSeconds: int(leaseFor / time.Second), AcquireTime: now, RenewTime: now},
	}
}

// ofProcess is the name of this process's lease, which there is from now on.
func (s *leases) ofProcess(ctx context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.own != "" {
		return s.own, nil
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	name := leasePrefix + strings.ToLower(rand.Text())
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout) // a lease that was made all the same would stay
	defer cancel()
	var made kube.Lease
	if err := s.engine.client.Create(ctx, kube.LeasesPath(s.engine.namespace), s.fresh(name), &made); err != nil {
		return "", callError(err, "making this process's lease in namespace %q", s.engine.namespace)
	}
	s.keepLocked(&made)
	s.own = name
	return name, nil
}

// keepLocked renews a lease from now on.
func (s *leases) keepLocked(l *kube.Lease) {
	if s.held == nil {
		s.held = map[string]*kube.Lease{}
	}
	s.held[l.Metadata.Name] = l
	s.renewLocked()
}

func (s *leases) renewLocked() {
	if !s.renews {
		s.renews = true
		s.engine.all.Go(s.renew)
	}
}

// renew renews all leases, and tries again to delete pods, until the engine is closed.
func (s *leases) renew() {
	tick := time.NewTicker(renewEach)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-s.engine.life.Done():
			return
		}
		s.mu.Lock()
		names, doomed := slices.Collect(maps.Keys(s.held)), maps.Clone(s.doomed)
		s.mu.Unlock()
		for _, name := range names {
			s.renewOne(name)
		}
		for uid, name := range doomed {
			s.retry(uid, name)
		}
	}
}

// renewOne renews a lease. One that another process has deleted is made again: this process still runs.
func (s *leases) renewOne(name string) {
	ctx, cancel := context.WithTimeout(s.engine.life, renewEach/2)
	defer cancel()
	s.mu.Lock()
	old := s.held[name]
	s.mu.Unlock()
	if old == nil {
		return
	}
	next := *old
	next.Spec.RenewTime = kube.MicroTime(s.engine.client.Now())
	var now kube.Lease
	err := s.engine.client.Update(ctx, kube.LeasePath(s.engine.namespace, name), &next, &now)
	switch kube.CodeOf(err) {
	case http.StatusNotFound:
		err = s.engine.client.Create(ctx, kube.LeasesPath(s.engine.namespace), s.fresh(name), &now)
	case http.StatusConflict: // it was changed: whose it is now, it is to say
		err = s.engine.client.Get(ctx, kube.LeasePath(s.engine.namespace, name), nil, &now)
		if err == nil && now.Spec.HolderIdentity != s.engine.holder() {
			s.drop(name)
			return
		}
	}
	if err != nil {
		return // the next time may do
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[name] != nil {
		s.held[name] = &now
	}
}

func (s *leases) drop(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, name)
}

// doom has a pod deleted later.
func (s *leases) doom(uid, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.doomed == nil {
		s.doomed = map[string]string{}
	}
	s.doomed[uid] = name
	s.renewLocked()
}

func (s *leases) retry(uid, name string) {
	ctx, cancel := context.WithTimeout(s.engine.life, callTimeout)
	defer cancel()
	if s.engine.delete(ctx, name, uid, 1) == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.doomed, uid)
	}
}

// releaseAll deletes all leases.
func (s *leases) releaseAll() error {
	s.mu.Lock()
	held := s.held
	s.held, s.own = nil, ""
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	var errs []error
	for name, l := range held {
		if err := s.engine.client.Delete(ctx, kube.LeasePath(s.engine.namespace, name), l.Metadata.UID, 0); err != nil && !over(err) {
			errs = append(errs, fmt.Errorf("deleting lease %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// over reports whether what is to be deleted is gone, or another of that name is there.
func over(err error) bool {
	return kube.CodeOf(err) == http.StatusNotFound || kube.CodeOf(err) == http.StatusConflict
}

// hold is the right to be attached to a session's init, which one process at a time has.
type hold struct {
	of   *leases
	name string
}

// take takes the right, if no other process has it.
func (s *leases) take(ctx context.Context, uid string) (*hold, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	name := holdPrefix + uid
	var made, there kube.Lease
	err := s.engine.client.Create(ctx, kube.LeasesPath(s.engine.namespace), s.fresh(name), &made)
	if kube.CodeOf(err) == http.StatusConflict {
		if err = s.engine.client.Get(ctx, kube.LeasePath(s.engine.namespace, name), nil, &there); err != nil {
			return nil, callError(err, "reading lease %s", name)
		}
		if !there.Ended(s.engine.client.Now()) && !s.engine.gone(there.Spec.HolderIdentity) {
			busy := engineError(nil, "another belljar process uses the session now").As(sandbox.CauseBusy).Hint("run the command again once that has ended")
			busy.RetryAfter = time.Second
			return nil, busy
		}
		next := s.fresh(name)
		next.Metadata.ResourceVersion = there.Metadata.ResourceVersion
		err = s.engine.client.Update(ctx, kube.LeasePath(s.engine.namespace, name), next, &made)
	}
	if err != nil {
		return nil, callError(err, "taking lease %s", name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keepLocked(&made)
	return &hold{s, name}, nil
}

// release lets others attach.
func (h *hold) release() {
	h.of.mu.Lock()
	l := h.of.held[h.name]
	delete(h.of.held, h.name)
	h.of.mu.Unlock()
	if l == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	e := h.of.engine
	e.client.Delete(ctx, kube.LeasePath(e.namespace, h.name), l.Metadata.UID, 0) // else it ends by itself
}
