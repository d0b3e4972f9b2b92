package replicas_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"belljar/cmd/internal/replicas"
)

// hanging is a store whose lists of sessions do not come.
type hanging struct{ *store }

func (s *hanging) List(ctx context.Context, kind string) ([]replicas.Entry, error) {
	if kind == "session" {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.store.List(ctx, kind)
}

// failing is a store whose lists fail.
type failing struct{ *store }

func (s *failing) List(context.Context, string) ([]replicas.Entry, error) {
	return nil, errors.New("overloaded")
}

// Once a bug: a replica that started again ended sessions that others had taken meanwhile, before it looked whose they are.
func TestForgetsWhatOthersTook(t *testing.T) {
	name := replicas.NewName()
	for label, test := range map[string]struct {
		of   func(*store) replicas.Store
		want []string
	}{
		"at once":             {func(s *store) replicas.Store { return s }, []string{"alone", "own"}},
		"the lists fail":      {func(s *store) replicas.Store { return &failing{s} }, []string{"alone", "ended", "given", "own", "taken"}},
		"the lists take ages": {func(s *store) replicas.Store { return &hanging{s} }, []string{"alone", "ended", "given", "own", "taken"}},
	} {
		t.Run(label, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, own := &store{all: map[string]replicas.Entry{}}, &one{uses: map[string]int{}, has: map[string]replicas.Kept{"alone": {}}}
				s.put(replicas.Entry{Kind: "replica", Name: "belljar-replica-" + name, Holder: "earlier process"})
				s.put(replicas.Entry{Kind: "replica", Name: "belljar-replica-abcdef", Holder: "process 1", Values: map[string]string{"address": "127.0.7.9", "proof": "x"}})
				for session, holder := range map[string]string{"taken": "abcdef", "given": "", "ended": "fedcba", "own": name} {
					s.put(replicas.Entry{Kind: "session", Name: replicas.SessionEntry(session), Holder: holder, Values: map[string]string{"session": session, "owner": "ann", "pod": "now"}})
					own.has[session] = replicas.Kept{Pod: "earlier"}
				}
				own.Replicas = &replicas.Replicas{} // it has no name yet
				begun := time.Now()
				r, err := replicas.Join(t.Context(), replicas.Config{
					Name: name, Self: "process 2", Address: netip.MustParseAddr("127.0.7.1"), Port: 1, Store: test.of(s), Local: own, Keep: time.Hour, Log: slog.New(slog.DiscardHandler),
				})
				if err != nil {
					t.Fatal(err)
				}
				own.mu.Lock()
				maps.DeleteFunc(own.has, func(_ string, k replicas.Kept) bool { return k.Pod == "now" }) // what it has taken over since
				has := slices.Sorted(maps.Keys(own.has))
				own.mu.Unlock()
				if !slices.Equal(has, test.want) || time.Since(begun) > 15*time.Second {
					t.Errorf("it has %q after %v", has, time.Since(begun))
				}
				if err := r.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Once a bug: while a replica started again with its state directory, what it had was said to be gone for ever.
func TestReplicaThatReturns(t *testing.T) {
	for name, end := range map[string]func(o *one){"ended": func(o *one) { o.Replicas.Close() }, "killed": (*one).die} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 2)
			a, first := c.all[0], c.all[1]
			first.Replicas.Close()
			first.Server.Close()
			again := c.add(func(config *replicas.Config) { config.Name = first.Name })
			c.change(func(all map[string]replicas.Entry) {
				e := replicas.Entry{Kind: "key", Name: replicas.KeyEntry("ann", "k"), Holder: first.Name, Values: map[string]string{"request": fmt.Sprintf("%x", sha256.Sum256([]byte("x")))}}
				all[e.Name] = c.put(e)
			})
			end(again)
			again.Listener.Close()
			want := func(status int) {
				t.Helper()
				if got := a.mustAsk("GET", "/v1/executions/"+again.NewID(), ""); got.Status != status {
					t.Errorf("its execution: %+v", got)
				}
				if got := a.mustAsk("POST", "/v1/executions", "x", "Idempotency-Key: k"); got.Status != status {
					t.Errorf("its key: %+v", got)
				}
			}
			want(http.StatusServiceUnavailable)
			c.change(func(all map[string]replicas.Entry) {
				e := all["belljar-replica-"+first.Name]
				e.Age = time.Hour
				all[e.Name] = e
			})
			want(http.StatusGone)
		})
	}
}
