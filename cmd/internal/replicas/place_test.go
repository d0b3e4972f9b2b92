package replicas_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"belljar/cmd/internal/access"
	"belljar/cmd/internal/problem"
	"belljar/cmd/internal/replicas"
	"belljar/sandbox"
)

// ran are all commands that ran, anywhere.
func (c *cluster) ran() (all []string) {
	for _, o := range c.all {
		o.mu.Lock()
		all = append(all, o.runs...)
		o.mu.Unlock()
	}
	return all
}

// The same key is the same request, whichever replicas get it, and however many at once.
func TestKeysAtOnce(t *testing.T) {
	c := newCluster(t, 3)
	var all sync.WaitGroup
	by := make(chan string, 30)
	for i := range 30 {
		all.Go(func() {
			got := c.all[i%3].mustAsk("POST", "/v1/executions", "build", "Idempotency-Key: build-7")
			if got.Status != 200 {
				t.Errorf("%+v", got)
			}
			by <- got.By
		})
	}
	all.Wait()
	first := <-by
	for range 29 {
		if other := <-by; other != first {
			t.Errorf("%s and %s answer", first, other)
		}
	}
	if ran := c.ran(); len(ran) != 1 {
		t.Errorf("ran %q", ran)
	}
	for _, o := range c.all {
		if got := o.mustAsk("POST", "/v1/executions", "other", "Idempotency-Key: build-7"); o.Name != first && got.Code != "conflict" {
			t.Errorf("another request: %+v", got)
		}
		if got := o.mustAsk("POST", "/v1/executions", "other", "Idempotency-Key: build-7", "Authorization: Bearer ben"); got.Status != 200 {
			t.Errorf("another owner: %+v", got)
		}
	}
}

// What a replica that was killed did with a key is not known: the command does not run again, until the key is forgotten.
func TestKeyOfADeadReplica(t *testing.T) {
	c := newCluster(t, 3)
	a, b := c.all[0], c.all[1]
	a.mustAsk("POST", "/v1/executions", "build", "Idempotency-Key: k")
	a.die()
	c.meet()
	for range 2 {
		if got := b.mustAsk("POST", "/v1/executions", "build", "Idempotency-Key: k"); got.Status != 410 || got.Code != "gone" {
			t.Errorf("%+v", got)
		}
	}
	age := func(d time.Duration) {
		c.change(func(all map[string]replicas.Entry) {
			for name, e := range all {
				if e.Kind != "replica" || !e.Lives {
					e.Age = d
					all[name] = e
				}
			}
		})
	}
	keys := func() int {
		if err := b.SweepKeys(t.Context()); err != nil {
			t.Error(err)
		}
		list, err := c.List(t.Context(), "key")
		if err != nil {
			t.Error(err)
		}
		return len(list)
	}
	b.mustAsk("POST", "/v1/executions", "other", "Idempotency-Key: own")
	age(30 * time.Minute)
	if n := keys(); n != 2 {
		t.Errorf("%d keys", n)
	}
	b.mu.Lock()
	clear(b.keys) // its execution is forgotten
	b.mu.Unlock()
	if n := keys(); n != 1 {
		t.Errorf("%d keys, with one forgotten", n)
	}
	age(2 * time.Hour)
	keys()
	if n := keys(); n != 0 {
		t.Errorf("%d keys, after their time", n)
	}
	if got := b.mustAsk("POST", "/v1/executions", "build", "Idempotency-Key: k"); got.Status != 200 {
		t.Errorf("%+v", got)
	}
}

func TestChosenIDOfASidecar(t *testing.T) {
	c := newCluster(t, 1)
	err := c.all[0].Do(nil, nil, replicas.Request{ID: c.all[0].NewID()}, func() error { return nil })
	if err == nil {
		t.Error("a caller chose an ID of a replica")
	}
}

// A session has one home, where all that it is asked goes, by whichever replica it comes.
func TestSessionsHaveOneHome(t *testing.T) {
	c := newCluster(t, 3)
	var all sync.WaitGroup
	for i := range 30 {
		all.Go(func() {
			if got := c.all[i%3].mustAsk("POST", "/v1/executions", "x", "Session: dev"); got.Status != 200 {
				t.Errorf("%+v", got)
			}
		})
	}
	all.Wait()
	home := c.all[0].mustAsk("POST", "/v1/executions", "x", "Session: dev")
	for _, o := range c.all {
		if got := o.mustAsk("PUT", "/v1/sessions/dev/files/a%2Fb?mode=0600", "text"); got.By != home.By || got.Body != "text" || got.Asked != "PUT /v1/sessions/dev/files/a%2Fb?mode=0600" {
			t.Errorf("%+v, and the home is %s", got, home.By)
		}
		if got := o.mustAsk("POST", "/v1/sessions", `{"name":"dev"}`); got.By != home.By {
			t.Errorf("%+v, and the home is %s", got, home.By)
		}
		if o.Name != home.By && len(o.has) > 0 {
			t.Errorf("%s has %v, too", o.Name, o.has)
		}
	}
	if got := c.all[0].mustAsk("GET", "/v1/sessions/none", ""); got.By != c.all[0].Name {
		t.Errorf("a session that is nowhere: %+v", got)
	}
	if list, err := c.List(t.Context(), "session"); err != nil || len(list) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
}

