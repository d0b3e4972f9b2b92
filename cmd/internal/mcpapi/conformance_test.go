package mcpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

const newest = "2026-07-28"

// about is what each request of the newest protocol says of its client.
var about = fields{
	"io.modelcontextprotocol/protocolVersion":    newest,
	"io.modelcontextprotocol/clientInfo":         fields{"name": "test", "version": "1"},
	"io.modelcontextprotocol/clientCapabilities": fields{},
}

// without is about, less a field; with a value, that field has it.
func without(field string, value ...any) fields {
	f := fields{}
	for k, v := range about {
		if name := "io.modelcontextprotocol/" + field; k != name {
			f[k] = v
		} else if len(value) > 0 {
			f[k] = value[0]
		}
	}
	return f
}

// request is a message of the newest protocol.
func request(method string, params, meta fields) string {
	p := fields{}
	for k, v := range params {
		p[k] = v
	}
	if meta != nil {
		p["_meta"] = meta
	}
	text, _ := json.Marshal(fields{"jsonrpc": "2.0", "id": "seven", "method": method, "params": p})
	return string(text)
}

// answer is what a server says, in a body or a stream's first event.
type answer struct {
	ID     any
	Result map[string]any
	Error  *struct {
		Code int
		Data struct {
			Supported []string
			Requested string
		}
	}
}

func read(t *testing.T, from io.Reader) (a answer) {
	t.Helper()
	body, err := io.ReadAll(from)
	if err != nil {
		t.Fatal(err)
	}
	text := string(body)
	if _, data, isStream := strings.Cut(text, "data: "); isStream {
		text, _, _ = strings.Cut(data, "\n")
	}
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		t.Errorf("%v: %s", err, body)
	}
	return a
}

// What the protocol demands of HTTP servers without sessions, as its conformance scenarios check it: server-stateless,
// http-header-validation, caching and session-lifecycle, where they are not about tools of their own test server.
func TestHTTPConformance(t *testing.T) {
	s := serve(t)
	s.listen(t)
	const (
		headerMismatch     = -32020
		unsupportedVersion = -32022
		noMethod           = -32601
		badParams          = -32602
	)
	list, call := request("tools/list", nil, about), request("tools/call", fields{"name": "session_list", "arguments": fields{}}, about)
	version := []string{"Mcp-Protocol-Version", newest}
	headers := func(method string, more ...string) []string {
		return append(append(version, "Mcp-Method", method), more...)
	}
	type row struct {
		message string
		header  []string
		status  int
		code    int
	}
	rows := map[string]row{
		"a list":                    {list, headers("tools/list"), 200, 0},
		"a call":                    {call, headers("tools/call", "Mcp-Name", "session_list"), 200, 0},
		"no client's name":          {request("tools/list", nil, without("clientInfo")), headers("tools/list"), 200, 0},
		"no _meta":                  {request("tools/list", nil, nil), headers("tools/list"), 400, badParams},
		"no version in _meta":       {request("tools/list", nil, without("protocolVersion")), headers("tools/list"), 400, badParams},
		"no capabilities in _meta":  {request("tools/list", nil, without("clientCapabilities")), headers("tools/list"), 400, badParams},
		"a version of the future":   {request("server/discover", nil, without("protocolVersion", "v999.0.0")), []string{"Mcp-Protocol-Version", "v999.0.0", "Mcp-Method", "server/discover"}, 400, unsupportedVersion},
		"two versions":              {request("server/discover", nil, without("protocolVersion", "v999.0.0")), headers("server/discover"), 400, headerMismatch},
		"an old version's header":   {list, []string{"Mcp-Protocol-Version", "2025-06-18", "Mcp-Method", "tools/list"}, 400, headerMismatch},
		"no version's header":       {list, []string{"Mcp-Method", "tools/list"}, 400, headerMismatch},
		"no method's header":        {list, version, 400, headerMismatch},
		"another method's header":   {list, headers("tools/call"), 400, headerMismatch},
		"the method in capitals":    {list, headers("TOOLS/LIST"), 400, headerMismatch},
		"spaces around a header":    {list, headers("  tools/list  "), 200, 0},
		"no name's header":          {call, headers("tools/call"), 400, headerMismatch},
		"another name's header":     {call, headers("tools/call", "Mcp-Name", "shell_run"), 400, headerMismatch},
		"a tool that is not there":  {request("tools/call", fields{"name": "none", "arguments": fields{}}, about), headers("tools/call", "Mcp-Name", "none"), 400, badParams},
		"discovery":                 {request("server/discover", nil, about), headers("server/discover"), 200, 0},
		"another site's origin":     {list, headers("tools/list", "Origin", "http://evil.example"), 403, 0},
		"an origin that is ours":    {list, headers("tools/list", "Origin", strings.TrimSuffix(s.url, "/mcp")), 200, 0},
		"the other order of Accept": {list, headers("tools/list", "Accept", "text/event-stream, application/json"), 200, 0},
	}
	for _, removed := range []string{"initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "no/such"} {
		rows[removed] = row{request(removed, nil, about), headers(removed), 404, noMethod}
	}
	for name, want := range rows {
		r, err := s.post(t.Context(), t, "ann", want.message, want.header...)
		if err != nil || r.StatusCode != want.status {
			t.Errorf("%s: %v, %v", name, r, err)
			continue
		}
		if want.status == http.StatusForbidden {
			continue
		}
		a := read(t, r.Body)
		switch {
		case a.ID != "seven":
			t.Errorf("%s: the answer to %v", name, a.ID)
		case want.code == 0 && (a.Error != nil || a.Result["resultType"] != "complete"):
			t.Errorf("%s: %+v", name, a)
		case want.code != 0 && (a.Error == nil || a.Error.Code != want.code):
			t.Errorf("%s: %+v, want the code %d", name, a.Error, want.code)
		case want.code == unsupportedVersion && (len(a.Error.Data.Supported) == 0 || a.Error.Data.Requested != "v999.0.0"):
			t.Errorf("%s: %+v", name, a.Error)
		}
		_, lists := a.Result["tools"]
		if _, discovers := a.Result["capabilities"]; (lists || discovers) && (a.Result["ttlMs"] != 0.0 || a.Result["cacheScope"] != "private") { // each token has its own
			t.Errorf("%s: cached for %v, scope %v", name, a.Result["ttlMs"], a.Result["cacheScope"])
		}
	}
}

