package mcpapi_test

import (
	"log/slog"
	"os"
	"testing"
	"time"

	"belljar/cmd/internal/access"
	"belljar/cmd/internal/approvals"
	"belljar/cmd/internal/executions"
	"belljar/cmd/internal/mcpapi"
	"belljar/sandbox"
	"belljar/sandbox/local"
	"belljar/sandbox/sandboxtest"
	"belljar/view"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// BenchmarkRun is what MCP adds to the library on an engine that takes no time.
func BenchmarkRun(b *testing.B) {
	p := sandbox.Defaults().Profile
	p.Pool = sandbox.PoolSize{Max: sandbox.NoPool}
	engine := &sandboxtest.Engine{Script: func(*sandboxtest.Proc) int { return 0 }}
	l := local.New(engine, &sandboxtest.Images{})
	l.Profiles = map[string]sandbox.Profile{sandbox.DefaultProfile: p}
	l.StateDir, l.Viewer = b.TempDir(), view.Viewer{}
	l.Spool = sandbox.Spooling{Age: time.Hour}
	defer l.Close()
	book, err := executions.Open(executions.Config{Runner: l, Logs: l, Dir: l.StateDir + "/executions", Keep: time.Hour, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	defer book.Close()
	s := &mcpapi.Server{
		Book: book, Owners: &executions.Owners{Dir: book.Dir}, Sessions: l, Files: l, Profiles: l.CurrentProfiles,
		Approvals: &approvals.Approvals{}, Describe: mcpapi.Describe, Log: slog.New(slog.DiscardHandler), Version: "test",
	}
	defer s.Close()
	b.Run("library", func(b *testing.B) {
		for b.Loop() {
			if _, err := sandbox.Run(b.Context(), l, sandbox.Command{Script: "true"}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("mcp", func(b *testing.B) {
		requests, toServer := pipe(b)
		answers, toClient := pipe(b)
		ended := make(chan error, 1)
		go func() { ended <- s.Stdio(b.Context(), requests, toClient, access.Local) }()
		defer func() { <-ended }()
		client := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
		session, err := client.Connect(b.Context(), &mcp.IOTransport{Reader: answers, Writer: toServer}, nil)
		if err != nil {
			b.Fatal(err)
		}
		defer session.Close()
		for b.Loop() {
			if r, err := session.CallTool(b.Context(), &mcp.CallToolParams{Name: "shell_run", Arguments: map[string]any{"command": "true"}}); err != nil || r.IsError {
				b.Fatalf("%+v, %v", r, err)
			}
		}
	})
}

func pipe(b *testing.B) (r, w *os.File) {
	r, w, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	return r, w
}
