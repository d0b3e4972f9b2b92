package httpapi_test

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"belljar/cmd/internal/access"
	"belljar/cmd/internal/approvals"
	"belljar/cmd/internal/executions"
	"belljar/cmd/internal/httpapi"
	"belljar/sandbox"
	"belljar/sandbox/client"
	"belljar/sandbox/local"
	"belljar/sandbox/sandboxtest"
	"belljar/view"
)

// serving is a sidecar on a fake engine.
type serving struct {
	engine *sandboxtest.Engine
	local  *local.Local
	book   *executions.Book
	server *http.Server
	client *client.Client
}

// serve opens a sidecar and a client of it.
func serve(t *testing.T, b sandboxtest.Behind) *serving {
	t.Helper()
	dir := t.TempDir()
	s := &serving{engine: b.Engine()}
	s.local = &local.Local{
		Engine: s.engine, Images: b.Images(), Profiles: b.Profiles(), Admission: b.Admission,
		StateDir: dir, Spool: b.Spooling(), Viewer: view.Viewer{},
	}
	if b.Profile.Pool.Max > 0 {
		s.local.Warm()
	}
	log := slog.New(slog.DiscardHandler)
	var err error
	if s.book, err = executions.Open(executions.Config{Runner: s.local, Logs: s.local, Dir: filepath.Join(dir, "executions"), Log: log}); err != nil {
		t.Fatal(err)
	}
	s.local.Approver = s.book.Approver(b.Approver())
	api := &httpapi.Server{
		Book: s.book, Owners: &executions.Owners{Dir: s.book.Dir}, Sessions: s.local, Pools: s.local, Profiles: b.Profiles,
		Approvals: &approvals.Approvals{}, Version: "test", Log: log, MaxBody: 64 << 20,
	}
	handler, _ := api.Handler()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	guard := &access.Guard{Tokens: &access.Tokens{}, Log: log}
	s.server = &http.Server{Handler: guard.Wrap(handler), ReadHeaderTimeout: time.Minute}
	go s.server.Serve(l)
	if s.client, err = client.New(client.Config{Host: "unix://" + path}); err != nil {
		t.Fatal(err)
	}
	return s
}

// close expects that nothing is left.
func (s *serving) close(t *testing.T) {
	t.Helper()
	s.client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s.book.Drain(ctx)
	if err := s.server.Shutdown(ctx); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if err := s.book.Close(); err != nil {
		t.Error(err)
	}
	s.local.Close()
	if left := s.engine.Left(); len(left) > 0 {
		t.Errorf("%d containers left", len(left))
	}
}

// A Runner over the API is as any other.
func TestRunnerOverHTTP(t *testing.T) {
	sandboxtest.TestRunner(t, func(t *testing.T, b sandboxtest.Behind) sandboxtest.FullRunner {
		s := serve(t, b)
		t.Cleanup(func() { s.close(t) })
		return s.client
	})
}

var _ sandbox.Files = (*client.Client)(nil)
