package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"belljar"
	"belljar/config"
	"belljar/images"
	"belljar/sandbox"
	"belljar/sandbox/docker"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

func rootCmd() *cobra.Command { return rootOf(&globals{}) }

func rootOf(g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "belljar",
		Short: "Run untrusted shell commands in locked-down containers",
		Long: `belljar runs each command as "sh -c" in a locked-down container, streams its
output, limits its time, memory, processes and output, and reports why it ended and
what it left running.

Start with:  belljar doctor
Then:        belljar run 'echo hello'`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.PersistentFlags().StringVar(&g.configPath, "config", "", "configuration `FILE` (default: BELLJAR_CONFIG, ./sandbox.yaml, ~/.config/belljar/sandbox.yaml, /etc/belljar/sandbox.yaml)")
	cmd.MarkPersistentFlagFilename("config", "yaml", "yml")
	cmd.PersistentFlags().StringVarP(&g.host, "host", "H", "", "use the sidecar at `ADDRESS` (belljar serve): unix:///PATH, tcp://HOST:PORT or https://HOST:PORT (default: BELLJAR_HOST; without it, this host's engine)")
	cmd.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return g.checkHost(cmd) }
	cmd.SetFlagErrorFunc(flagError)
	cmd.Version = version
	cmd.SetVersionTemplate(versionLine())
	cmd.AddCommand(runCmd(g), psCmd(g), doctorCmd(g), configCmd(g), imagesCmd(g), benchCmd(g), sessionCmd(g), logsCmd(g), waitCmd(g), killCmd(g), superviseCmd(), serveCmd(g), mcpCmd(g), healthCmd(g), volumeCmd(), policyCmd(g), auditCmd(g), versionCmd())
	return cmd
}

// globals are the flags of every subcommand, and what is opened with them.
type globals struct {
	configPath string
	host       string      // a sidecar's, by --host
	supervisor *supervisor // of a command that is to run in the background, in its process
}

// loadConfig reads the configuration; flags are keys of sandbox.yaml that the
// command line sets.
func (g *globals) loadConfig(flags map[string]string) (*config.Config, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("finding the working directory: %w", err)
	}
	c, err := config.Load(config.Options{Path: g.configPath, Env: os.Environ(), Workdir: dir, Flags: flags})
	if err != nil {
		return nil, usageError{err}
	}
	return c, nil
}

// connect reaches the engine that the configuration names.
func (g *globals) connect(ctx context.Context) (*docker.Engine, *config.Config, error) {
	c, err := g.loadConfig(nil)
	if err != nil {
		return nil, nil, err
	}
	engine, err := docker.Connect(ctx, c.Engine.Host)
	if err != nil {
		return nil, nil, err
	}
	engine.Dir = c.StateDir
	return engine, c, nil
}

// store opens the engine's images.
func (g *globals) store(ctx context.Context) (*images.Store, func(), error) {
	engine, _, err := g.connect(ctx)
	if err != nil {
		return nil, nil, err
	}
	return newStore(engine), func() { engine.Close() }, nil
}

func newStore(engine *docker.Engine) *images.Store {
	return &images.Store{Client: engine.Client(), Progress: progress()}
}

// progress is a terminal, or nil.
func progress() io.Writer {
	if term.IsTerminal(int(os.Stderr.Fd())) {
		return os.Stderr
	}
	return nil
}

// runner is what the subcommands need of a Runner, local or remote.
type runner interface {
	sandbox.Runner
	sandbox.Preparer
	sandbox.Sessions
	sandbox.Files
	sandbox.Logs
	Expire(ctx context.Context) error // removes expired sessions and outputs
	Close() error                     // call it after the last command
}

// newRunner is the Runner on this host's engine.
func newRunner(c *config.Config, engine *docker.Engine) *belljar.Runner {
	r := belljar.New(engine, c)
	r.Store.Progress = progress()
	return r
}