// A replica that is about to end gives its sessions to the others, with all that it knows of them, while requests come.
func TestDrain(t *testing.T) {
	c := newCluster(t, 3)
	a, b := c.all[0], c.all[1]
	for i := range 10 {
		a.mustAsk("POST", "/v1/executions", "x", fmt.Sprintf("Session: s%d", i))
	}
	end := a.Use("s0") // by a command
	a.Drain()
	for i := 1; i < 10; i++ {
		for _, o := range c.all {
			if got := o.mustAsk("POST", "/v1/executions", "x", fmt.Sprintf("Session: s%d", i)); got.Status != 200 || got.By == a.Name || got.Pod != "pod of "+a.Name {
				t.Errorf("%+v", got)
			}
		}
	}
	if got := a.mustAsk("POST", "/v1/executions", "x"); got.Status != 200 || got.By == a.Name {
		t.Errorf("a command without a session: %+v", got)
	}
	if got := b.mustAsk("GET", "/v1/sessions/s0", ""); got.By != a.Name {
		t.Errorf("a session that is in use: %+v", got)
	}
	answered := make(chan answer)
	go func() { answered <- b.mustAsk("POST", "/v1/executions", "x", "Session: s0") }()
	end()
	if got := <-answered; got.Status != 200 || got.Pod != "pod of "+a.Name || got.By == a.Name {
		t.Errorf("%+v", got)
	}
	if err := a.Replicas.Close(); err != nil {
		t.Error(err)
	}
	var states int
	for _, o := range c.all[1:] {
		for _, k := range o.has {
			if k.State == "as "+a.Name+" left it" && k.Owner == "ann" {
				states++
			}
		}
	}
	if states != 10 || len(a.has) != 0 {
		t.Errorf("%d sessions were handed on whole, %v stayed", states, a.has)
	}
}

// Of a replica that was killed, one other takes the sessions over, with their pods.
func TestHomeIsKilled(t *testing.T) {
	c := newCluster(t, 3)
	a := c.all[0]
	a.mustAsk("POST", "/v1/executions", "x", "Session: dev")
	a.die()
	c.meet()
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			if got := c.all[1+i%2].mustAsk("POST", "/v1/executions", "y", "Session: dev"); got.Status != 200 || got.Pod != "pod of "+a.Name {
				t.Errorf("%+v", got)
			}
		})
	}
	all.Wait()
	if n := len(c.all[1].has) + len(c.all[2].has); n != 1 {
		t.Errorf("%d replicas have it", n)
	}
}

// Without requests, sessions without a home get one, so that their idle time ends; and what is gone is forgotten.
func TestHomeless(t *testing.T) {
	c := newCluster(t, 2)
	a, b := c.all[0], c.all[1]
	a.mustAsk("POST", "/v1/executions", "x", "Session: dev")
	a.die()
	c.meet()
	if len(b.has) != 0 {
		t.Errorf("%v at once", b.has)
	}
	c.change(func(all map[string]replicas.Entry) {
		for name, e := range all {
			if e.Kind == "session" {
				e.Age = time.Minute
				all[name] = e
			}
		}
	})
	c.meet()
	if b.has["dev"].Pod != "pod of "+a.Name {
		t.Errorf("%v", b.has)
	}
}

// blindStore fails to say at first which replicas there are.
type blindStore struct {
	*store
	once sync.Once
}

func (s *blindStore) List(ctx context.Context, kind string) (list []replicas.Entry, err error) {
	if kind == "replica" {
		s.once.Do(func() { err = errors.New("the API server is overloaded") })
	}
	if err == nil {
		list, err = s.store.List(ctx, kind)
	}
	return list, err
}

