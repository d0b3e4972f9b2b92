package replicas_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"belljar/cmd/internal/problem"
	"belljar/cmd/internal/replicas"
)

// distrustful is a cluster of n replicas. The first one drains, and reaches no other one until trusts is set. secure is for those that
// are added later.
func distrustful(t *testing.T, n int) (c *cluster, secure func(*replicas.Config), trusts *atomic.Bool) {
	t.Helper()
	c, trusts = newCluster(t, 0), &atomic.Bool{}
	trusted := x509.NewCertPool()
	secure = func(config *replicas.Config) {
		first := len(c.all) == 0
		config.Secure = func() (*tls.Config, error) {
			if first && !trusts.Load() {
				return &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "example.com"}, nil
			}
			return &tls.Config{RootCAs: trusted, ServerName: "example.com"}, nil
		}
	}
	for range n {
		c.add(secure)
	}
	trusted.AddCert(c.all[1].Certificate())
	c.meet()
	c.meet() // so that the first look of upkeep is over, too: the first one is not to find who is added later
	c.all[0].Drain()
	return c, secure, trusts
}

// Once a bug: a replica that did not reach the one that it had chosen for a key chose another one, while a third replica's
// request with that key ran at the first.
func TestKeyRunsOnce(t *testing.T) {
	c, _, trusts := distrustful(t, 3)
	a, b, other := c.all[0], c.all[1], c.all[2]
	const keys = 6
	var all sync.WaitGroup
	for i := range keys {
		all.Go(func() {
			if got := a.mustAsk("POST", "/v1/executions", fmt.Sprint(i), fmt.Sprintf("Idempotency-Key: k%d", i)); got.Status != 200 {
				t.Errorf("%+v", got)
			}
		})
	}
	for len(c.leases("key")) < keys {
		time.Sleep(10 * time.Millisecond)
	}
	for i := range keys {
		for _, o := range []*one{b, other} {
			if got := o.mustAsk("POST", "/v1/executions", fmt.Sprint(i), fmt.Sprintf("Idempotency-Key: k%d", i)); got.Status != 200 {
				t.Errorf("%+v", got)
			}
		}
	}
	trusts.Store(true)
	all.Wait()
	ran := c.ran()
	slices.Sort(ran)
	if !slices.Equal(ran, []string{"0", "1", "2", "3", "4", "5"}) {
		t.Errorf("ran %q", ran)
	}
}

// Once a bug: a replica that did not reach the one that it had chosen for a key chose another one, while the caller's request with
// that key ran at the first.
func TestKeyStaysWhereItRan(t *testing.T) {
	c, secure, trusts := distrustful(t, 2)
	a, b := c.all[0], c.all[1]
	var asked sync.WaitGroup
	asked.Go(func() {
		if got := a.mustAsk("POST", "/v1/executions", "x", "Idempotency-Key: k"); got.Status != 410 {
			t.Errorf("where it did not run: %+v", got)
		}
	})
	for len(c.leases("key")) == 0 {
		time.Sleep(10 * time.Millisecond)
	}
	if got := b.mustAsk("POST", "/v1/executions", "x", "Idempotency-Key: k"); got.Status != 200 {
		t.Errorf("where it runs: %+v", got)
	}
	c.add(secure)
	b.die()
	if err := a.Look(t.Context()); err != nil { // so that the new one is all that it can choose
		t.Fatal(err)
	}
	trusts.Store(true)
	asked.Wait()
	if ran := c.ran(); len(ran) != 1 {
		t.Errorf("ran %q", ran)
	}
}

