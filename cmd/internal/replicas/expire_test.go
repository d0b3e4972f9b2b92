package replicas_test

import (
	"errors"
	"log/slog"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"belljar/cmd/internal/access"
	"belljar/cmd/internal/replicas"
)

// Once a bug: a replica that was cut off ended the sessions that were idle there, though another one had taken them over.
func TestExpiryOfASessionThatMayBeAnothers(t *testing.T) {
	for name, taken := range map[string]bool{"stays": false, "is taken over": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &store{all: map[string]replicas.Entry{}}
				own := &one{uses: map[string]int{}, has: map[string]replicas.Kept{}}
				r, err := replicas.Join(t.Context(), replicas.Config{
					Name: replicas.NewName(), Self: "process", Address: netip.MustParseAddr("127.0.7.1"), Port: 1, Store: s, Local: own, Keep: time.Hour, Log: slog.New(slog.DiscardHandler),
				})
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				own.Replicas = r
				want := func(when string, may bool) {
					t.Helper()
					if r.MayExpire(t.Context(), "dev") != may {
						t.Errorf("%s: %t", when, !may)
					}
				}
				want("of a time before there were others", true)
				if err := r.Fetch(access.With(t.Context(), access.Identity{Name: "ann", Scopes: []access.Scope{access.Run}}), "dev", true); err != nil {
					t.Fatal(err)
				}
				own.gets("dev", replicas.Kept{Owner: "ann", Pod: "pod"})
				time.Sleep(time.Minute)
				want("at home", true)
				cut := func(down error) {
					s.mu.Lock()
					defer s.mu.Unlock()
					s.down = down
				}
				cut(errors.New("cut off"))
				time.Sleep(35 * time.Second)
				want("cut off", false)
				time.Sleep(30 * time.Second)
				want("cut off for long", false)
				s.change(func(all map[string]replicas.Entry) {
					e := all[replicas.SessionEntry("dev")]
					e.Age = time.Minute
					if taken {
						e.Holder = replicas.NewName()
						all["belljar-replica-"+e.Holder] = replicas.Entry{Kind: "replica", Name: "belljar-replica-" + e.Holder, Holder: "another", Lives: true, Values: map[string]string{"address": "127.0.7.2"}}
					}
					all[e.Name] = e
				})
				cut(nil)
				want("just now back", false)
				time.Sleep(30 * time.Second)
				want("back", !taken)
				own.mu.Lock()
				defer own.mu.Unlock()
				if _, has := own.has["dev"]; has == taken {
					t.Errorf("it has the session: %t", has)
				}
			})
		})
	}
}
