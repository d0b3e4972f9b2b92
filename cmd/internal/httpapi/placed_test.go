package httpapi

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"belljar/cmd/internal/replicas"
)

// noStore is of replicas that do not know the key.
type noStore struct {
	replicas.Store
	get func()
}

func (noStore) List(context.Context, string) ([]replicas.Entry, error) { return nil, nil }
func (noStore) Create(_ context.Context, e replicas.Entry) (replicas.Entry, error) {
	return e, nil
}
func (noStore) Update(_ context.Context, e replicas.Entry) (replicas.Entry, error) {
	return e, nil
}

func (s noStore) Get(context.Context, string) (replicas.Entry, error) {
	s.get()
	return replicas.Entry{}, replicas.ErrNone
}

type noLocal struct{ replicas.Local }

func (noLocal) KnowsKey(_, _ string) bool       { return false }
func (noLocal) Use(string) func()               { return func() {} }
func (noLocal) Known() (map[string]bool, error) { return nil, nil }

// Once a bug: a large request kept all others from being parsed until another replica had answered it.
func TestPlacingTakesNoTurn(t *testing.T) {
	l, asked := newLarge(1<<20, t.TempDir()), false
	r, err := replicas.Join(t.Context(), replicas.Config{
		Name: replicas.NewName(), Address: netip.MustParseAddr("127.0.7.1"), Port: 1, Local: noLocal{}, Log: slog.New(slog.DiscardHandler),
		Store: noStore{get: func() {
			if asked = true; len(l.parsing) > 0 {
				t.Error("no other large request is parsed while the replica of this one is looked for")
			}
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b := &body{large: l, caller: "a", sum: sha256.New(), turn: func() {}, request: httptest.NewRequest(http.MethodPost, "/v1/executions", nil), writer: httptest.NewRecorder()}
	if err := b.readAll(t.Context(), &dripping{part: 64 << 10, left: 1 << 20}); err != nil || len(l.parsing) != 1 {
		t.Fatalf("%v, %d parsing", err, len(l.parsing))
	}
	s := &Server{Replicas: r}
	err = s.placed(context.WithValue(t.Context(), bodyKey{}, b), replicas.Request{Owner: "a", Key: "k", Starts: true}, func() error { return nil })
	if err != nil || !asked {
		t.Errorf("%v, asked: %v", err, asked)
	}
	b.close()
	l.wantEmpty(t)
}
