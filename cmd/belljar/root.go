package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"belljar"
	"belljar/config"
	"belljar/sandbox"

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
	cmd.AddCommand(runCmd(g), psCmd(g), doctorCmd(g), configCmd(g), imagesCmd(g), benchCmd(g), sessionCmd(g), logsCmd(g), waitCmd(g), killCmd(g), superviseCmd(), keepCmd(), serveCmd(g), mcpCmd(g), healthCmd(g), volumeCmd(), policyCmd(g), auditCmd(g), evalCmd(g), versionCmd())
	cmd.InitDefaultHelpCmd()
	cmd.InitDefaultCompletionCmd()
	for _, sub := range cmd.Commands() {
		if sub.Name() == "help" {
			sub.Args = isTopic
		}
		takesCommand(sub)
	}
	return cmd
}

// takesCommand lets a command that only has others show its help, and refuse what is none of
// them: by itself cobra shows the help for a word that was mistyped, too, and that succeeds.
func takesCommand(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		takesCommand(sub)
	}
	if cmd.HasSubCommands() {
		cmd.Args = cobra.NoArgs
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
}

// isTopic refuses to help with what is no command.
func isTopic(cmd *cobra.Command, words []string) error {
	topic, rest, err := cmd.Root().Find(words)
	if err == nil && topic.HasParent() && topic.HasSubCommands() {
		err = topic.Args(topic, rest)
	}
	return err
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
func (g *globals) connect(ctx context.Context) (*belljar.Host, *config.Config, error) {
	c, err := g.loadConfig(nil)
	if err != nil {
		return nil, nil, err
	}
	host, err := connect(ctx, c)
	return host, c, err
}

// connect reaches an engine, whose pulls and builds are shown.
func connect(ctx context.Context, c *config.Config) (*belljar.Host, error) {
	host, err := belljar.Connect(ctx, c)
	if err != nil {
		return nil, err
	}
	host.ShowProgress(progress())
	return host, nil
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
