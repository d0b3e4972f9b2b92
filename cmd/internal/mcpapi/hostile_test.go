package mcpapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"belljar/cmd/internal/access"
	"belljar/cmd/internal/mcpapi"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rogpeppe/go-internal/txtar"
)

// One caller sees nothing of another's, and each does only what its token allows.
func TestCallers(t *testing.T) {
	s := serve(t)
	s.listen(t)
	for _, version := range versions {
		ann, ben, reader := s.overHTTP(t, "ann", version, nil), s.overHTTP(t, "ben", version, nil), s.overHTTP(t, "reader", version, nil)
		session := "of-ann-" + version
		var r mcpapi.Ran
		ann.call("shell_run", fields{"command": "echo secret >file; echo secret; read -r x", "session": session, "stdin_open": true, "yield_seconds": 0}, &r)
		for tool, arguments := range map[string]fields{
			"shell_output": {"id": r.ID}, "shell_input": {"id": r.ID, "text": "x\n", "offset": 0}, "shell_signal": {"id": r.ID, "signal": "KILL"},
			"file_read": {"session": session, "path": "file"}, "file_list": {"session": session}, "file_write": {"session": session, "path": "file", "content": ""},
			"session_end": {"session": session}, "shell_run": {"session": session, "command": "cat file"},
		} {
			for name, c := range map[string]client{"ben": ben, "reader": reader} {
				if got := c.refused(tool, arguments); strings.Contains(got, "secret") {
					t.Errorf("%s calls %s: %s", name, tool, got)
				}
			}
		}
		for name, c := range map[string]client{"ben": ben, "reader": reader} {
			var listed mcpapi.Listed
			if c.call("session_list", nil, &listed); len(listed.Sessions) != 0 {
				t.Errorf("%s sees %+v", name, listed)
			}
		}
		for _, tool := range []string{"shell_run", "policy_explain"} {
			if got := reader.refused(tool, fields{"command": "ls"}); !strings.Contains(got, `this needs the scope "run"`) {
				t.Error(got)
			}
		}
		ann.call("shell_input", fields{"id": r.ID, "text": "x\n", "offset": 0}, nil)
		ann.call("shell_output", fields{"id": r.ID, "wait_seconds": 60}, &r)
		if r.State != "ended" || r.Output != "secret\n" {
			t.Errorf("%+v", r)
		}
		ann.call("session_end", fields{"session": session}, nil)
	}
}

// An MCP session is its token's only.
func TestStolenSession(t *testing.T) {
	s := serve(t)
	s.listen(t)
	header := s.session(t, "ann")
	const list = `{"jsonrpc": "2.0", "id": 2, "method": "tools/list"}`
	for name, want := range map[string]int{"ann": http.StatusOK, "ben": http.StatusForbidden} {
		r, err := s.post(t.Context(), t, name, list, header...)
		if err != nil || r.StatusCode != want {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
}

// A caller has a bounded number of MCP sessions, and does not take others'.
func TestManySessions(t *testing.T) {
	s := serve(t)
	s.listen(t)
	for range 100 {
		s.session(t, "ann")
	}
	if r, err := s.post(t.Context(), t, "ann", initialize); err != nil || r.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("%v, %v", r, err)
	}
	s.session(t, "ben")
}

const (
	bad  = `{"jsonrpc": "2.0", "id": 9, "method": `
	call = `{"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"name": "shell_run", "arguments": {"command": "echo one", "command": "echo two"}}}`
)

// messages that no client should send.
func hostile() map[string]string {
	return map[string]string{
		"no JSON": "hello", "half": bad, "empty object": "{}", "a number": "1", "null": "null", "an array": "[]", "batch": "[" + initialize + "]", "deep": strings.Repeat("[", 100_000),
		"not UTF-8": "{\"jsonrpc\": \"2.0\", \"id\": 9, \"method\": \"\xff\"}", "a field twice": call, "long": `{"jsonrpc": "2.0", "id": 9, "method": "` + strings.Repeat("x", 9<<20) + `"}`,
		"another version": `{"jsonrpc": "1.0", "id": 9, "method": "ping"}`, "an object as ID": `{"jsonrpc": "2.0", "id": {}, "method": "ping"}`, "no method": `{"jsonrpc": "2.0", "id": 9}`,
		"an answer to nothing": `{"jsonrpc": "2.0", "id": 77, "result": {}}`, "a cancel of nothing": `{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 77}}`,
		"a cancel of no ID": `{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": {}}}`,
	}
}

// A client that sends nonsense gets an error at most, and goes on.
func TestHostileLines(t *testing.T) {
	s := serve(t)
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- s.Stdio(context.Background(), in, out, access.Local) }()
	lines := bufio.NewReader(fromServer)
	// until sends a line, and reads up to the answer with that ID.
	until := func(line, id string) string {
		t.Helper()
		go io.WriteString(toServer, line+"\n")
		for {
			text, err := lines.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			var m struct{ ID json.RawMessage }
			if err := json.Unmarshal([]byte(text), &m); err != nil {
				t.Fatalf("%v: %s", err, text)
			}
			if string(m.ID) == id {
				return text
			}
		}
	}
	if got := until(`{"jsonrpc": "2.0", "id": 5, "method": "tools/list"}`, "5"); !strings.Contains(got, "error") {
		t.Errorf("before initialize: %s", got)
	}
	until(initialize, "1")
	go io.WriteString(toServer, "\n\r\n"+`{"jsonrpc": "2.0", "method": "notifications/initialized"}`+"\n")
	if got := until(`{"jsonrpc": "2.0", "id": "run", "method": "tools/call", "params": {"name": "shell_run", "arguments": {"command": "sleep 1000", "yield_seconds": 0}}}`, `"run"`); !strings.Contains(got, "structuredContent") {
		t.Fatal(got)
	}
	for name, line := range hostile() {
		if got := until(line+"\n"+`{"jsonrpc": "2.0", "id": "after", "method": "ping"}`, `"after"`); !strings.Contains(got, `"result":{}`) {
			t.Errorf("%s: %s", name, got)
		}
	}
	if len(s.live()) != 1 {
		t.Error("the command that ran has ended")
	}
	toServer.Close()
	fromServer.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	s.gone(t)
}

