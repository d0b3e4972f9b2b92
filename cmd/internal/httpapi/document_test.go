package httpapi_test

import (
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/sandboxtest"

	"github.com/danielgtaylor/huma/v2"
)

// document is the server's own, as a client reads it.
func document(t *testing.T, s *sidecar) *huma.OpenAPI {
	t.Helper()
	return s.api.OpenAPI()
}

// What the contract writes is what the document says.
func TestDocumentedShapes(t *testing.T) {
	s := newSidecar(t, func(p *sandboxtest.Proc) int {
		io.WriteString(p.Stdout, strings.Repeat("long\n", 1000))
		io.WriteString(p.Stderr, "\xff")
		p.Daemon("left", func(p *sandboxtest.Proc) int { <-p.Killed; return 0 })
		return 1
	})
	schemas := document(t, s).Components.Schemas
	check := func(name string, text []byte) {
		t.Helper()
		var v any
		if err := json.Unmarshal(text, &v); err != nil {
			t.Fatal(err)
		}
		var found huma.ValidateResult
		huma.Validate(schemas, &huma.Schema{Ref: "#/components/schemas/" + name}, huma.NewPathBuffer(nil, 0), huma.ModeReadFromServer, v, &found)
		for _, err := range found.Errors {
			t.Errorf("%s: %v in %.300s", name, err, text)
		}
	}
	for _, of := range []sandbox.Grant{{}, {
		Timeout: time.Second, IdleTimeout: time.Second, Network: "none", Mounts: sandbox.ReadOnlyMounts, Secrets: []string{"TOKEN"},
		Limits: sandbox.Limits{Memory: 1, CPUs: 0.5, Pids: 1, Output: 1, Result: 1, Tmp: 1, Files: 1},
	}} {
		text, err := json.Marshal(of)
		if err != nil {
			t.Fatal(err)
		}
		check("Grant", text)
	}
	list, _ := io.ReadAll(s.do(t, "ann", "GET", "/v1/executions", nil).Body)
	check("ListOutputBody", list)
	for _, body := range []fields{
		{"command": "hello"},
		{"command": "hello", "limits": fields{"output_bytes": 2048}, "view": fields{"mode": "separate"}, "streams": "full"},
		{"command": "hello", "live": "view", "view": fields{"mode": "merged"}, "tty": fields{"rows": 5, "cols": 20}},
		{"command": "hello", "session": "dev", "description": "why", "encoding": "replace"},
	} {
		response := s.do(t, "ann", "POST", "/v1/executions", body, "Accept", "application/x-ndjson")
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(text) {
			check("Event", line)
			var e struct{ Result json.RawMessage }
			if json.Unmarshal(line, &e); e.Result != nil {
				check("Result", e.Result)
			}
		}
		whole, _ := io.ReadAll(s.do(t, "ann", "GET", response.Header.Get("Location"), nil).Body)
		check("Execution", whole)
	}
	s.get(t, "ann", "DELETE", "/v1/sessions/dev", nil, 204, nil)
}

// hostile are values that break what trusts them.
var hostile = []any{
	nil, true, -1, 0, 1, 1 << 62, -1e300, 1e300, 0.1, "", "0", "-1", "x", "ü\x00", "../../etc/passwd", "%2e%2e%2f", "/", "//", strings.Repeat("a", 5000), "\r\nSet-Cookie: a=b", "'; drop", "${x}", "\u202e", "\xff",
	[]any{}, []any{nil}, []any{"x", 1, []any{}}, fields{}, fields{"a": fields{"b": nil}}, fields{"": ""},
}

// value is one that the schema allows, or a hostile one.
func value(r *rand.Rand, schemas huma.Registry, s *huma.Schema, depth int) any {
	if s.Ref != "" {
		s = schemas.SchemaFromRef(s.Ref)
	}
	if depth > 4 || r.IntN(6) == 0 {
		return hostile[r.IntN(len(hostile))]
	}
	switch {
	case len(s.Enum) > 0:
		return s.Enum[r.IntN(len(s.Enum))]
	case s.Type == huma.TypeObject:
		all := fields{}
		for name, of := range s.Properties {
			if r.IntN(4) == 0 || slices.Contains(s.Required, name) && r.IntN(10) > 0 {
				all[name] = value(r, schemas, of, depth+1)
			}
		}
		return all
	case s.Type == huma.TypeArray:
		return []any{value(r, schemas, s.Items, depth+1)}
	case s.Type == huma.TypeBoolean:
		return r.IntN(2) == 0
	case s.Type == huma.TypeInteger, s.Type == huma.TypeNumber:
		return r.IntN(100)
	}
	return []string{"hello", "default", "dev", "65534:65534", "/work", "TERM"}[r.IntN(6)]
}

