package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/local"
	"belljar/view"

	"github.com/docker/go-units"
	"github.com/spf13/cobra"
)

const logsHelp = `Print a command's output, while it runs or afterwards, until the output expires
(spool.age and spool.total in sandbox.yaml). Without an ID, list the commands
whose output is kept.

The command's stdout goes to stdout and its stderr to stderr, byte for byte and
in order of arrival. On a terminal, control characters are made visible, and
binary data is not shown: pipe the output into cat to get the original bytes. If a command wrote more than
limits.output, a message on stderr says which bytes are missing.

--offset counts the bytes of the chosen stream, or of both streams together.`

const logsExamples = `  belljar logs
  belljar logs 01KAJ2M4T5R7ZQ --stderr
  belljar logs 01KAJ2M4T5R7ZQ --offset 4096 --follow`

type logsFlags struct {
	stdout, stderr, follow bool
	offset                 int64
	format                 string
}

func logsCmd(g *globals) *cobra.Command {
	f := &logsFlags{}
	cmd := &cobra.Command{
		Use:         "logs [ID]",
		Short:       "Print a command's output, or list the commands whose output is kept",
		Long:        logsHelp + shortIDs,
		Example:     logsExamples,
		Annotations: map[string]string{takesHost: ""},
		Args:        cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			logs, err := newLogs(g)
			if err != nil {
				return err
			}
			if len(args) == 0 {
				if f.stdout || f.stderr || f.follow || f.offset != 0 {
					return usagef("--stdout, --stderr, --offset and --follow need the ID of a command")
				}
				return listLogs(cmd, logs, f)
			}
			ctx, _, stop := interruptible(cmd.Context())
			defer stop()
			id, err := wholeID(ctx, logs, args[0])
			if err != nil {
				return err
			}
			return f.print(ctx, logs, id, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
		ValidArgsFunction: completeIDs(g, 1, func(sandbox.LogInfo) bool { return true }),
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.stdout, "stdout", false, "print stdout only")
	flags.BoolVar(&f.stderr, "stderr", false, "print stderr only")
	flags.Int64Var(&f.offset, "offset", 0, "start at byte `N`")
	flags.BoolVarP(&f.follow, "follow", "f", false, "print new output until the command ends")
	formatFlag(cmd, &f.format)
	cmd.MarkFlagsMutuallyExclusive("stdout", "stderr")
	return cmd
}

// records are the commands of a Runner, running and ended.
type records interface {
	sandbox.Logs
	// Await waits for a command's end, and returns its result and its notices.
	Await(ctx context.Context, id string) (sandbox.Result, []string, error)
	// End cancels a command, or sends it the signal.
	End(ctx context.Context, id string, signal sandbox.Signal) error
	Kill(ctx context.Context, id string) error
}

// newLogs needs no engine: outputs are on this host, or the sidecar's.
func newLogs(g *globals) (records, error) {
	if g.sidecar() != "" {
		return g.client()
	}
	c, err := g.loadConfig(nil)
	if err != nil {
		return nil, err
	}
	if c.StateDir == "" {
		return nil, &sandbox.Error{Cause: sandbox.CauseInvalid, Message: "there is no state directory, so no output is kept", Hint: "set HOME or XDG_STATE_HOME"}
	}
	logs := &local.Local{Spool: c.Spool, StateDir: c.StateDir}
	logs.SweepLogs(context.Background()) // none may have run since some expired; errors are not reported here
	return logs, nil
}

// leastID is how much of an ID names a command, if no other begins so.
const leastID = 8

// wholeID is the ID that begins with the given text, or that text itself, for
// which ReadLog then reports the error.
func wholeID(ctx context.Context, logs sandbox.Logs, given string) (string, error) {
	if _, err := logs.LogInfo(ctx, given); err == nil || len(given) < leastID {
		return given, nil
	}
	list, err := logs.Logs(ctx)
	if err != nil {
		return "", err
	}
	var found []string
	for _, l := range list {
		if strings.HasPrefix(l.ID, given) {
			found = append(found, l.ID)
		}
	}
	switch most := 10; {
	case len(found) == 0:
		return given, nil
	case len(found) == 1:
		return found[0], nil
	case len(found) > most:
		found = append(found[:most], "…")
	}
	return "", &sandbox.Error{Cause: sandbox.CauseInvalid, Message: fmt.Sprintf("several command IDs begin with %q", given), Hint: "write more characters, to choose one of " + strings.Join(found, ", ")}
}

// completedID is an ID with what a shell says of it.
func completedID(l sandbox.LogInfo) string {
	about := l.Command
	if l.Description != "" {
		about = l.Description
	}
	return view.SafeLine(l.ID) + "\t" + cut(about, 60)
}

func listLogs(cmd *cobra.Command, logs sandbox.Logs, f *logsFlags) error {
	if err := textOrJSON(f.format); err != nil {
		return err
	}
	list, err := logs.Logs(cmd.Context())
	if err != nil {
		return err
	}
	if f.format == "json" {
		return writeJSON(cmd.OutOrStdout(), struct {
			Logs []sandbox.LogInfo `json:"logs"`
		}{append([]sandbox.LogInfo{}, list...)})
	}
	return writeLogs(cmd.OutOrStdout(), list, time.Now())
}

func writeLogs(w io.Writer, list []sandbox.LogInfo, now time.Time) error {
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "ID\tSTARTED\tSTATUS\tSTDOUT\tSTDERR\tDESCRIPTION\tCOMMAND")
	for _, l := range list {
		stdout, stderr := logSizes(l)
		fmt.Fprintf(table, "%s\t%s ago\t%s\t%s\t%s\t%s\t%s\n", view.SafeLine(l.ID), duration(now.Sub(l.Started)), logStatus(l), stdout, stderr, orDash(cut(l.Description, 40)), cut(l.Command, 60))
	}
	return table.Flush()
}

