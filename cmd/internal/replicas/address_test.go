package replicas_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"belljar/cmd/internal/access"
	"belljar/cmd/internal/problem"
	"belljar/cmd/internal/replicas"
)

// journal is a log that can be read while replicas run.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// Once a bug: replicas with one address, as where each listens on its own loopback behind a proxy, took each other for ended, and each
// other's sessions while these were used.
func TestReplicaThatCannotBeAskedHasNotEnded(t *testing.T) {
	for name, test := range map[string]struct{ address, level, message string }{
		"the same address": {"127.0.7.1", "ERROR", "serve.replicas.address"},
		"as IPv6 has it":   {"::ffff:127.0.7.1", "ERROR", "serve.replicas.address"},
		"of another kind":  {"10.0.0.9", "WARN", "it cannot be asked"},
		"of a link":        {"169.254.1.1", "WARN", "it cannot be asked"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 0)
			log := &journal{}
			a := c.add(func(c *replicas.Config) { c.Log = slog.New(slog.NewTextHandler(log, nil)) })
			b := c.add(func(c *replicas.Config) { c.Address = netip.MustParseAddr(test.address) })
			if got := b.mustAsk("POST", "/v1/executions", "x", "Session: dev", "Idempotency-Key: k"); got.By != b.Name {
				t.Fatalf("%+v", got)
			}
			for range 5 {
				c.change(func(all map[string]replicas.Entry) {
					e := all[replicas.SessionEntry("dev")]
					e.Age = time.Hour
					all[e.Name] = e
					c.put(all["belljar-replica-"+b.Name]) // it is renewed
				})
				c.meet()
			}
			ctx, leave := context.WithTimeout(access.With(t.Context(), access.Identity{Name: "ann"}), 2*time.Second)
			defer leave()
			if err := a.Fetch(ctx, "dev", true); err == nil {
				t.Error("it took a session that is used elsewhere")
			}
			sum := sha256.Sum256([]byte("x"))
			for what, q := range map[string]replicas.Request{"the session": {Session: "dev"}, "a command in it": {Session: "dev", Starts: true}, "the key": {Key: "k", Sum: sum[:], Starts: true}} {
				q.Owner = "ann"
				ctx, leave := context.WithTimeout(t.Context(), 2*time.Second)
				defer leave()
				req := httptest.NewRequestWithContext(ctx, "POST", "/v1/executions", nil)
				err := a.Do(httptest.NewRecorder(), req, q, func() error {
					t.Errorf("%s: done at another replica", what)
					return nil
				})
				if p, is := errors.AsType[*problem.Problem](err); err == nil || is && p.Code == problem.Gone {
					t.Errorf("%s: %v, and not tried again", what, err)
				}
			}
			if got := a.mustAsk("GET", "/v1/executions/"+b.NewID(), ""); got.Status != http.StatusServiceUnavailable {
				t.Errorf("an execution: %+v", got)
			}
			a.handle = func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(`{"sessions": []}`)) }
			if got := a.mustAsk("GET", "/v1/sessions", ""); !slices.Equal(got.Unanswered, []string{b.Name}) {
				t.Errorf("a list: %+v", got)
			}
			if e, err := c.Get(t.Context(), replicas.SessionEntry("dev")); err != nil || e.Holder != b.Name || len(a.has) != 0 {
				t.Errorf("%v: %+v; %v", err, e, a.has)
			}
			if text := log.String(); strings.Count(text, test.message) != 1 || !strings.Contains(text, "level="+test.level) {
				t.Errorf("the log does not have %s and %q once: %s", test.level, test.message, text)
			}
			b.die()
			if err := a.Fetch(access.With(t.Context(), access.Identity{Name: "ann"}), "dev", true); err != nil {
				t.Errorf("once it has ended: %v", err)
			}
		})
	}
}

// A replica that was killed just before may have had this one's address: that is nothing to set right.
func TestAddressOfOneThatWasKilled(t *testing.T) {
	c := newCluster(t, 0)
	log := &journal{}
	c.add(func(c *replicas.Config) { c.Log = slog.New(slog.NewTextHandler(log, nil)) })
	c.change(func(map[string]replicas.Entry) {
		c.put(replicas.Entry{Kind: "replica", Name: "belljar-replica-abcdef", Holder: "x", Values: map[string]string{"address": "127.0.7.1"}})
	})
	c.meet()
	c.meet()
	if log.String() != "" {
		t.Error(log)
	}
}

// A request that another replica sent to one which had this address before is not done here.
func TestRequestForAnother(t *testing.T) {
	c := newCluster(t, 2)
	a, b := c.all[0], c.all[1]
	for to, want := range map[string]int{b.Name: http.StatusOK, "": http.StatusOK, "abcdef": http.StatusMisdirectedRequest} {
		if got := b.mustAsk("GET", "/v1/executions/x", "", a.Mark(), "Belljar-Replica-For: "+to); want == http.StatusOK && got.Status == http.StatusMisdirectedRequest || want != http.StatusOK && got.Status != want {
			t.Errorf("for %q: %+v", to, got)
		}
	}
	if got := a.mustAsk("GET", "/v1/executions/"+b.NewID(), ""); got.By != b.Name {
		t.Errorf("%+v", got)
	}
}
