package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"belljar"
	"belljar/cmd/internal/access"
	"belljar/cmd/internal/approvals"
	"belljar/cmd/internal/executions"
	"belljar/cmd/internal/mcpapi"
	"belljar/config"
	"belljar/sandbox"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

const mcpHelp = `Give an agent a shell in a sandbox: an MCP server on stdin and stdout.

Commands find the working directory (--dir) in /work, read-only unless --write is
given. A program is allowed if it builds, tests, reads, or changes files or the
repository of the project; the agent's client asks you about all others. Your
sandbox.yaml in ~/.config/belljar or /etc/belljar can change that. A sandbox.yaml in
the directory has no effect, because the agent may have written it.

The agent's client starts this command. --print-config prints what to paste into the
client's configuration. docs/mcp.md describes the tools.

It ends at the end of stdin, with SIGTERM or with Ctrl-C. All commands and sessions end
with it. A sidecar (belljar serve) serves the same tools over HTTP, at /mcp.`

const mcpExamples = `  belljar mcp --print-config claude
  belljar mcp --write --image golang:1.26 --print-config codex >>~/.codex/config.toml`

// mcpFlags are the flags of belljar mcp.
type mcpFlags struct {
	profile, dir, image, client string

	write bool
}

func mcpCmd(g *globals) *cobra.Command {
	f := &mcpFlags{}
	cmd := &cobra.Command{
		Use: "mcp", Short: "Give an agent a sandboxed shell (MCP on stdin and stdout)", Long: mcpHelp, Example: mcpExamples, Args: cobra.NoArgs,
		Annotations: map[string]string{takesHost: ""}, // to refuse one with its own words
		RunE:        func(cmd *cobra.Command, _ []string) error { return f.run(cmd, g) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.profile, "profile", sandbox.DefaultProfile, "run commands with this `PROFILE` of sandbox.yaml")
	flags.StringVar(&f.dir, "dir", "", "serve the directory `DIR` instead of the working directory")
	flags.StringVar(&f.image, "image", "", "run commands in `IMAGE`, which has the project's tools (default: image of sandbox.yaml, or belljar/base, which has BusyBox only)")
	flags.BoolVar(&f.write, "write", false, "let commands change the files in the directory")
	flags.StringVar(&f.client, "print-config", "", "print what to paste into the configuration of `CLIENT` ("+strings.Join(mcpClientNames(), ", ")+"), with the flags given")
	cmd.MarkFlagDirname("dir")
	cmd.RegisterFlagCompletionFunc("print-config", cobra.FixedCompletions(mcpClientNames(), cobra.ShellCompDirectiveNoFileComp))
	completeProfile(cmd, func() (*config.Config, error) { return g.loadOwnConfig(nil) })
	completeFlag(cmd, "image", g, imageTags)
	return cmd
}

func (f *mcpFlags) run(cmd *cobra.Command, g *globals) error {
	if g.sidecar() != "" {
		return usagef("belljar mcp runs commands on this host, and a sidecar serves MCP itself: point the client at the sidecar's /mcp, or leave out -H and BELLJAR_HOST")
	}
	dir, err := directory(f.dir)
	if err != nil {
		return err
	}
	if f.client != "" {
		return f.printConfig(g, cmd.OutOrStdout(), cmd.ErrOrStderr(), dir)
	}
	keys := map[string]string{}
	if f.image != "" {
		keys["image"] = f.image
	}
	c, err := g.loadOwnConfig(keys)
	if err != nil {
		return err
	}
	if err := servable(c, "belljar mcp"); err != nil {
		return err
	}
	p := project{config: c, profile: f.profile, dir: dir, write: f.write}
	if err := p.apply(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends us at once
	if term.IsTerminal(int(os.Stdin.Fd())) {
		f.greet(cmd.ErrOrStderr(), dir)
	}
	return serveStdio(ctx, p, closable(os.Stdin), os.Stdout)
}

// greet tells a person what this waits for.
func (f *mcpFlags) greet(stderr io.Writer, dir string) {
	access := "read-only"
	if f.write {
		access = "writable"
	}
	fmt.Fprintf(stderr, "belljar: waiting for an agent's client on stdin, to run commands in %s (%s)\n", dir, access)
	fmt.Fprintln(stderr, "belljar: set a client up with: belljar mcp --print-config claude (or "+strings.Join(mcpClientNames()[1:], ", ")+"); Ctrl-C ends this")
}

// closable is a file whose reader can stop: closing the file does not end a Read of a pipe
// or a terminal. That Read is abandoned.
func closable(file *os.File) io.ReadCloser {
	in, out := io.Pipe()
	go func() {
		_, err := io.Copy(out, file)
		out.CloseWithError(err) // nil is io.EOF
	}()
	return in
}

// endTime is how long the last commands and sessions may take to end.
const endTime = 30 * time.Second

// stdioServer is a server for one client, on its stdin and stdout.
type stdioServer struct {
	runner *belljar.Runner
	book   *executions.Book
	api    *mcpapi.Server
	log    *slog.Logger
}

// serveStdio serves a client until ctx ends or stdin does. Nothing that it ran is left then.
func serveStdio(ctx context.Context, p project, stdin io.ReadCloser, stdout io.WriteCloser) (err error) {
	c := p.config
	dir, err := makeOwnDir(filepath.Join(c.StateDir, "mcp"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.remove()) }()
	host, err := belljar.ConnectAlone(ctx, c)
	if err != nil {
		return err
	}
	defer host.Close()
	if at, far := host.Remote(); far {
		return sandbox.Invalid("use an engine on this host: set engine.kind to docker or oci, and unset DOCKER_HOST, or set engine.host", "the engine at %s is on another host, and cannot mount the directory", at)
	}
	s := &stdioServer{log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	if err := s.open(host, p, dir.path); err != nil {
		return err
	}
	defer s.runner.Close()
	var sweeping sync.WaitGroup
	sweep, stop := context.WithCancel(ctx)
	sweeping.Go(func() { host.Engine.Sweep(sweep) }) // where it fails, the next one tries again
	s.runner.Warm()
	// Who answers a question at the client is the user that the client runs as, which is ours.
	who := access.Identity{Name: caller().User, Scopes: []access.Scope{access.Run, access.Approve}, Profiles: []string{p.profile}}
	err = s.api.Stdio(ctx, stdin, stdout, who)
	if ctx.Err() != nil {
		err = nil // a signal asked for the end
	}
	stop()
	sweeping.Wait()
	return errors.Join(err, s.end(context.WithoutCancel(ctx)))
}

func (s *stdioServer) open(host *belljar.Host, p project, dir string) (err error) {
	waiting := &approvals.Approvals{}
	s.runner = belljar.New(host, p.config)
	s.runner.OwnDir = dir
	s.runner.Control, s.runner.Log = true, s.log
	s.book, err = executions.Open(executions.Config{Runner: s.runner, Logs: s.runner, Dir: filepath.Join(dir, "executions"), Keep: p.config.Spool.Age, Log: s.log})
	if err != nil {
		return err
	}
	s.runner.Approver = s.book.Approver(waiting)
	s.api = &mcpapi.Server{
		Book: s.book, Owners: &executions.Owners{Dir: dir}, Sessions: s.runner, Files: s.runner,
		Profiles: s.runner.CurrentProfiles, Profile: p.profile, Approvals: waiting, Describe: mcpapi.Describe, Log: s.log, Version: version,
	}
	return nil
}

// end ends what still runs: commands at once, then sessions.
func (s *stdioServer) end(ctx context.Context) error {
	now, cancel := context.WithCancel(ctx)
	cancel()
	s.book.Drain(now)
	err := s.book.Close()
	ctx, cancel = context.WithTimeout(ctx, endTime)
	defer cancel()
	list, errList := s.runner.Sessions(ctx)
	err = errors.Join(err, errList)
	for _, session := range list {
		if e := s.runner.RemoveSession(ctx, session.Name); sandbox.CauseOf(e) != sandbox.CauseInvalid {
			err = errors.Join(err, e)
		}
	}
	return err
}