func logStatus(l sandbox.LogInfo) string {
	switch {
	case l.Running:
		return "running"
	case l.LogEnd == nil:
		return "unknown" // its belljar died
	case l.ExitCode > 0:
		return fmt.Sprintf("%s (%d)", l.Status, l.ExitCode)
	}
	return string(l.Status)
}

func logSizes(l sandbox.LogInfo) (stdout, stderr string) {
	if l.LogEnd == nil {
		return "?", "?"
	}
	return units.BytesSize(float64(l.Stdout.Bytes)), units.BytesSize(float64(l.Stderr.Bytes))
}

func (f *logsFlags) which() sandbox.Stream {
	switch {
	case f.stdout:
		return sandbox.Stdout
	case f.stderr:
		return sandbox.Stderr
	}
	return sandbox.Merged
}

// print prints the output so far, or, with --follow, to its end.
func (f *logsFlags) print(ctx context.Context, logs sandbox.Logs, id string, stdout, stderr io.Writer) error {
	if f.format != "text" {
		return usagef("--format applies to the list of commands: leave out the ID or --format")
	}
	r, err := logs.ReadLog(ctx, id, f.which(), f.offset)
	if err != nil {
		return err
	}
	defer r.Close()
	next := func() (sandbox.Chunk, error) { return r.Next(ctx) }
	if !f.follow {
		next = func() (sandbox.Chunk, error) { return r.Ready(ctx) }
	}
	to := [2]io.Writer{safeOn(stdout), safeOn(stderr)}
	say := func(text string) { tell(stderr, text) }
	for {
		c, err := next()
		switch {
		case errors.Is(err, io.EOF):
			return flushAll(to, say)
		case ctx.Err() != nil:
			return errors.Join(flushAll(to, say), exitError(exitCanceled))
		case err != nil:
			return errors.Join(flushAll(to, say), err)
		}
		if c.Missed > 0 {
			tell(stderr, fmt.Sprintf("%d bytes before offset %d are missing: they were not kept", c.Missed, c.Offset))
		}
		if len(c.Data) == 0 {
			continue
		}
		w := to[0]
		if c.Stream == sandbox.Stderr {
			w = to[1]
		}
		if _, err := w.Write(c.Data); err != nil {
			return fmt.Errorf("writing the output: %w", err)
		}
	}
}

// safeOn is w, but made safe for a person to read.
func safeOn(w io.Writer) io.Writer {
	if isTerminal(w) {
		return view.NewTextWriter(w, true)
	}
	return w
}
