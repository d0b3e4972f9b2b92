package replicas_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"belljar/cmd/internal/access"
	"belljar/cmd/internal/problem"
	"belljar/cmd/internal/replicas"
)

func (c *cluster) leases(kind string) []replicas.Entry {
	c.t.Helper()
	list, err := c.List(c.t.Context(), kind)
	if err != nil {
		c.t.Error(err)
	}
	return list
}

// Once a bug: a session that a caller may not make, or that has a name which none has, left a Lease with the caller as its owner.
func TestRefusedSessionsLeaveNothing(t *testing.T) {
	c := newCluster(t, 2)
	a := c.all[0]
	a.handle = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }
	during := 0
	a.refuse = func() error {
		during += len(c.leases("session"))
		return problem.New(problem.Unavailable, "no room", "")
	}
	for name, ask := range map[string]func() answer{
		"without the scope": func() answer {
			return a.mustAsk("POST", "/v1/sessions", `{"name":"dev"}`, "Authorization: Bearer reader")
		},
		"a long name":         func() answer { return a.mustAsk("POST", "/v1/sessions", `{"name":"`+strings.Repeat("x", 200000)+`"}`) },
		"refused":             func() answer { return a.mustAsk("POST", "/v1/sessions", `{"name":"dev"}`) },
		"a command":           func() answer { return a.mustAsk("POST", "/v1/executions", "x", "Session: dev") },
		"a command elsewhere": func() answer { return a.mustAsk("POST", "/v1/executions", "x", "Session: ../dev") },
		"to look at":          func() answer { return a.mustAsk("GET", "/v1/sessions/"+strings.Repeat("x", 1000), "") },
	} {
		if got := ask(); got.Status < 400 {
			t.Errorf("%s: %+v", name, got)
		}
		if list := c.leases("session"); len(list) != 0 {
			t.Errorf("%s: %.300s", name, fmt.Sprint(list))
		}
	}
	if during != 1 {
		t.Errorf("%d Leases while commands were refused", during)
	}
	if err := c.all[1].Fetch(t.Context(), "../dev", true); err == nil || len(c.leases("session")) != 0 {
		t.Errorf("%v, %d Leases", err, len(c.leases("session")))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.gaveUp) != 2 { // the next one of that name may be another caller's
		t.Errorf("forgot %q", a.gaveUp)
	}
}

// Once a bug: a replica that ends while it is connected to, so that it has nothing of the request, was said to have it.
func TestGoneBeforeItIsReached(t *testing.T) {
	c := newCluster(t, 0)
	trusted, connecting := x509.NewCertPool(), func() {}
	secure := func(config *replicas.Config) {
		config.Secure = func() (*tls.Config, error) {
			connecting()
			return &tls.Config{RootCAs: trusted, ServerName: "example.com"}, nil
		}
	}
	a, b := c.add(secure), c.add(secure)
	trusted.AddCert(b.Certificate())
	c.meet()
	b.mustAsk("POST", "/v1/executions", "x", "Session: dev")
	once := sync.OnceFunc(func() {
		b.die()
		if err := a.Look(t.Context()); err != nil {
			t.Error(err)
		}
	})
	connecting = once
	if got := a.mustAsk("GET", "/v1/sessions/dev", ""); got.Status != 200 || got.By != a.Name {
		t.Errorf("%+v", got)
	}
}

// homeless is a cluster whose first replica has ended, and has given the session dev back.
func homeless(t *testing.T) (c *cluster, ended, lives *one) {
	t.Helper()
	c = newCluster(t, 2)
	ended, lives = c.all[0], c.all[1]
	ended.mustAsk("POST", "/v1/executions", "x", "Session: dev")
	ended.Drain()
	if err := ended.Replicas.Close(); err != nil {
		t.Fatal(err)
	}
	return c, ended, lives
}

// Once a bug: a caller that left while its session was taken over took its state with it.
func TestCallerLeavesATakeover(t *testing.T) {
	c, a, b := homeless(t)
	c.meet()
	ctx, leave := context.WithCancel(t.Context())
	b.taking = func(ctx context.Context) error { leave(); return ctx.Err() }
	err := b.Fetch(access.With(ctx, access.Identity{Name: "ann", Scopes: []access.Scope{access.Run}}), "dev", true)
	if b.taking = nil; err != nil {
		t.Errorf("%v", err)
	}
	if k := b.has["dev"]; k.State != "as "+a.Name+" left it" || k.Pod != "pod of "+a.Name {
		t.Errorf("%+v", k)
	}
}

// What a takeover that failed half-way left is taken again, whole.
func TestTakeoverFailsOnce(t *testing.T) {
	c, a, b := homeless(t)
	b.taking = func(context.Context) error {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.has["dev"] = replicas.Kept{Pod: "pod of " + a.Name}
		return errors.New("disk full")
	}
	if got := b.mustAsk("GET", "/v1/sessions/dev", ""); got.Status < 500 {
		t.Errorf("%+v", got)
	}
	b.taking = nil
	if got := b.mustAsk("GET", "/v1/sessions/dev", ""); got.Status != 200 {
		t.Errorf("%+v", got)
	}
	if k := b.has["dev"]; k.State != "as "+a.Name+" left it" || k.Owner != "ann" {
		t.Errorf("%+v", k)
	}
	for _, e := range c.leases("session") {
		if e.Values["state"] != "" || e.Values["owner"] != "ann" || e.Holder != b.Name {
			t.Errorf("%+v", e)
		}
	}
}