// Every endpoint answers every value without failing itself.
func TestHostileRequests(t *testing.T) {
	s := newSidecar(t, func(*sandboxtest.Proc) int { return 0 })
	var known sandbox.Result
	s.get(t, "", "POST", "/v1/executions", fields{"command": "hello", "session": "dev"}, 200, &known)
	doc := document(t, s)
	random := rand.New(rand.NewPCG(1, 2))
	count := 0
	for path, item := range doc.Paths {
		for method, op := range map[string]*huma.Operation{"GET": item.Get, "POST": item.Post, "PUT": item.Put, "DELETE": item.Delete} {
			if op == nil {
				continue
			}
			for range 150 {
				s.hostile(t, random, doc, known.ID, path, method, op)
				count++
			}
		}
	}
	if count < 2000 {
		t.Errorf("%d requests", count)
	}
	if list, err := s.l.Sessions(t.Context()); err == nil {
		for _, info := range list {
			s.l.RemoveSession(t.Context(), info.Name)
		}
	}
}

// redirects reports whether an answer is the mux's for a path that is not clean, or none of this operation's.
func redirects(r *http.Response) bool {
	return r.Request.Response != nil || r.StatusCode == http.StatusMovedPermanently || r.StatusCode == http.StatusTemporaryRedirect || r.StatusCode == http.StatusMethodNotAllowed
}

func (s *sidecar) hostile(t *testing.T, random *rand.Rand, doc *huma.OpenAPI, known, path, method string, op *huma.Operation) {
	t.Helper()
	text := func(v any) string {
		if s, ok := v.(string); ok {
			return s
		}
		b, _ := json.Marshal(v)
		return string(b)
	}
	query, header := url.Values{}, http.Header{"Caller": {""}, "Content-Type": {"application/json"}}
	for _, p := range op.Parameters {
		v := text(value(random, doc.Components.Schemas, p.Schema, 0))
		switch p.In {
		case "path":
			if random.IntN(3) > 0 {
				v = map[string]string{"id": known, "name": "dev"}[p.Name]
			}
			path = strings.ReplaceAll(path, "{"+p.Name+"}", url.PathEscape(v))
		case "query":
			if random.IntN(2) == 0 && p.Name != "wait" && p.Name != "hold" && p.Name != "follow" && p.Name != "watch" {
				query.Set(p.Name, v)
			}
		case "header":
			if random.IntN(2) == 0 && !strings.ContainsAny(v, "\r\n\x00") {
				header.Set(p.Name, v)
			}
		}
	}
	var body io.Reader
	if op.RequestBody != nil {
		raw := []byte(text(hostile[random.IntN(len(hostile))]))
		if media := op.RequestBody.Content["application/json"]; media != nil {
			v := value(random, doc.Components.Schemas, media.Schema, 0)
			if all, ok := v.(fields); ok {
				delete(all, "stdin_open") // its commands would wait
			}
			raw, _ = json.Marshal(v)
		}
		body = bytes.NewReader(raw)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path+"?"+query.Encode(), body)
	if err != nil {
		return // no client sends it
	}
	r.Header = header
	response, err := s.Client().Do(r)
	if err != nil {
		t.Fatalf("%s %s: %v", method, r.URL, err)
	}
	defer response.Body.Close()
	answer, _ := io.ReadAll(response.Body)
	if op.Responses[strconv.Itoa(response.StatusCode)] == nil && !redirects(response) {
		t.Errorf("%s %s: status %d is not documented: %s", method, r.URL, response.StatusCode, answer)
	}
	if response.StatusCode >= 500 && response.StatusCode != http.StatusBadGateway || response.StatusCode == http.StatusBadGateway && bytes.Contains(answer, []byte("internal")) {
		t.Errorf("%s %s: %d: %s", method, r.URL, response.StatusCode, answer)
	}
}
