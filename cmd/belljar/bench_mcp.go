package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"belljar/cmd/internal/access"
	"belljar/cmd/internal/approvals"
	"belljar/cmd/internal/mcpapi"
	"belljar/sandbox"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// benchMCP measures what MCP on stdin and stdout adds to the library's command on a pool at rest.
func benchMCP(ctx context.Context, b *bench) (benchRow, error) {
	return b.withSidecar(ctx, func(s benchSidecar) (row benchRow, err error) {
		call, end, err := s.overPipes(ctx)
		if err != nil {
			return row, err
		}
		defer func() { err = errors.Join(err, end()) }()
		rested := func(do side) side {
			return func(ctx context.Context) (time.Duration, error) {
				if err := b.rest(ctx, s.runner, ""); err != nil {
					return 0, err
				}
				return do(ctx)
			}
		}
		library := func(ctx context.Context) (time.Duration, error) {
			return timedRun(ctx, s.runner, sandbox.Command{Script: trivial}, nil)
		}
		ours, theirs, err := alternate(ctx, b.count, rested(call), rested(library))
		return newBenchRow("library", ours, theirs), err
	})
}

// overPipes is a client of the protocol's own library, as an agent's is, and its server at
// the other end of two pipes.
func (s benchSidecar) overPipes(ctx context.Context) (call side, end func() error, err error) {
	requests, toServer, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	answers, toClient, err := os.Pipe()
	if err != nil {
		return nil, nil, errors.Join(err, requests.Close(), toServer.Close())
	}
	server := &mcpapi.Server{
		Book: s.book, Owners: s.api.Owners, Sessions: s.runner, Files: s.runner, Profiles: s.runner.CurrentProfiles,
		Approvals: &approvals.Approvals{}, Describe: mcpapi.Describe, Version: version, Log: slog.New(slog.DiscardHandler),
	}
	served := make(chan error, 1)
	go func() { served <- server.Stdio(ctx, requests, toClient, access.Local) }()
	client := mcp.NewClient(&mcp.Implementation{Name: "belljar bench", Version: version}, nil)
	session, err := client.Connect(ctx, &mcp.IOTransport{Reader: answers, Writer: toServer}, nil)
	if err != nil {
		return nil, nil, errors.Join(err, toServer.Close(), <-served)
	}
	call = func(ctx context.Context) (time.Duration, error) {
		begun := time.Now()
		r, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "shell_run", Arguments: map[string]any{"command": trivial}})
		took := time.Since(begun)
		if err == nil && !succeeded(r) {
			text, _ := json.Marshal(r)
			err = fmt.Errorf("shell_run answers %.1000s", text)
		}
		return took, err
	}
	return call, func() error {
		err := errors.Join(session.Close(), <-served)
		server.Close()
		return err
	}, nil
}

func succeeded(r *mcp.CallToolResult) bool {
	out, ok := r.StructuredContent.(map[string]any)
	return ok && !r.IsError && out["status"] == string(sandbox.StatusSuccess)
}
