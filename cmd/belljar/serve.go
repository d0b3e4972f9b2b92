package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"sync/atomic"
	"syscall"

	"belljar"
	"belljar/cmd/internal/access"
	"belljar/cmd/internal/approvals"
	"belljar/cmd/internal/executions"
	"belljar/cmd/internal/httpapi"
	"belljar/cmd/internal/listen"
	"belljar/cmd/internal/mcpapi"
	"belljar/cmd/internal/metrics"
	webpage "belljar/cmd/internal/page"
	"belljar/cmd/internal/replicas"
	"belljar/cmd/internal/tracing"
	"belljar/config"
	"belljar/sandbox"
	"belljar/sandbox/kubernetes"

	"github.com/spf13/cobra"
)

const serveHelp = `Run commands for clients that ask over HTTP: an isolation sidecar for a service.
belljar run -H, belljar/sandbox/client and any HTTP client can use it.

It listens on a unix socket that only this user can open (serve.listen in
sandbox.yaml), and keeps containers ready for the next commands. docs/sidecar.md
shows the first requests, and /openapi.json describes all of them.

At /ui is a web page: commands that wait for an approval, what runs, how commands
ended, sessions and pools. It asks for a token (serve.token_file), and shows and allows
what that token may. On a port, the log names its address.

The configuration is that of this machine and user: a sandbox.yaml in the working
directory is not read unless --config names it.

SIGTERM or Ctrl-C: it takes no more commands, waits until all have ended, at most
serve.drain_timeout, and then cancels the rest; their results say so. A second signal
cancels them at once. SIGHUP reads the profiles and the tokens again; the token file is
also read again a few seconds after it changes.`

const serveExamples = `  belljar serve
  curl --unix-socket /run/belljar/belljar.sock http://localhost/v1/executions \
    -H 'Content-Type: application/json' -d '{"command": "echo hello"}'`

func serveCmd(g *globals) *cobra.Command {
	return &cobra.Command{
		Use: "serve", Short: "Run commands for clients over HTTP", Long: serveHelp, Example: serveExamples, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s := &sidecar{load: func() (*config.Config, error) { return g.loadOwnConfig(nil) }, log: slog.New(slog.NewJSONHandler(os.Stderr, nil))}
			return s.run(cmd.Context())
		},
	}
}

// loadOwnConfig is the configuration without the working directory's.
func (g *globals) loadOwnConfig(flags map[string]string) (*config.Config, error) {
	c, err := config.Load(config.Options{Path: g.configPath, Env: os.Environ(), NoWorkdir: true, Flags: flags})
	if err != nil {
		return nil, usageError{err}
	}
	return c, nil
}

// sidecar is a server and what it serves.
type sidecar struct {
	load    func() (*config.Config, error)
	log     *slog.Logger
	config  *config.Config
	runner  *belljar.Runner
	book    *executions.Book
	metrics *metrics.Metrics
	spans   *tracing.Tracing
	tokens  access.Tokens
	api     *httpapi.Server
	mcp     *mcpapi.Server
	ended   func(sandbox.Result) // of each execution; may be nil
	begun   atomic.Bool          // it was ready once

	replicas atomic.Pointer[replicas.Replicas] // nil while there are no others
}

func (s *sidecar) run(ctx context.Context) error {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	var err error
	if s.config, err = s.load(); err != nil {
		return err
	}
	if err := cmp.Or(servable(s.config, "belljar serve"), checkReplicas(s.config)); err != nil {
		return err
	}
	if s.spans, err = tracing.Setup(ctx, version, s.log); err != nil {
		return err
	}
	defer s.spans.Shutdown(context.WithoutCancel(ctx))
	host, err := belljar.Connect(ctx, s.config)
	if err != nil {
		return err
	}
	defer host.Close()
	if err := s.open(host); err != nil {
		return err
	}
	defer s.runner.Close()
	if s.config.Serve.TokenFile != "" {
		err = s.tokens.Load(s.config.Serve.TokenFile)
	}
	var listener *listen.Listener
	if err == nil {
		listener, err = s.listen(ctx)
	}
	if err != nil {
		return errors.Join(err, s.book.Close())
	}
	defer listener.Close()
	if err := s.join(ctx); err != nil {
		return errors.Join(err, s.book.Close())
	}
	s.runner.Warm()
	return s.serve(ctx, listener, signals)
}

