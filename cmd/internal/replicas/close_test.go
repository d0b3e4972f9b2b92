package replicas_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"belljar/cmd/internal/access"
	"belljar/cmd/internal/replicas"
)

// slow is a store that takes its time to update a session's entry.
type slow struct {
	*store
	takes time.Duration
}

func (s *slow) Update(ctx context.Context, e replicas.Entry) (replicas.Entry, error) {
	takes := s.takes
	if e.Kind != "session" {
		takes = min(takes, 100*time.Millisecond)
	}
	select {
	case <-time.After(takes):
		return s.store.Update(ctx, e)
	case <-ctx.Done():
		return replicas.Entry{}, ctx.Err()
	}
}

// Once a bug: a replica with many sessions did not come to give all of them back before its end, nor to say that it ends.
func TestCloseWithManySessions(t *testing.T) {
	const sessions = 200
	for name, takes := range map[string]time.Duration{"slow": 100 * time.Millisecond, "stuck": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &slow{&store{all: map[string]replicas.Entry{}}, takes}
				own := &one{uses: map[string]int{}, has: map[string]replicas.Kept{}}
				r, err := replicas.Join(t.Context(), replicas.Config{
					Name: replicas.NewName(), Self: "process", Address: netip.MustParseAddr("127.0.7.1"), Port: 1, Store: s, Local: own, Keep: time.Hour, Log: slog.New(slog.DiscardHandler),
				})
				if err != nil {
					t.Fatal(err)
				}
				own.Replicas = r
				ctx := access.With(t.Context(), access.Identity{Name: "ann", Scopes: []access.Scope{access.Run}})
				for i := range sessions {
					if err := r.Fetch(ctx, fmt.Sprint("s", i), true); err != nil {
						t.Fatal(err)
					}
					own.gets(fmt.Sprint("s", i), replicas.Kept{Owner: "ann", Pod: "pod"})
				}
				if err := r.Close(); err != nil {
					t.Error(err)
				}
				given := 0
				for _, e := range s.all {
					switch {
					case e.Kind == "replica" && e.Holder != "":
						t.Errorf("it still runs: %+v", e)
					case e.Kind == "session" && e.Holder == "" && e.Values["state"] == "as "+r.Name+" left it":
						given++
					}
				}
				if name == "slow" && given != sessions {
					t.Errorf("gave back %d of %d sessions", given, sessions)
				}
			})
		})
	}
}