// Once a bug: a replica that did not get to know at its start who else there is took all their sessions.
func TestSessionsOfUnseenReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{all: map[string]replicas.Entry{}}
		s.put(replicas.Entry{Kind: "replica", Name: "belljar-replica-abcdef", Holder: "process 1", Values: map[string]string{"address": "127.0.7.9", "proof": "x"}})
		e := s.put(replicas.Entry{Kind: "session", Name: replicas.SessionEntry("dev"), Holder: "abcdef", Values: map[string]string{"session": "dev", "owner": "ann", "pod": "theirs"}})
		e.Age = time.Hour
		s.all[e.Name] = e
		own := &one{uses: map[string]int{}, has: map[string]replicas.Kept{}}
		r, err := replicas.Join(t.Context(), replicas.Config{
			Name: replicas.NewName(), Self: "process 2", Address: netip.MustParseAddr("127.0.7.1"), Port: 1, Store: &blindStore{store: s}, Local: own, Keep: time.Hour, Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(own.has) != 0 {
			t.Errorf("it took %v", own.has)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(own.has) != 0 || len(r.Peers()) != 1 {
			t.Errorf("it took %v, and sees %v", own.has, r.Peers())
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A replica that was taken for dead leaves what others took over.
func TestTakenMeanwhile(t *testing.T) {
	c := newCluster(t, 2)
	a, b := c.all[0], c.all[1]
	a.mustAsk("POST", "/v1/executions", "x", "Session: dev")
	c.change(func(all map[string]replicas.Entry) {
		for name, e := range all {
			if e.Kind == "session" {
				e.Holder, e.Version = b.Name, "another"
				all[name] = e
			}
		}
	})
	if err := a.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(a.has) != 0 {
		t.Errorf("%v", a.has)
	}
	if err := a.Record(t.Context(), "dev", "another pod"); err == nil {
		t.Error("it records a pod for a session that is another's")
	}
}

// A front end that cannot send its requests on has the session come, if no one uses it.
func TestFetch(t *testing.T) {
	c := newCluster(t, 2)
	a, b := c.all[0], c.all[1]
	a.mustAsk("POST", "/v1/executions", "x", "Session: dev")
	fetch := func(who, session string) (err error) {
		b.handle = nil
		ctx := access.With(replicas.WithCredentials(t.Context(), "Bearer "+who), access.Identity{Name: who, Scopes: []access.Scope{access.Run}})
		defer b.Use(session)()
		return b.Fetch(ctx, session, true)
	}
	if err := fetch("ben", "dev"); err == nil {
		t.Error("another's session came")
	}
	end := a.Use("dev")
	if err := fetch("ann", "dev"); sandbox.CauseOf(err) != sandbox.CauseBusy {
		t.Errorf("one that is in use: %v", err)
	}
	end()
	if err := fetch("expired", "dev"); problem.Of(err).Code != problem.Unauthorized {
		t.Errorf("with a token that is none: %v", err)
	}
	if err := fetch("judge", "dev"); problem.Of(err).Code != problem.Forbidden || problem.Of(err).Detail == "" {
		t.Errorf("without a scope: %v", err)
	}
	if err := fetch("ann", "dev"); err != nil || b.has["dev"].Pod != "pod of "+a.Name || len(a.has) != 0 {
		t.Errorf("%v, %v", err, b.has)
	}
	if err := fetch("ben", "new"); err != nil {
		t.Error(err)
	}
	var alone *replicas.Replicas
	if err := errors.Join(alone.Fetch(t.Context(), "dev", true), alone.Close(), alone.SweepKeys(t.Context())); err != nil {
		t.Error(err)
	}
}

// Once a bug: who may only read was told that a session which no one uses is used at another replica.
func TestFetchToRead(t *testing.T) {
	c := newCluster(t, 2)
	a, b := c.all[0], c.all[1]
	a.mustAsk("POST", "/v1/executions", "x", "Session: dev", "Authorization: Bearer reader")
	ctx := access.With(replicas.WithCredentials(t.Context(), "Bearer reader"), access.Identity{Name: "reader", Scopes: []access.Scope{access.Read}})
	if err := b.Fetch(ctx, "dev", false); err != nil || b.has["dev"].Pod != "pod of "+a.Name {
		t.Errorf("%v, %v", err, b.has)
	}
}

// Once a bug: a replica that was about to end took a session from its home, asked a third one for it, and said that there is none.
func TestFetchWhileDraining(t *testing.T) {
	c := newCluster(t, 3)
	a, b := c.all[0], c.all[1]
	a.mustAsk("POST", "/v1/executions", "x", "Session: dev")
	b.mustAsk("POST", "/v1/executions", "x", "Session: own")
	end := b.Use("own") // by a command
	b.Drain()
	ctx := access.With(replicas.WithCredentials(t.Context(), "Bearer ann"), access.Identity{Name: "ann", Scopes: []access.Scope{access.Run}})
	for _, starts := range []bool{true, false} {
		for _, session := range []string{"dev", "none", "own"} {
			err := b.Fetch(ctx, session, starts)
			if has := session == "own" && !starts; has != (err == nil) || !has && problem.Of(err).Code != problem.Unavailable {
				t.Errorf("%s, starts %t: %v", session, starts, err)
			}
		}
	}
	end()
	if got := a.mustAsk("GET", "/v1/sessions/dev", ""); got.By != a.Name || len(a.gaveUp) > 0 {
		t.Errorf("%+v, gave up %q", got, a.gaveUp)
	}
}

// Once a bug: a replica that is not a session's home any more said that there is none, and one that was not reached counted as one that
// uses it.
func TestFetchFromWhoDoesNotHaveIt(t *testing.T) {
	c := newCluster(t, 3)
	a, b, other := c.all[0], c.all[1], c.all[2]
	a.mustAsk("POST", "/v1/executions", "x", "Session: dev")
	if got := other.mustAsk("POST", "/v1/sessions/dev/hand-over", "", b.Mark()); got.Status != 421 {
		t.Errorf("%+v", got)
	}
	a.Listener.Close()
	ctx, leave := context.WithTimeout(t.Context(), time.Second)
	defer leave()
	ctx = access.With(replicas.WithCredentials(ctx, "Bearer ann"), access.Identity{Name: "ann", Scopes: []access.Scope{access.Run}})
	if err := b.Fetch(ctx, "dev", false); problem.Of(err).Code != problem.Unavailable {
		t.Errorf("%v", err)
	}
}

// mute is a store of which a replica that gives a session back gets no answer: before, or after it was done.
type mute struct {
	*store
	before, after atomic.Bool
}

func (s *mute) Update(ctx context.Context, e replicas.Entry) (now replicas.Entry, err error) {
	lost := errors.New("no answer")
	gives := e.Kind == "session" && e.Holder == ""
	if gives && s.before.CompareAndSwap(true, false) {
		return now, lost
	}
	now, err = s.store.Update(ctx, e)
	if gives && s.after.CompareAndSwap(true, false) {
		return replicas.Entry{}, lost
	}
	return now, err
}

// Once a bug: a replica that gave a session back, and did not hear that this was done, took itself for its home beside the next one.
func TestGivenBackWithoutAnAnswer(t *testing.T) {
	for _, done := range []bool{true, false} {
		c := newCluster(t, 1)
		s := &mute{store: c.store}
		a, b := c.add(func(config *replicas.Config) { config.Store = s }), c.all[0]
		c.meet()
		first := a.mustAsk("POST", "/v1/executions", "x", "Session: dev")
		s.before.Store(!done)
		s.after.Store(done)
		ctx := access.With(replicas.WithCredentials(t.Context(), "Bearer ann"), access.Identity{Name: "ann", Scopes: []access.Scope{access.Run}})
		if err := b.Fetch(ctx, "dev", true); err != nil {
			t.Fatal(err)
		}
		for _, o := range []*one{a, b} {
			if got := o.mustAsk("POST", "/v1/executions", "y", "Session: dev"); first.By != a.Name || got.By != b.Name || got.Pod != "pod of "+a.Name {
				t.Errorf("done %t: %+v, and at first %+v", done, got, first)
			}
		}
		if err := a.Look(t.Context()); err != nil || len(a.has) != 0 || b.has["dev"].State != "as "+a.Name+" left it" {
			t.Errorf("done %t: %v stays, %v came, error %v", done, a.has, b.has, err)
		}
	}
}

// One that no other replica has come for is asked for as before, and is given back by the next try.
func TestGivenBackAgain(t *testing.T) {
	for _, done := range []bool{true, false} {
		c := newCluster(t, 0)
		s := &mute{store: c.store}
		a := c.add(func(config *replicas.Config) { config.Store = s })
		for range 2 {
			a.mustAsk("POST", "/v1/executions", "x", "Session: dev")
			s.before.Store(!done)
			s.after.Store(done)
			if err := a.GiveBack(t.Context(), "dev"); err == nil {
				t.Error("nothing was lost")
			}
		}
		if got := a.mustAsk("POST", "/v1/executions", "x", "Session: dev"); got.Status != 200 || got.By != a.Name || got.Pod != "pod of "+a.Name {
			t.Errorf("done %t: %+v", done, got)
		}
		if err := a.GiveBack(t.Context(), "dev"); err != nil || len(a.has) != 0 || c.store.all[replicas.SessionEntry("dev")].Holder != "" {
			t.Errorf("done %t: %v stays, error %v", done, a.has, err)
		}
	}
}
