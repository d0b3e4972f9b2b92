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

	"belljar/cmd/internal/access"
	"belljar/cmd/internal/executions"
	"belljar/cmd/internal/mcpapi"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A canceled call leaves nothing running, whatever the protocol and the transport.
func TestCancel(t *testing.T) {
	s := serve(t)
	s.listen(t)
	for _, version := range versions {
		for over, c := range map[string]client{"stdio": s.overPipes(t, version, nil), "http": s.overHTTP(t, "ann", version, nil)} {
			for _, command := range []string{"sleep 1000", "trap '' TERM INT; sleep 1000 & while :; do wait; done"} {
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() {
					_, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "shell_run", Arguments: fields{"command": command}})
					ended <- err
				}()
				x := s.running(t)
				begun := time.Now()
				cancel()
				<-ended
				s.gone(t)
				t.Logf("%s %s: nothing is left after %v", over, version, time.Since(begun))
				if r, err := x.Result(t.Context()); err != nil || r.Cause != "canceled" {
					t.Errorf("%s %s: %s, %v", over, version, r.Cause, err)
				}
			}
		}
	}
}

// So does one that waits for an approval.
func TestCancelWaiting(t *testing.T) {
	s := serve(t)
	s.listen(t)
	c := s.overHTTP(t, "ann", "", nil)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		eventually(t, "it waits", func() bool { return len(s.asked.Waiting()) == 1 })
		cancel()
	}()
	if _, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "shell_run", Arguments: fields{"command": "touch x"}}); err == nil {
		t.Error("it is not canceled")
	}
	eventually(t, "the question is gone", func() bool { return len(s.asked.Waiting()) == 0 })
	s.gone(t)
}

// The end of stdin ends all that a client runs, also what outlived its call.
func TestStdinEnds(t *testing.T) {
	s := serve(t)
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- s.Stdio(context.Background(), in, out, access.Local) }()
	c := connect(t, &mcp.IOTransport{Reader: fromServer, Writer: toServer}, "", nil)
	var r mcpapi.Ran
	c.call("shell_run", fields{"command": "sleep 1000", "yield_seconds": 0}, &r)
	go c.CallTool(context.Background(), &mcp.CallToolParams{Name: "shell_run", Arguments: fields{"command": "sleep 2000"}})
	eventually(t, "two commands run", func() bool { return len(s.live()) == 2 })
	toServer.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if live := s.live(); len(live) != 0 {
		t.Errorf("%d commands run on", len(live))
	}
	s.gone(t)
}