// Once a bug: a replica that another one had chosen for a key refused the caller's request with it, and left the key to the next
// one, while that other one still sent its request to the first.
func TestKeyStaysWhereItIsSent(t *testing.T) {
	c, secure, trusts := distrustful(t, 2)
	a, b := c.all[0], c.all[1]
	var roomy atomic.Bool
	b.refuse = func() error {
		if roomy.Load() {
			return nil
		}
		return problem.New(problem.Unavailable, "no room", "")
	}
	var asked sync.WaitGroup
	asked.Go(func() {
		if got := a.mustAsk("POST", "/v1/executions", "x", "Idempotency-Key: k"); got.Status != 200 {
			t.Errorf("%+v", got)
		}
	})
	for len(c.leases("key")) == 0 {
		time.Sleep(10 * time.Millisecond)
	}
	if got := b.mustAsk("POST", "/v1/executions", "x", "Idempotency-Key: k"); got.Status != 503 {
		t.Errorf("without room: %+v", got)
	}
	roomy.Store(true)
	other := c.add(secure)
	if got := other.mustAsk("POST", "/v1/executions", "x", "Idempotency-Key: k"); got.Status != 200 {
		t.Errorf("at another one: %+v", got)
	}
	trusts.Store(true)
	asked.Wait()
	if ran := c.ran(); len(ran) != 1 {
		t.Errorf("ran %q", ran)
	}
}

// Once a bug: a request went to a replica that had got the address of the one that it was for, and ran there a second time.
func TestAddressIsUsedAgain(t *testing.T) {
	c := newCluster(t, 2)
	a, b := c.all[0], c.all[1]
	b.mustAsk("POST", "/v1/executions", "x", "Idempotency-Key: k")
	id := b.NewID()
	b.Listener.Close() // its Lease goes on
	b.CloseClientConnections()
	c.again = b.address
	other := c.add()
	if got := a.mustAsk("GET", "/v1/executions/"+id, ""); got.Status != 503 {
		t.Errorf("its execution: %+v", got)
	}
	var asked sync.WaitGroup
	asked.Go(func() {
		if got := a.mustAsk("POST", "/v1/executions", "x", "Idempotency-Key: k"); got.Status != 410 {
			t.Errorf("%+v", got)
		}
	})
	time.Sleep(time.Second) // it asks again and again
	b.die()
	if err := a.Look(t.Context()); err != nil {
		t.Error(err)
	}
	asked.Wait()
	if ran := c.ran(); len(ran) != 1 || len(other.hits) > 0 {
		t.Errorf("ran %q, and asked the new one %d times", ran, len(other.hits))
	}
}

// Once a bug: a key of a request that its replica refused was that replica's, also when it drained or had ended.
func TestRefusedKey(t *testing.T) {
	c := newCluster(t, 2)
	a, b := c.all[0], c.all[1]
	a.refuse = func() error { return problem.New(problem.Unavailable, "no room", "") }
	if got := a.mustAsk("POST", "/v1/executions", "x", "Idempotency-Key: k"); got.Status != 503 {
		t.Errorf("%+v", got)
	}
	if got := b.mustAsk("POST", "/v1/executions", "y", "Idempotency-Key: k"); got.Status != 409 {
		t.Errorf("another request: %+v", got)
	}
	for _, o := range c.all {
		if got := o.mustAsk("POST", "/v1/executions", "x", "Idempotency-Key: k"); o == b && (got.Status != 200 || got.By != b.Name) {
			t.Errorf("%+v", got)
		}
	}
	if ran := c.ran(); len(ran) != 1 {
		t.Errorf("ran %q", ran)
	}
}

// Once a bug: a replica without others that was about to end said that the sessions it had given back were none.
func TestGivenBackIsThere(t *testing.T) {
	c := newCluster(t, 1)
	a := c.all[0]
	a.mustAsk("POST", "/v1/executions", "x", "Session: dev")
	a.Drain()
	for len(c.leases("session")) != 1 || c.leases("session")[0].Holder != "" {
		time.Sleep(10 * time.Millisecond)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // so that it is tried once
	err := a.Do(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "GET", "/v1/sessions/dev", nil), replicas.Request{Session: "dev"}, func() error {
		t.Error("it is answered here")
		return nil
	})
	if err == nil {
		t.Error("no error")
	}
	b := c.add()
	c.meet()
	if b.has["dev"].Pod != "pod of "+a.Name { // at once, so that lists have it
		t.Errorf("%+v", b.has)
	}
}

