package replicas_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"belljar/cmd/internal/access"
	"belljar/cmd/internal/problem"
	"belljar/cmd/internal/replicas"
)

func (o *one) fetch(session string) error {
	ctx := access.With(replicas.WithCredentials(o.cluster.t.Context(), "Bearer ann"), access.Identity{Name: "ann", Scopes: []access.Scope{access.Run}})
	defer o.Use(session)()
	return o.Fetch(ctx, session, true)
}

// Once a bug: a request that was on its way to a replica for long ran there, although that had said in the meantime that it had
// nothing of it, so that the caller's next one had run at another replica.
func TestDelayedRequest(t *testing.T) {
	t.Run("repeated at the session's home", func(t *testing.T) { testDelayedRequest(t, 2) })
	t.Run("repeated where it was sent", func(t *testing.T) { testDelayedRequest(t, 1) })
}

func testDelayedRequest(t *testing.T, repeatedAt int) {
	c := newCluster(t, 3)
	a, b, other := c.all[0], c.all[1], c.all[2]
	b.mustAsk("POST", "/v1/executions", "first", "Session: dev")
	var delayed sync.WaitGroup
	sending, arrives := make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() { close(sending); <-arrives })
	a.DialWith(func(ctx context.Context, network, address string) (net.Conn, error) {
		once()
		return (&net.Dialer{}).DialContext(context.WithoutCancel(ctx), network, address)
	})
	delayed.Go(func() {
		if got := a.mustAsk("POST", "/v1/executions", "x", "Session: dev", "Idempotency-Key: k"); got.Status != 200 || got.By != other.Name {
			t.Errorf("%+v", got)
		}
	})
	<-sending
	if err := other.fetch("dev"); err != nil {
		t.Error(err)
	}
	c.change(func(all map[string]replicas.Entry) {
		for name, e := range all {
			if e.Kind == "key" {
				e.Age, e.Values["shared"] = time.Hour, "1"
				all[name] = e
			}
		}
	})
	if got := c.all[repeatedAt].mustAsk("POST", "/v1/executions", "x", "Session: dev", "Idempotency-Key: k"); got.Status != 200 || got.By != other.Name {
		t.Errorf("%+v", got)
	}
	if err := b.fetch("dev"); err != nil {
		t.Error(err)
	}
	close(arrives)
	delayed.Wait()
	if ran := c.ran(); len(ran) != 2 {
		t.Errorf("ran %q", ran)
	}
}

// Once a bug: a replica that another one did not take for a replica now, as its Lease had ended, understood that its request had not
// begun there, and ran it again.
func TestKeyOfAReplicaThatDoubts(t *testing.T) {
	c := newCluster(t, 2)
	a, b := c.all[0], c.all[1]
	b.mustAsk("POST", "/v1/executions", "x", "Idempotency-Key: k")
	a.mustAsk("POST", "/v1/executions", "x", "Idempotency-Key: k") // so that it is shared
	lives := func(is bool) {
		c.change(func(all map[string]replicas.Entry) {
			for name, e := range all {
				if e.Kind == "key" {
					e.Age = time.Hour
				}
				if e.Name == "belljar-replica-"+a.Name {
					e.Lives, c.dead[e.Name] = is, !is
				}
				all[name] = e
			}
		})
	}
	lives(false)
	if err := b.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	var asked sync.WaitGroup
	asked.Go(func() {
		if got := a.mustAsk("POST", "/v1/executions", "x", "Idempotency-Key: k"); got.Status != 200 || got.By != b.Name {
			t.Errorf("%+v", got)
		}
	})
	time.Sleep(2 * time.Second) // it asks again and again
	lives(true)
	asked.Wait()
	if ran := c.ran(); len(ran) != 1 {
		t.Errorf("ran %q", ran)
	}
}

// Once a bug: a replica that started again with what it had did not know that its earlier process had said that it begins nothing with a
// key, and began it without changing the key's entry, so that who had been promised that began it, too.
func TestResumedReplicaKeepsPromises(t *testing.T) {
	c := newCluster(t, 1)
	a, name := c.all[0], replicas.NewName()
	c.change(func(map[string]replicas.Entry) {
		c.put(replicas.Entry{Kind: "replica", Name: "belljar-replica-" + name, Holder: "an earlier process"})
	})
	b := c.add(func(config *replicas.Config) { config.Name = name })
	c.meet()
	b.mustAsk("POST", "/v1/executions", "first", "Session: dev")
	ask := func(want int) (version string) {
		t.Helper()
		if got := a.mustAsk("POST", "/v1/executions", "x", "Session: dev", "Idempotency-Key: k"); got.Status != want {
			t.Errorf("%+v", got)
		}
		list := c.leases("key")
		if len(list) != 1 || list[0].Holder != b.Name {
			t.Fatalf("%+v", list)
		}
		return list[0].Version
	}
	b.refuse = func() error { return problem.New(problem.Unavailable, "not yet", "") }
	ask(503)
	promised := ask(503)
	b.refuse = nil
	began := ask(200)
	if began == promised {
		t.Error("it began without changing the entry")
	}
	if ask(200) != began {
		t.Error("what has begun is written down again")
	}
}
