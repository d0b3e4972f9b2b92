package mcpapi_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"belljar/cmd/internal/access"
	"belljar/cmd/internal/executions"
	"belljar/cmd/internal/mcpapi"
	"belljar/sandbox"
)

type credentials struct{}

// Once a bug: a session of the protocol was asked for at another replica with the token of its first request, which may have expired.
func TestCallHasItsRequestsContext(t *testing.T) {
	var got []any
	s := &serving{Server: &mcpapi.Server{
		Book: &executions.Book{}, Owners: &executions.Owners{Dir: t.TempDir()}, Profiles: func() map[string]sandbox.Profile { return nil }, Log: slog.New(slog.DiscardHandler),
		Fetch: func(ctx context.Context, _ string, _ bool) error {
			got = append(got, ctx.Value(credentials{}))
			return errors.New("it is not here")
		},
	}}
	handler := s.Handler()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := access.With(r.Context(), access.Identity{Name: "ann", Scopes: []access.Scope{access.Read}})
		handler.ServeHTTP(w, r.WithContext(context.WithValue(ctx, credentials{}, r.Header.Get("Credentials"))))
	}))
	t.Cleanup(func() { s.Close(); server.Close() })
	s.url = server.URL + "/mcp"
	header := s.session(t, "ann")
	const read = `{"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "file_read", "arguments": {"session": "dev", "path": "f"}}}`
	for _, token := range []string{"first", "second"} {
		if _, err := s.post(t.Context(), t, "ann", read, append(slices.Clone(header), "Credentials", token)...); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(got, []any{"first", "second"}) {
		t.Errorf("%v", got)
	}
}