// By HTTP, too; and no one else's call suffers.
func TestHostileRequests(t *testing.T) {
	s := serve(t)
	s.listen(t)
	ben := s.overHTTP(t, "ben", "", nil)
	ended := make(chan *mcp.CallToolResult, 1)
	go func() {
		r, err := ben.CallTool(t.Context(), &mcp.CallToolParams{Name: "shell_run", Arguments: fields{"command": "read -r go; echo ok", "stdin_open": true}})
		if err != nil {
			t.Error(err)
		}
		ended <- r
	}()
	x := s.running(t)
	for name, message := range hostile() {
		for _, header := range [][]string{nil, s.session(t, "ann"), {"Mcp-Protocol-Version", "2026-07-28"}, {"Mcp-Protocol-Version", "1"}, {"Mcp-Session-Id", "none"}, {"Mcp-Protocol-Version", "2026-07-28", "Last-Event-ID", "x_1"}} {
			r, err := s.post(t.Context(), t, "ann", message, header...)
			if err != nil && name == "long" {
				continue // it was cut off
			}
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			got, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
			if r.StatusCode >= 500 || strings.Contains(string(got), "two") {
				t.Errorf("%s %q: %d %.300s", name, header, r.StatusCode, got)
			}
		}
	}
	ben.call("shell_input", fields{"id": x.ID, "text": "\n", "offset": 0}, nil)
	if r := <-ended; r == nil || !strings.HasSuffix(text(r), "Output:\nok\n") {
		t.Errorf("%+v", r)
	}
}

// The scenarios of the SDK that are about the protocol, not about features of its test server:
// each message gets an answer with the ID, the error's code and the versions that it says. Its
// other scenarios need a program that is not a Go module (@modelcontextprotocol/conformance).
func TestConformance(t *testing.T) {
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/modelcontextprotocol/go-sdk").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"bad_requests", "discover", "lifecycle", "version-latest", "version-older"} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "mcp/testdata/conformance/server", name+".txtar"))
			if err != nil {
				t.Fatal(err)
			}
			var client, want []json.RawMessage
			for _, f := range txtar.Parse(text).Files {
				switch f.Name {
				case "client":
					client = messages(t, f.Data)
				case "server":
					want = messages(t, f.Data)
				}
			}
			converse(t, client, want)
		})
	}
}

func messages(t *testing.T, text []byte) (list []json.RawMessage) {
	for d := json.NewDecoder(strings.NewReader(string(text))); d.More(); {
		var m json.RawMessage
		if err := d.Decode(&m); err != nil {
			t.Fatal(err)
		}
		list = append(list, m)
	}
	return list
}

// essence is what all servers say the same way.
type essence struct {
	ID    any
	Error *struct{ Code int }

	Result *struct {
		ProtocolVersion   string
		SupportedVersions []string
	}
}

// converse sends the messages, each after the answer to the one before.
func converse(t *testing.T, client, want []json.RawMessage) {
	s := serve(t)
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- s.Stdio(context.Background(), in, out, access.Local) }()
	answers := json.NewDecoder(fromServer)
	for _, m := range client {
		var request struct {
			ID     any
			Method string
		}
		if err := json.Unmarshal(m, &request); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := toServer.Write(append(text, '\n')); err != nil {
			t.Fatal(err)
		}
		if request.ID == nil {
			continue
		}
		var got, expected essence
		if err := answers.Decode(&got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(want[0], &expected); err != nil {
			t.Fatal(err)
		}
		want = want[1:]
		a, _ := json.Marshal(got)
		b, _ := json.Marshal(expected)
		if string(a) != string(b) {
			t.Errorf("%s: %s, want %s", text, a, b)
		}
	}
	if len(want) > 0 {
		t.Errorf("%d answers are missing", len(want))
	}
	toServer.Close()
	fromServer.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