// Once a bug: a replica counted as dead while it looked after sessions for long.
func TestRenewsWhileItTidies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{all: map[string]replicas.Entry{}}
		stuck := &stuck{joined: &atomic.Bool{}, one: &one{has: map[string]replicas.Kept{}}, until: make(chan struct{})}
		r, err := replicas.Join(t.Context(), replicas.Config{
			Name: replicas.NewName(), Self: "process", Address: netip.MustParseAddr("127.0.7.1"), Port: 1, Store: s, Local: stuck, Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		stuck.joined.Store(true)
		writes := func() (n int) {
			s.change(func(map[string]replicas.Entry) { n = s.next })
			return n
		}
		before := writes()
		time.Sleep(time.Minute)
		synctest.Wait()
		if renewed := writes() - before; renewed < 5 {
			t.Errorf("renewed %d times in a minute", renewed)
		}
		close(stuck.until)
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
}

// stuck takes long to know its sessions, once it has joined.
type stuck struct {
	*one
	joined *atomic.Bool
	until  chan struct{}
}

func (s *stuck) Known() (map[string]bool, error) {
	if s.joined.Load() {
		<-s.until
	}
	return s.one.Known()
}

// Once a bug: while a request with a key waited, another one with it was let through as a repeat. Then the first was refused, which
// left the key to other replicas, and the second one's command ran here, and that of a third at another replica.
func TestRefusedKeyWithARepeat(t *testing.T) {
	c := newCluster(t, 2)
	a, b := c.all[0], c.all[1]
	key := [2]string{"ann", "k"}
	waits, second, refused := make(chan bool), make(chan bool), make(chan bool)
	var calls atomic.Int32
	a.refuse = func() error {
		switch calls.Add(1) {
		case 1:
		case 2:
			close(second)
			<-refused
			return nil
		default:
			return nil
		}
		a.mu.Lock()
		a.keys[key] = "x" // it is known while it waits
		a.mu.Unlock()
		close(waits)
		<-second
		a.mu.Lock()
		delete(a.keys, key)
		a.mu.Unlock()
		return problem.New("busy", "no room", "")
	}
	var all sync.WaitGroup
	all.Go(func() {
		defer close(refused)
		if got := a.mustAsk("POST", "/v1/executions", "x", "Idempotency-Key: k"); got.Status != http.StatusTooManyRequests {
			t.Errorf("the first: %+v", got)
		}
	})
	<-waits
	all.Go(func() { a.mustAsk("POST", "/v1/executions", "x", "Idempotency-Key: k") })
	all.Wait()
	if got := b.mustAsk("POST", "/v1/executions", "x", "Idempotency-Key: k"); got.By != a.Name || len(c.ran()) != 1 {
		t.Errorf("%+v; ran %q", got, c.ran())
	}
}

// Once a bug: each refused request with a key left a Lease for as long as executions are kept.
func TestRefusedKeysAreSwept(t *testing.T) {
	c := newCluster(t, 2)
	a, b := c.all[0], c.all[1]
	a.refuse = func() error { return problem.New("denied", "no", "") }
	a.mustAsk("POST", "/v1/executions", "x", "Idempotency-Key: k")
	if err := b.SweepKeys(t.Context()); err != nil || len(c.leases("key")) != 1 {
		t.Errorf("at once: %v, %+v", err, c.leases("key"))
	}
	c.change(func(all map[string]replicas.Entry) {
		for name, e := range all {
			if e.Kind == "key" {
				e.Age = 2 * time.Minute
				all[name] = e
			}
		}
	})
	if err := b.SweepKeys(t.Context()); err != nil || len(c.leases("key")) != 0 {
		t.Errorf("later: %v, %+v", err, c.leases("key"))
	}
	a.refuse = nil
	if got := b.mustAsk("POST", "/v1/executions", "x", "Idempotency-Key: k"); got.By != b.Name {
		t.Errorf("%+v", got)
	}
}