// The first message of a subscription says that it began, and all of it names the subscription.
func TestSubscription(t *testing.T) {
	s := serve(t)
	s.listen(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := s.post(ctx, t, "ann", request("subscriptions/listen", fields{"notifications": fields{"toolsListChanged": true}}, about), "Mcp-Protocol-Version", newest, "Mcp-Method", "subscriptions/listen")
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", r, err)
	}
	var first struct {
		Method string
		Params struct {
			Meta map[string]any `json:"_meta"`
		}
	}
	var got strings.Builder
	for block := make([]byte, 1024); !strings.Contains(got.String(), "\n\n"); {
		n, err := r.Body.Read(block)
		got.Write(block[:n])
		if err != nil {
			t.Fatalf("%v: %s", err, got.String())
		}
	}
	_, data, _ := strings.Cut(got.String(), "data: ")
	if err := json.Unmarshal([]byte(data), &first); err != nil || first.Method != "notifications/subscriptions/acknowledged" || fmt.Sprint(first.Params.Meta["io.modelcontextprotocol/subscriptionId"]) != "seven" {
		t.Errorf("%v: %s", err, got.String())
	}
}

// A session that was ended is not found.
func TestSessionEnds(t *testing.T) {
	s := serve(t)
	s.listen(t)
	header := s.session(t, "ann")
	end, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, s.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	end.Header.Set("Authorization", "Bearer "+tokens["ann"])
	for i := 0; i < len(header); i += 2 {
		end.Header.Set(header[i], header[i+1])
	}
	r, err := http.DefaultClient.Do(end)
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	after, err := s.post(t.Context(), t, "ann", `{"jsonrpc": "2.0", "id": 2, "method": "tools/list"}`, header...)
	if r.StatusCode != http.StatusNoContent || err != nil || after.StatusCode != http.StatusNotFound {
		t.Errorf("%v, then %v, %v", r, after, err)
	}
}
