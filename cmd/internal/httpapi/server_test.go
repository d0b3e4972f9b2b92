package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"belljar/cmd/internal/access"
	"belljar/cmd/internal/approvals"
	"belljar/cmd/internal/executions"
	"belljar/cmd/internal/httpapi"
	"belljar/sandbox"
	"belljar/sandbox/local"
	"belljar/sandbox/sandboxtest"
	"belljar/view"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sidecar is a server on a fake engine. Its callers say who they are in a header.
type sidecar struct {
	*httptest.Server
	api  *httpapi.Server
	book *executions.Book
	l    *local.Local
	cut  context.CancelFunc // of all requests
}

// callers are the identities of the tests.
var callers = map[string]access.Identity{
	"":       access.Local,
	"ann":    {Name: "ann", Scopes: []access.Scope{access.Run}, Profiles: []string{"default"}},
	"ben":    {Name: "ben", Scopes: []access.Scope{access.Run}, Profiles: []string{"default"}},
	"reader": {Name: "reader", Scopes: []access.Scope{access.Read}, Profiles: []string{"default"}},
	"judge":  {Name: "judge", Scopes: []access.Scope{access.Approve}},
}

func newSidecar(t testing.TB, play func(*sandboxtest.Proc) int) *sidecar {
	t.Helper()
	s := newAPI(t, play)
	h, _ := s.api.Handler()
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(access.With(r.Context(), callers[r.Header.Get("Caller")])))
	}))
	requests, cut := context.WithCancel(context.Background())
	s.cut, s.Config.BaseContext = cut, func(net.Listener) context.Context { return requests }
	s.Start()
	return s
}

// newAPI is a sidecar that no one can connect to.
func newAPI(t testing.TB, play func(*sandboxtest.Proc) int) *sidecar {
	t.Helper()
	asked := &approvals.Approvals{}
	p := sandbox.Defaults().Profile
	p.Pool = sandbox.PoolSize{Max: sandbox.NoPool}
	p.Policy = sandboxtest.Judge{}
	l := local.New(&sandboxtest.Engine{Script: play}, &sandboxtest.Images{})
	l.Profiles = map[string]sandbox.Profile{sandbox.DefaultProfile: p, "other": p}
	l.StateDir, l.Viewer, l.Approver = t.TempDir(), view.Viewer{}, asked
	book, err := executions.Open(executions.Config{Runner: l, Logs: l, Dir: filepath.Join(l.StateDir, "executions"), Keep: time.Hour, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	l.Approver = book.Approver(asked)
	s := &sidecar{book: book, l: l, api: &httpapi.Server{
		Book: book, Owners: &executions.Owners{Dir: book.Dir}, Sessions: l, Files: l, Pools: l, Load: l.Load, Profiles: l.CurrentProfiles, Approvals: asked, Version: "1",
		Log: slog.New(slog.DiscardHandler), MaxBody: 1 << 20,
		Images: func(context.Context) ([]httpapi.Image, error) { return nil, nil },
		Ready:  func(context.Context) error { return nil },
	}}
	t.Cleanup(func() {
		now, cancel := context.WithCancel(context.Background())
		cancel()
		book.Drain(now)
		if s.Server != nil {
			s.cut()
			s.Close()
		}
		s.api.Close()
		book.Close()
		l.Close()
	})
	return s
}

// answer is a response, whose body is closed at the test's end.
type answer struct {
	StatusCode int
	Header     http.Header
	Body       io.ReadCloser
}

// do sends a request with JSON, if there is any.
func (s *sidecar) do(t *testing.T, caller, method, path string, body any, header ...string) answer {
	t.Helper()
	var reader io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		reader = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, reader)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Caller", caller)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	return answer{response.StatusCode, response.Header, response.Body}
}

// get is do that wants a status and decodes the answer.
func (s *sidecar) get(t *testing.T, caller, method, path string, body any, status int, into any, header ...string) http.Header {
	t.Helper()
	response := s.do(t, caller, method, path, body, header...)
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != status {
		t.Fatalf("%s %s: %d, %v, want %d: %s", method, path, response.StatusCode, err, status, text)
	}
	if into != nil {
		if err := json.Unmarshal(text, into); err != nil {
			t.Fatalf("%s %s: %v: %s", method, path, err, text)
		}
	}
	return response.Header
}

type fields = map[string]any
