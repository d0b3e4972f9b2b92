package replicas_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"belljar/cmd/internal/problem"
)

// post sends a command with the key k for the session dev, and returns the answer's status and header.
func (o *one) post(ctx context.Context) (status int, header http.Header, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+netip.AddrPortFrom(o.address, o.cluster.port).String()+"/v1/executions", strings.NewReader("x"))
	if err != nil {
		return 0, nil, err
	}
	for name, value := range map[string]string{"Authorization": "Bearer ann", "Idempotency-Key": "k", "Session": "dev"} {
		req.Header.Set(name, value)
	}
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return 0, nil, err
	}
	return answer.StatusCode, answer.Header, answer.Body.Close()
}

// Once a bug: a request with a key of which nothing began, as its session's home did not answer or refused it, may have run, it was said
// once that home had ended.
func TestKeyOfWhatNeverBegan(t *testing.T) {
	for name, ask := range map[string]func(t *testing.T, a, b *one){
		"the home is gone": func(t *testing.T, a, b *one) {
			b.Listener.Close()
			b.CloseClientConnections()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if status, _, err := a.post(ctx); err == nil {
				t.Errorf("status %d", status)
			}
		},
		"the home hangs": func(t *testing.T, a, _ *one) {
			a.DialWith(func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if status, _, err := a.post(ctx); err == nil {
				t.Errorf("status %d", status)
			}
		},
		"then the API server": func(t *testing.T, a, b *one) {
			b.Listener.Close()
			b.CloseClientConnections()
			a.DialWith(func(context.Context, string, string) (net.Conn, error) {
				a.cluster.mu.Lock()
				defer a.cluster.mu.Unlock()
				a.cluster.down, a.cluster.once = errors.New("the API server restarts"), true
				return nil, errors.New("refused")
			})
			if status, _, err := a.post(t.Context()); err != nil || status < 500 {
				t.Errorf("%d, %v", status, err)
			}
		},
		"the home refuses it": func(t *testing.T, a, b *one) {
			b.refuse = func() error { return problem.New("busy", "no room", "") }
			status, header, err := a.post(t.Context())
			if err != nil || status != http.StatusTooManyRequests || header.Get("Belljar-Replica") != "" {
				t.Errorf("%d, %v, %v", status, header, err)
			}
			if list := a.cluster.leases("key"); len(list) != 1 || list[0].Holder != "" {
				t.Errorf("at once: %+v", list)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 2)
			a, b := c.all[0], c.all[1]
			b.mustAsk("POST", "/v1/executions", "first", "Session: dev")
			ask(t, a, b)
			for until := time.Now().Add(10 * time.Second); c.leases("key")[0].Holder != "" && time.Now().Before(until); {
				time.Sleep(10 * time.Millisecond)
			}
			b.die()
			if err := a.Look(t.Context()); err != nil {
				t.Error(err)
			}
			if got := a.mustAsk("POST", "/v1/executions", "x", "Idempotency-Key: k", "Session: dev"); got.Status != http.StatusOK || got.By != a.Name {
				t.Errorf("again: %+v", got)
			}
		})
	}
}

// A key that was left is not begun by what was sent before: the replica that refused it looks whether it is its own again.
func TestRefusedKeyIsNotBegunThere(t *testing.T) {
	c := newCluster(t, 3)
	a, b := c.all[0], c.all[1]
	b.mustAsk("POST", "/v1/executions", "first", "Session: dev")
	b.refuse = func() error { return problem.New("busy", "no room", "") }
	if status, _, err := a.post(t.Context()); err != nil || status != http.StatusTooManyRequests {
		t.Errorf("%d, %v", status, err)
	}
	b.refuse = nil
	if got := b.mustAsk("POST", "/v1/executions", "x", "Idempotency-Key: k", "Session: dev", a.Mark()); got.Status != http.StatusMisdirectedRequest {
		t.Errorf("one that was sent before: %+v", got)
	}
	if got := c.all[2].mustAsk("POST", "/v1/executions", "x", "Idempotency-Key: k", "Session: dev"); got.By != b.Name {
		t.Errorf("again: %+v", got)
	}
	if ran := c.ran(); len(ran) != 2 {
		t.Errorf("ran %q", ran)
	}
}
