package mcpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"belljar/cmd/internal/access"
	"belljar/cmd/internal/problem"
	"belljar/cmd/internal/strictjson"
	"belljar/sandbox"

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

	// maxLarge is how many messages over smallMessage there are at a time: each may have
	// several times its size in memory, until its call ends.
	maxLarge     = 12
	smallMessage = 256 << 10

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
	large := access.NewSlots(maxLarge)
	return (&posts{by: map[[2]string]map[int]context.CancelFunc{}}).wrap(identified(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		message, end, wrong := whole(w, r, large)
		defer end()
		switch {
		case wrong != nil:
			wrong.Write(w)
		case r.Header.Get("Mcp-Protocol-Version") >= sessionless || standsAlone(message):
			requests.ServeHTTP(w, r)
		case r.Method == http.MethodPost && r.Header.Get("Mcp-Session-Id") == "" && s.crowded(r.Context()):
			problem.New(problem.Unavailable, "too many MCP sessions", "end some: DELETE with the header Mcp-Session-Id").Write(w)
		default:
			sessions.ServeHTTP(w, r)
		}
	})))
}

// crowded reports whether the caller has as many sessions as it may.
func (s *Server) crowded(ctx context.Context) bool {
	n := 0
	for range s.server(access.FromContext(ctx)).Sessions() {
		n++
	}
	return n >= maxSessions
}

// whole reads the request's message, which is bounded and has one meaning. end comes when it is
// no longer needed.
func whole(w http.ResponseWriter, r *http.Request, large *access.Slots) (message []byte, end func(), wrong *problem.Problem) {
	end = func() {}
	access.LimitBody(w, r, maxMessage)
	message, err := io.ReadAll(io.LimitReader(r.Body, smallMessage+1))
	if err == nil && len(message) > smallMessage {
		who := access.FromContext(r.Context()).Name
		if !large.Take(who) {
			return nil, end, problem.New(problem.Unavailable, "too many large messages at the same time", "send it again later, or files in smaller parts")
		}
		end = func() { large.Give(who) }
		rest, failed := io.ReadAll(r.Body)
		message, err = append(message, rest...), failed
	}
	if err == nil && r.Method == http.MethodPost {
		if err = check(message); err != nil {
			err = sandbox.Invalid("send one JSON-RPC message, in UTF-8", "the message: %v", err)
		}
	}
	r.Body = io.NopCloser(bytes.NewReader(message))
	return message, end, problem.Of(err)
}

// maxID is the largest number that is one for every reader of JSON.
const maxID = 1<<53 - 1

// check refuses a message that has several meanings, or an ID that the SDK would answer with another
// one: it cuts numbers to integers of its own, and takes null for none.
func check(message []byte) error {
	if err := strictjson.Check(message); err != nil {
		return err
	}
	all := make([]map[string]json.RawMessage, 1)
	var into any = &all[0]
	if bytes.TrimLeft(message, " \t\r\n")[0] == '[' {
		into = &all
	}
	_ = json.NewDecoder(bytes.NewReader(message)).Decode(into) // as the SDK does, which says what is wrong: the first value, and names by their case
	for _, m := range all {
		id := m["id"]
		if len(id) == 0 || id[0] == '"' {
			continue
		}
		if n, err := strconv.ParseFloat(string(id), 64); err != nil || n != math.Trunc(n) || math.Abs(n) > maxID {
			return fmt.Errorf("the id %.40s is no text, and no integer that all readers of JSON have", id)
		}
	}
	return nil
}

// standsAlone reports whether a message says itself that it needs no session, whatever the headers say.
func standsAlone(message []byte) bool {
	var m struct {
		Params struct {
			Meta struct {
				Version string `json:"io.modelcontextprotocol/protocolVersion"`
			} `json:"_meta"`
		} `json:"params"`
	}
	return bytes.Contains(message, []byte("io.modelcontextprotocol/protocolVersion")) && json.Unmarshal(message, &m) == nil && m.Params.Meta.Version >= sessionless
}

// posts are the requests in sessions that are being answered. The end of a session cancels
// them: the SDK would wait for them.
type posts struct {
	mu   sync.Mutex
	next int
	by   map[[2]string]map[int]context.CancelFunc // caller and session
}

func (p *posts) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		of := [2]string{access.FromContext(r.Context()).Name, r.Header.Get("Mcp-Session-Id")}
		switch {
		case of[1] != "" && r.Method == http.MethodPost:
			ctx, cancel := context.WithCancel(r.Context())
			defer p.add(of, cancel)()
			r = r.WithContext(ctx)
		case r.Method == http.MethodDelete:
			p.cancel(of)
		}
		next.ServeHTTP(w, r)
	})
}

// add notes a request until done.
func (p *posts) add(of [2]string, cancel context.CancelFunc) (done func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.by[of] == nil {
		p.by[of] = map[int]context.CancelFunc{}
	}
	p.next++
	n := p.next
	p.by[of][n] = cancel
	return func() {
		cancel()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.by[of], n)
		if len(p.by[of]) == 0 {
			delete(p.by, of)
		}
	}
}

func (p *posts) cancel(of [2]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, cancel := range p.by[of] {
		cancel()
	}
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
