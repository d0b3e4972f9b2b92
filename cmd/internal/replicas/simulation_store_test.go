package replicas_test

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"time"

	"belljar/cmd/internal/replicas"
)

const (
	// callTime bounds each call of a Store, as that of Leases does, and leaseTime is how long a replica counts that is not heard of.
	callTime, leaseTime = 10 * time.Second, 40 * time.Second
)

// kept is an entry, and when it was renewed.
type kept struct {
	replicas.Entry
	renewed time.Time
}

func (k kept) now() replicas.Entry {
	e := k.Entry
	e.Age = time.Since(k.renewed)
	e.Lives, e.Values = e.Age <= e.For, maps.Clone(e.Values)
	return e
}

// faultyStore is the store of one replica: its answers are slow, are lost, or come before anything is done.
type faultyStore struct {
	*node
}

var errServer = errors.New("the API server is overloaded")

// call does something at the API server. It may be done after its error was returned.
func (s faultyStore) call(ctx context.Context, write bool, do func() (replicas.Entry, error)) (none replicas.Entry, _ error) {
	s.awake()
	w := s.world
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	w.mu.Lock()
	before, after := w.latency(), w.latency()
	refused, lost, late := w.faulty(w.errors), write && w.faulty(w.errors), write && w.faulty(w.errors/2)
	lateBy := time.Duration(w.random.Int64N(int64(20 * time.Second)))
	until := w.down
	if s.down.After(until) {
		until = s.down
	}
	hangs := w.random.IntN(2) == 0
	w.mu.Unlock()
	if time.Now().Before(until) {
		if !hangs {
			return none, errServer
		}
		before += time.Until(until)
	}
	if !pass(ctx, before) {
		if late {
			w.late(do)
		}
		return none, ctx.Err()
	}
	switch {
	case s.isDead():
		return none, errServer
	case refused:
		return none, errServer
	case late:
		time.AfterFunc(lateBy, func() { w.late(do) })
		return none, errServer
	}
	w.storeMu.Lock()
	e, err := do()
	w.storeMu.Unlock()
	if !pass(ctx, after) {
		return none, ctx.Err()
	}
	if s.awake(); lost || s.isDead() {
		return none, errServer
	}
	return e, err
}

// late does what no one waits for any more.
func (w *world) late(do func() (replicas.Entry, error)) {
	w.storeMu.Lock()
	defer w.storeMu.Unlock()
	_, _ = do()
}

func pass(ctx context.Context, long time.Duration) bool {
	t := time.NewTimer(long)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s faultyStore) List(ctx context.Context, kind string) (list []replicas.Entry, err error) {
	_, err = s.call(ctx, false, func() (none replicas.Entry, _ error) {
		for _, k := range s.world.entries {
			if k.Kind == kind {
				list = append(list, k.now())
			}
		}
		return none, nil
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

func (s faultyStore) Get(ctx context.Context, name string) (replicas.Entry, error) {
	return s.call(ctx, false, func() (none replicas.Entry, _ error) {
		k, there := s.world.entries[name]
		if !there {
			return none, replicas.ErrNone
		}
		return k.now(), nil
	})
}

func (w *world) put(e replicas.Entry, renewed time.Time) replicas.Entry {
	w.version++
	e.Version, e.Values = strconv.Itoa(w.version), maps.Clone(e.Values)
	k := kept{e, renewed}
	w.entries[e.Name] = k
	return k.now()
}

func (s faultyStore) Create(ctx context.Context, e replicas.Entry) (replicas.Entry, error) {
	renewed := time.Now()
	return s.call(ctx, true, func() (none replicas.Entry, _ error) {
		if _, there := s.world.entries[e.Name]; there {
			return none, replicas.ErrTaken
		}
		s.world.logf("%s: %s is made, for %q", s.name, e.Name, e.Holder)
		if e.Kind == "session" {
			s.world.moves(e.Values["session"], e.Holder, s.name)
		}
		return s.world.put(e, renewed), nil
	})
}

func (s faultyStore) Update(ctx context.Context, e replicas.Entry) (replicas.Entry, error) {
	renewed := time.Now()
	return s.call(ctx, true, func() (none replicas.Entry, _ error) {
		old, there := s.world.entries[e.Name]
		switch {
		case !there:
			return none, replicas.ErrNone
		case old.Version != e.Version:
			return none, replicas.ErrTaken
		case e.Kind == "replica":
			s.world.renews(e.Name, old)
		default:
			if e.Kind == "session" {
				s.world.moves(e.Values["session"], e.Holder, s.name)
			}
			s.world.logf("%s: %s is changed, from %q %v to %q %v", s.name, e.Name, old.Holder, old.Values, e.Holder, e.Values)
		}
		return s.world.put(e, renewed), nil
	})
}

func (s faultyStore) Delete(ctx context.Context, e replicas.Entry) error {
	_, err := s.call(ctx, true, func() (none replicas.Entry, _ error) {
		if s.world.entries[e.Name].Version == e.Version {
			s.world.logf("%s: %s is deleted", s.name, e.Name)
			if e.Kind == "session" {
				s.world.moves(e.Values["session"], "", s.name)
			}
			delete(s.world.entries, e.Name)
		}
		return none, nil
	})
	return err
}

// renews notes when a replica counted as dead.
func (w *world) renews(name string, old kept) {
	if time.Since(old.renewed) > leaseTime {
		w.lapsed[name] = time.Now()
	}
}

// lapsedSince reports whether a replica counted as dead at some time since.
func (w *world) lapsedSince(n *node, since time.Time) bool {
	w.storeMu.Lock()
	defer w.storeMu.Unlock()
	return w.lapsedAt(n.name, since)
}

// lapsedAt is lapsedSince with w.storeMu held.
func (w *world) lapsedAt(replica string, since time.Time) bool {
	name := "belljar-replica-" + replica
	k, there := w.entries[name]
	return !there || k.Holder == "" || time.Since(k.renewed) > leaseTime || !w.lapsed[name].Before(since)
}
