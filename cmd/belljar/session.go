package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"text/tabwriter"
	"time"

	"belljar"
	"belljar/sandbox"
	"belljar/view"

	"github.com/spf13/cobra"
)

const sessionHelp = `A session is a container that is kept for later commands: files and background
processes stay; variables and the directory do not. belljar run --session NAME creates it.
session.idle and session.max in sandbox.yaml limit how long it is kept. It keeps
running when belljar exits.`

func sessionCmd(g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "session",
		Short: "List and remove sessions, run commands in them, and copy files",
		Long:  sessionHelp,
	}
	cmd.AddCommand(sessionListCmd(g), sessionRemoveCmd(g), sessionExecCmd(g), sessionCopyCmd(g), sessionFilesCmd(g))
	return cmd
}

func sessionListCmd(g *globals) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List sessions, and what runs in them",
		Long: `List this user's sessions on this engine.

  USER  the user of its first command, who owns /work; later ones can run as others
  USED  when a command last started or ended
  ENDS  when the session ends if no other command runs
  RUNS  what its commands left running; "-" means none, "?" means unknown

A lost session shows why its container is gone. Its next command reports it, too.`,
		Example: `  belljar session ls
  belljar session ls --format json | jq '.sessions[].runs'`,
		Annotations: map[string]string{takesHost: ""},
		Args:        cobra.NoArgs,
		RunE: stoppable(func(cmd *cobra.Command, _ []string) error {
			if err := textOrJSON(format); err != nil {
				return err
			}
			list, err := withRunner(cmd.Context(), g, func(l runner) ([]sandbox.SessionInfo, error) {
				l.Expire(cmd.Context()) // errors are not reported: such sessions are listed as unknown
				return l.Sessions(cmd.Context())
			})
			if err != nil {
				return err
			}
			if format == "json" {
				return writeJSON(cmd.OutOrStdout(), struct {
					Sessions []sandbox.SessionInfo `json:"sessions"`
				}{append([]sandbox.SessionInfo{}, list...)})
			}
			return writeSessions(cmd.OutOrStdout(), list, time.Now())
		}),
	}
	formatFlag(cmd, &format)
	return cmd
}

func withRunner[T any](ctx context.Context, g *globals, do func(runner) (T, error)) (T, error) {
	if g.sidecar() != "" {
		c, err := g.client()
		if err != nil {
			return *new(T), err
		}
		defer c.Close()
		return do(thereRunner{c})
	}
	host, c, err := g.connect(ctx)
	if err != nil {
		return *new(T), err
	}
	defer host.Close()
	runner := belljar.New(host, c)
	defer runner.Close()
	return do(runner)
}

func writeSessions(w io.Writer, list []sandbox.SessionInfo, now time.Time) error {
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "SESSION\tCONTAINER\tIMAGE\tUSER\tAGE\tUSED\tENDS\tRUNS")
	for _, s := range list {
		age, used, end, running := "-", "-", s.IdleEnd, cut(runs(s.Runs), 60)
		if !s.Created.IsZero() { // otherwise nothing is known about it
			age, used = duration(now.Sub(s.Created)), duration(now.Sub(s.LastUsed))+" ago"
		}
		if s.Deadline.Before(end) {
			end = s.Deadline
		}
		ending := ends(end, now)
		if s.Lost != "" {
			ending, running = "lost", cut(s.Lost, 200)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", view.SafeLine(s.Name), orDash(short(s.Container)), orDash(s.Image), userOf(s.User, s.UserName), age, used, ending, running)
	}
	return table.Flush()
}

func needName(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return nil
	}
	return &sandbox.Error{Cause: sandbox.CauseInvalid, Message: "the session name is missing", Hint: "list the sessions: belljar session ls"}
}

func sessionRemoveCmd(g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:         "rm NAME...",
		Aliases:     []string{"remove", "kill", "stop"},
		Short:       "End sessions and everything that runs in them",
		Example:     "  belljar session rm dev",
		Annotations: map[string]string{takesHost: ""},
		Args:        needName,
		RunE: stoppable(func(cmd *cobra.Command, names []string) error {
			_, err := withRunner(cmd.Context(), g, func(l runner) (any, error) {
				return nil, forEach(cmd, names, l.RemoveSession)
			})
			return err
		}),
	}
	completeSessions(cmd, g, math.MaxInt)
	return cmd
}

func sessionExecCmd(g *globals) *cobra.Command {
	f := &runFlags{keys: map[string]string{}, existing: true}
	cmd := &cobra.Command{
		Use:   "exec [flags] NAME [--] COMMAND [ARG...]",
		Short: "Run a command in an existing session",
		Long: `Run a command in a session, as belljar run --session NAME does, but fail if there
is no such session when the command's turn comes.`,
		Example: "  belljar session exec dev 'cat log'",
		Args:    needName,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.session = args[0]
			rest := args[1:]
			if len(rest) > 0 && rest[0] == "--" {
				rest = rest[1:]
			}
			return runRun(cmd.Context(), g, f, rest)
		},
	}
	f.add(cmd)
	completeSessions(cmd, g, 1)
	completeRun(cmd, g)
	return cmd
}