// listen opens the sockets.
func (s *sidecar) listen(ctx context.Context) (*listen.Listener, error) {
	c := s.config.Serve
	return listen.Open(ctx, listen.Config{
		Address: c.Listen, Cert: c.TLSCert, Key: c.TLSKey, ClientCA: c.ClientCA,
		Tokens: c.TokenFile != "", Insecure: c.Insecure, Connections: c.MaxConnections, Log: s.log,
	})
}

// servable refuses a configuration with which results would be forgotten.
func servable(c *config.Config, who string) error {
	switch {
	case c.StateDir == "":
		return sandbox.Invalid("set HOME or XDG_STATE_HOME", "%s needs a state directory, which keeps output and results", who)
	case c.Spool.Age == 0:
		return sandbox.Invalid("set it to a time such as 1h", "%s keeps nothing of a command after its end, because spool.age is 0", who)
	}
	return nil
}

// open opens the runner, and what answers requests.
func (s *sidecar) open(host *belljar.Host) error {
	s.runner = belljar.New(host, s.config)
	s.runner.Control, s.runner.Log = true, s.log
	if engine, is := host.Engine.(*kubernetes.Engine); is && s.config.Serve.Replicas.Enabled {
		engine.OnSession(func(ctx context.Context, session, pod string) error {
			return s.replicas.Load().Record(ctx, session, pod)
		})
		s.runner.ExpireOnly(func(ctx context.Context, session string) bool {
			r := s.replicas.Load()
			return r != nil && r.MayExpire(ctx, session)
		})
	}
	asked := &approvals.Approvals{}
	if err := s.assemble(s.runner, filepath.Join(s.config.StateDir, "executions"), asked); err != nil {
		return err
	}
	s.runner.Approver = s.book.Approver(asked)
	return nil
}

// served is what requests are about.
type served interface {
	sandbox.Runner
	sandbox.Sessions
	sandbox.Files
}

// assemble puts together what answers requests: about all that the runner has, or a part of it.
func (s *sidecar) assemble(of served, dir string, asked *approvals.Approvals) (err error) {
	ended := func(r sandbox.Result) {
		s.metrics.Ended(r)
		if s.ended != nil {
			s.ended(r)
		}
	}
	s.metrics = metrics.New(version, metrics.Sources{Pools: s.runner, Sessions: s.runner, Load: s.runner})
	s.metrics.SetProfiles(profileNames(s.config))
	s.book, err = executions.Open(executions.Config{
		Runner: of, Logs: s.runner, Dir: dir, Keep: s.config.Spool.Age, Log: s.log, NewID: func() string { return s.replicas.Load().NewID() },
		Ended:   ended,
		Refused: func(c sandbox.Command, err error) { s.metrics.Refused(c.Profile, err) },
	})
	if err != nil {
		return err
	}
	s.api = &httpapi.Server{
		Book: s.book, Owners: &executions.Owners{Dir: s.book.Dir}, Sessions: of, Files: of, Pools: s.runner,
		Profiles: s.runner.CurrentProfiles, Approvals: asked, Images: s.images, Ready: s.ready,
		Load: s.runner.Load, Metrics: s.metrics.Handler(), Page: webpage.Handler(), Version: version, Log: s.log, MaxBody: s.config.Serve.MaxBody,
	}
	s.mcp = &mcpapi.Server{
		Book: s.book, Owners: s.api.Owners, Sessions: of, Files: of, Profiles: s.runner.CurrentProfiles,
		Approvals: asked, Describe: mcpapi.Describe, Version: version, Log: s.log,
		Fetch: func(ctx context.Context, session string, starts bool) error {
			return s.replicas.Load().Fetch(ctx, session, starts)
		},
	}
	if log := belljar.AuditLog(s.config); log != nil {
		s.api.AuditHead = func() (httpapi.AuditHead, error) {
			records, sum, err := log.Head()
			return httpapi.AuditHead{Records: records, SHA256: sum}, err
		}
	}
	return nil
}

func profileNames(c *config.Config) (names []string) {
	for name := range c.Profiles {
		names = append(names, name)
	}
	return names
}

func (s *sidecar) images(ctx context.Context) (list []httpapi.Image, err error) {
	all, err := s.runner.Host.Images.List(ctx)
	for _, i := range all {
		list = append(list, httpapi.Image(i))
	}
	return list, err
}
