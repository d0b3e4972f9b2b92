package mcpapi

import (
	"context"
	"net/http"
	"time"

	"belljar/cmd/internal/access"
	"belljar/cmd/internal/problem"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// sessionless is the first protocol without sessions: each request stands alone.
	sessionless = "2026-07-28"

	// maxSessions are a caller's, by earlier protocols.
	maxSessions = 100
	sessionTime = 30 * time.Minute // without a request

	// maxMessage has the longest script, as JSON may write it.
	maxMessage = 8 << 20

	// requestContext is the name of an HTTP request's context in what the SDK hands on.
	requestContext = "belljar.request"
)

// Handler is the endpoint of HTTP clients, of all protocols. Every request has an
// access.Identity already.
func (s *Server) Handler() http.Handler {
	s.open()
	get := func(r *http.Request) *mcp.Server { return s.server(access.FromContext(r.Context())).Server }
	options := mcp.StreamableHTTPOptions{Logger: s.protocolLog(), DisableLocalhostProtection: true, MaxRequestBodyBytes: maxMessage} // access.Guard protects
	options.SessionTimeout = sessionTime
	sessions := mcp.NewStreamableHTTPHandler(get, &options)
	options.Stateless, options.PropagateRequestCancellation = true, true
	requests := mcp.NewStreamableHTTPHandler(get, &options)
	return identified(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Mcp-Protocol-Version") >= sessionless:
			requests.ServeHTTP(w, r)
		case r.Method == http.MethodPost && r.Header.Get("Mcp-Session-Id") == "" && s.crowded(r.Context()):
			problem.New(problem.Unavailable, "too many MCP sessions", "end some: DELETE with the header Mcp-Session-Id").Write(w)
		default:
			sessions.ServeHTTP(w, r)
		}
	}))
}

// crowded reports whether the caller has as many sessions as it may.
func (s *Server) crowded(ctx context.Context) bool {
	n := 0
	for range s.server(access.FromContext(ctx)).Sessions() {
		n++
	}
	return n >= maxSessions
}

// identified tells the SDK whose a request is, in the only way that it has: by a bearer token. So
// a session is its owner's only, and each call in it has the identity and the life of the request
// that it came with.
func identified(next http.Handler) http.Handler {
	verify := func(ctx context.Context, _ string, _ *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{UserID: access.FromContext(ctx).Name, Extra: map[string]any{requestContext: ctx}}, nil
	}
	next = auth.RequireBearerToken(verify, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer known") // the token itself goes no further
		next.ServeHTTP(w, r)
	})
}
