package main

import (
	"cmp"
	"context"
	"io"
	"os"

	"belljar/config"
	accounts "belljar/internal/names"
	"belljar/sandbox"
	"belljar/sandbox/client"

	"github.com/spf13/cobra"
)

// takesHost marks the subcommands that work on a sidecar, too.
const takesHost = "host"

// sidecar is the address of the sidecar to use; "" is this host's engine.
func (g *globals) sidecar() string { return cmp.Or(g.host, os.Getenv("BELLJAR_HOST")) }

// checkHost refuses -H where it would do nothing. BELLJAR_HOST is for subcommands
// that work on a sidecar, and ignored by the others.
func (g *globals) checkHost(cmd *cobra.Command) error {
	_, takes := cmd.Annotations[takesHost]
	switch {
	case !takes && g.host != "":
		return usagef("%s is about this host: leave out -H", cmd.CommandPath())
	case takes && g.sidecar() != "" && g.configPath != "":
		return usagef("--config is for this host, and a sidecar has its own configuration: leave out --config, or -H and BELLJAR_HOST")
	}
	return nil
}

// client is of the sidecar to use. Secrets come from the environment and from files:
// other users can read a command line.
func (g *globals) client() (*client.Client, error) {
	return client.New(client.Config{
		Host: g.sidecar(), Token: os.Getenv("BELLJAR_TOKEN"), TokenFile: os.Getenv("BELLJAR_TOKEN_FILE"),
		TLS: client.TLSFiles{CA: os.Getenv("BELLJAR_TLS_CA"), Cert: os.Getenv("BELLJAR_TLS_CERT"), Key: os.Getenv("BELLJAR_TLS_KEY")},
	})
}

// thereRunner is a sidecar's Runner.
type thereRunner struct{ *client.Client }

// Expire does nothing: the sidecar does it by itself.
func (thereRunner) Expire(context.Context) error { return nil }

// resultMemory is about the output that a result of the default configuration holds.
const resultMemory = 16 << 20

// openSidecar opens a sidecar's Runner. Flags become part of the command, and nothing of
// this host's configuration is.
func (f *runFlags) openSidecar(g *globals, command *sandbox.Command, show *printer) (*opened, error) {
	if err := f.checkThere(); err != nil {
		return nil, err
	}
	if err := config.Override(command, f.keys); err != nil {
		return nil, usageError{err}
	}
	if command.User.Name == accounts.Caller {
		if command.User = (sandbox.User{UID: os.Getuid(), GID: os.Getgid()}); command.User.UID == 0 {
			return nil, sandbox.Invalid("give UID:GID, such as the owner of the files: -u 1000:1000", "user caller is root, and commands never run as root")
		}
	}
	if isReport(f.format) {
		show.report.kept = true
		command.View.Mode = cmp.Or(command.View.Mode, sandbox.ViewMerged)
	}
	boundMemory(resultMemory)
	if err := f.useProfile(command, sandbox.Profile{Encoding: command.Encoding}); err != nil {
		return nil, err
	}
	c, err := g.client()
	if err != nil {
		return nil, err
	}
	return &opened{runner: thereRunner{c}, close: func() { c.Close() }}, nil
}

// checkThere refuses flags that only have an effect on this host.
func (f *runFlags) checkThere() error {
	switch {
	case f.yes:
		return usagef("--yes approves commands on this host, and a sidecar asks those who may approve: leave out --yes or -H")
	case f.keys["view.every"] != "":
		return usagef("--live-every is decided by the sidecar (view.every in its sandbox.yaml): leave it out")
	case f.detach && f.stdin:
		return usagef("-i and --detach exclude each other on a sidecar: leave out one")
	}
	return nil
}

// detachThere has the sidecar run a command on its own.
func detachThere(ctx context.Context, on *opened, command sandbox.Command, show *printer) error {
	id, err := on.runner.(thereRunner).Detach(ctx, command)
	if err != nil {
		return err
	}
	return show.detached(id)
}

// writeThere writes the commands that run on a sidecar.
func writeThere(w io.Writer, format string, list []runningCommand) error {
	if format == "text" {
		return writeCommands(w, list)
	}
	return writeJSON(w, struct {
		Commands []runningCommand `json:"commands"`
	}{list})
}