// A command that outlives its call is found by its ID, and each byte of its output comes once.
func TestEveryByteOnce(t *testing.T) {
	s := serve(t)
	s.listen(t)
	for name, c := range map[string]client{"stdio": s.overPipes(t, "", nil), "http": s.overHTTP(t, "ann", "2025-06-18", nil)} {
		var r mcpapi.Ran
		c.call("shell_run", fields{"command": "read -r go; i=0; while [ $i -lt 6000 ]; do echo \"$i größer €\"; i=$((i+1)); done; exit 7", "stdin_open": true, "yield_seconds": 0}, &r)
		c.call("shell_input", fields{"id": r.ID, "text": "go\n", "offset": 0}, nil)
		var want, got strings.Builder
		for i := range 6000 {
			fmt.Fprintf(&want, "%d größer €\n", i)
		}
		got.WriteString(r.Output)
		for offset := r.NextOffset; r.State != "ended" || offset < int64(want.Len()); offset = r.NextOffset {
			next := mcpapi.Ran{}
			c.call("shell_output", fields{"id": r.ID, "offset": offset, "wait_seconds": 0.05}, &next)
			r = next
			got.WriteString(r.Output)
		}
		if got.String() != want.String() {
			t.Errorf("%s: %d bytes, want %d", name, got.Len(), want.Len())
		}
		if r.ExitCode == nil || *r.ExitCode != 7 {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// Whatever a command writes, an answer is small, and its end is there.
func TestAnswersAreSmall(t *testing.T) {
	s := serve(t)
	c := s.overPipes(t, "", nil)
	for name, command := range map[string]string{
		"lines":    "yes 'a line of output that goes on and on' | head -c 100000000; echo the end",
		"one line": "head -c 100000000 /dev/zero | tr '\\0' x; echo; echo the end",
		"binary":   "head -c 10000000 /dev/urandom; echo; echo the end",
		"escapes":  "yes \"$(printf '\\033[31m\\302\\205')\" | head -c 1000000; echo the end",
	} {
		var r mcpapi.Ran
		result := c.call("shell_run", fields{"command": command, "yield_seconds": 600}, &r)
		data, err := json.Marshal(result)
		if err != nil || len(data) > 40_000 || r.Status != "success" || r.Omitted == 0 {
			t.Errorf("%s: %d bytes: %.500s", name, len(data), text(result))
		}
		if name != "binary" && !strings.Contains(r.Output, "the end") {
			t.Errorf("%s: no end: %s", name, r.Output)
		}
		t.Logf("%s: %d bytes of text, %d in all", name, len(text(result)), len(data))
		page := c.call("shell_output", fields{"id": r.ID}, &r)
		if data, err = json.Marshal(page); err != nil || len(data) > 50_000 {
			t.Errorf("%s: %d bytes of output in one answer", name, len(data))
		}
		if strings.ContainsAny(text(page)+r.Output, "\x1b\u0085") {
			t.Errorf("%s: it is not safe to show", name)
		}
	}
}

// A client that asks for progress sees the end of the output while the command runs.
func TestProgress(t *testing.T) {
	s := serve(t)
	s.listen(t)
	for _, version := range versions {
		for _, open := range []func(options *mcp.ClientOptions) client{
			func(o *mcp.ClientOptions) client { return s.overPipes(t, version, o) },
			func(o *mcp.ClientOptions) client { return s.overHTTP(t, "ann", version, o) },
		} {
			told := make(chan *mcp.ProgressNotificationParams, 100)
			c := open(&mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { told <- r.Params }})
			ended := make(chan *mcp.CallToolResult, 1)
			p := &mcp.CallToolParams{Name: "shell_run", Arguments: fields{"command": "echo first; read -r go; echo second $go", "stdin_open": true}}
			p.SetProgressToken("tail")
			go func() {
				r, err := c.CallTool(t.Context(), p)
				if err != nil {
					t.Error(err)
				}
				ended <- r
			}()
			if n := <-told; n.ProgressToken != "tail" || n.Message != "first\n" || n.Progress <= 0 {
				t.Errorf("%s: %+v", version, n)
			}
			c.call("shell_input", fields{"id": s.running(t).ID, "text": "now\n", "offset": 0}, nil)
			if r := <-ended; !strings.HasSuffix(text(r), "first\nsecond now\n") {
				t.Errorf("%s: %s", version, text(r))
			}
		}
	}
}

// reply is a response, whose body is closed at the test's end.
type reply struct {
	StatusCode int
	Header     http.Header
	Body       io.Reader
}

// post sends one message by HTTP.
func (s *serving) post(ctx context.Context, t *testing.T, name, message string, header ...string) (reply, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, strings.NewReader(message))
	if err != nil {
		return reply{}, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Authorization", "Bearer "+tokens[name])
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return reply{}, err
	}
	t.Cleanup(func() { response.Body.Close(); http.DefaultClient.CloseIdleConnections() })
	return reply{response.StatusCode, response.Header, response.Body}, nil
}

const initialize = `{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}}`

// session begins one of an earlier protocol.
func (s *serving) session(t *testing.T, name string) []string {
	t.Helper()
	response, err := s.post(t.Context(), t, name, initialize)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", response, err)
	}
	return []string{"Mcp-Session-Id", response.Header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version", "2025-06-18"}
}

// A stream that closes is a cancellation by the earlier protocols, too: no one could continue it.
// The end of the session is one, without the stream's.
func TestStreamCloses(t *testing.T) {
	s := serve(t)
	s.listen(t)
	const run = `{"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "shell_run", "arguments": {"command": "sleep 1000"}}}`
	header := s.session(t, "ann")
	ctx, cancel := context.WithCancel(t.Context())
	go s.post(ctx, t, "ann", run, header...)
	s.running(t)
	cancel()
	s.gone(t)
	go s.post(t.Context(), t, "ann", run, header...)
	s.running(t)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, s.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+tokens["ann"])
	r.Header.Set("Mcp-Session-Id", header[1])
	response, err := http.DefaultClient.Do(r)
	if err != nil || response.StatusCode != http.StatusNoContent {
		t.Fatalf("%v, %v", response, err)
	}
	response.Body.Close()
	s.gone(t)
}

// What outlived its call runs on without any connection.
func TestYieldOutlivesConnection(t *testing.T) {
	s := serve(t)
	s.listen(t)
	var r mcpapi.Ran
	c := s.overHTTP(t, "ann", "", nil)
	c.call("shell_run", fields{"command": "read -r go; echo done", "stdin_open": true, "yield_seconds": 0}, &r)
	c.Close()
	eventually(t, "it runs", func() bool { return s.live()[0].State() == executions.Running })
	again := s.overHTTP(t, "ann", "2025-06-18", nil)
	again.call("shell_input", fields{"id": r.ID, "text": "\n", "offset": 0}, nil)
	again.call("shell_output", fields{"id": r.ID, "wait_seconds": 60}, &r)
	if r.State != "ended" || r.Output != "done\n" {
		t.Errorf("%+v", r)
	}
}
