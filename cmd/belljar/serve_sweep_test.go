package main

import (
	"context"
	"log/slog"
	"net/netip"
	"testing"

	"belljar"
	"belljar/cmd/internal/replicas"
)

// slowStore is one whose keys take long to list.
type slowStore struct {
	replicas.Store
	asked chan struct{}
}

func (s slowStore) List(ctx context.Context, kind string) ([]replicas.Entry, error) {
	if kind == "key" {
		s.asked <- struct{}{}
		<-ctx.Done()
	}
	return nil, ctx.Err()
}

func (slowStore) Create(_ context.Context, e replicas.Entry) (replicas.Entry, error) {
	return e, nil
}

func (slowStore) Update(_ context.Context, e replicas.Entry) (replicas.Entry, error) {
	return e, nil
}

type noSessions struct{ replicas.Local }

func (noSessions) Known() (map[string]bool, error) { return nil, nil }

// sweptEngine says that it was swept.
type sweptEngine struct {
	belljar.Engine
	swept chan struct{}
}

func (e sweptEngine) Sweep(context.Context) (int, error) {
	e.swept <- struct{}{}
	return 1, nil
}

// Once a bug: SIGTERM waited until all old idempotency keys were removed.
func TestEndDoesNotWaitForOldKeys(t *testing.T) {
	engine, store := sweptEngine{swept: make(chan struct{}, 1)}, slowStore{asked: make(chan struct{})}
	s := &sidecar{log: slog.New(slog.DiscardHandler), runner: &belljar.Runner{Host: &belljar.Host{Engine: engine}}}
	r, err := replicas.Join(t.Context(), replicas.Config{Name: replicas.NewName(), Address: netip.MustParseAddr("127.0.7.1"), Port: 1, Store: store, Local: noSessions{}, Log: s.log})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s.replicas.Store(r)
	sweep := make(chan struct{})
	stop := s.sweepEach(t.Context(), sweep)
	sweep <- struct{}{}
	<-engine.swept // once a bug: only belljar run and mcp removed what others left
	<-store.asked
	stop()
	stop()
}
