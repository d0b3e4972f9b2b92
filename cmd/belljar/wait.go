package main

import (
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"syscall"

	"belljar/sandbox"

	"github.com/spf13/cobra"
)

const waitHelp = `Wait until commands have ended, and print what belljar run would have printed: the
output and belljar's messages or, with --format, the result or a report.

This works for every command that belljar logs lists, detached or not, running or
ended, until its output expires (spool.age and spool.total in sandbox.yaml).

The exit status is the one of belljar run. If there are several IDs, they are
printed in the given order, and the exit status is that of the first command that
did not exit with 0. A command whose belljar died has the cause engine_lost and the
exit status 125.

Ctrl-C ends the waiting only: see belljar kill.`

const waitExamples = `  belljar wait $(belljar run -d 'make test')
  belljar wait --format json 01KAJ2M4T5R7ZQ | jq .exit_code
  belljar wait "$first" "$second" >/dev/null || echo "one of them failed"`

func waitCmd(g *globals) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:         "wait ID...",
		Short:       "Wait until commands have ended, and print their results",
		Long:        waitHelp + shortIDs,
		Example:     waitExamples,
		Annotations: map[string]string{tellsResult: "", takesHost: ""},
		Args:        needIDs,
		RunE: func(cmd *cobra.Command, ids []string) error {
			ctx, _, stop := interruptible(cmd.Context())
			defer stop()
			return waitAll(ctx, g, format, ids, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
		ValidArgsFunction: completeIDs(g, math.MaxInt, func(sandbox.LogInfo) bool { return true }),
	}
	cmd.Flags().StringVar(&format, "format", "text", "output `FORMAT`: text (the command's output), json (one result for each ID), ndjson (notices and results as events), report or report-brief")
	cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]string{"text", "json", "ndjson", "report", "report-brief"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// shortIDs ends the help of subcommands that take IDs.
const shortIDs = `

The first 8 characters of an ID are enough, or more if several IDs begin with them.`

func needIDs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return nil
	}
	return &sandbox.Error{Cause: sandbox.CauseInvalid, Message: "the command ID is missing", Hint: "list the commands: belljar logs"}
}

// waitAll waits for each, and fails as the first one that did.
func waitAll(ctx context.Context, g *globals, format string, ids []string, stdout, stderr io.Writer) error {
	show, err := newPrinter(format)
	if err != nil {
		return err
	}
	logs, err := newLogs(g)
	if err != nil {
		return show.refused(sandbox.Command{}, err)
	}
	first := 0
	for _, given := range ids {
		show, _ := newPrinter(format)
		r, err := await(ctx, logs, given, show, stdout, stderr)
		if ctx.Err() != nil {
			err = &sandbox.Error{Cause: sandbox.CauseCanceled, Message: "canceled the waiting, not the command"}
		}
		if err != nil {
			show.refused(sandbox.Command{ID: given}, err)
			r.Fail(err)
		}
		if err := show.written(); err != nil {
			return err
		}
		if first == 0 {
			first = exitStatus(r)
		}
		if ctx.Err() != nil {
			return exitError(exitCanceled)
		}
	}
	if first != 0 {
		return exitError(first)
	}
	return nil
}

// await waits for one, and shows it as belljar run would have.
func await(ctx context.Context, logs records, given string, show *printer, stdout, stderr io.Writer) (r sandbox.Result, err error) {
	id, err := wholeID(ctx, logs, given)
	if err != nil {
		return r, err
	}
	r, notices, err := logs.Await(ctx, id)
	if err != nil {
		return r, err
	}
	info, err := logs.LogInfo(ctx, id)
	if err != nil {
		return r, err
	}
	if show.format == "text" {
		all := logsFlags{format: "text"}
		if err := all.print(ctx, logs, id, stdout, stderr); err != nil && !errors.Is(err, syscall.EPIPE) {
			return r, err
		}
	}
	seq := uint64(0)
	tell := func(e sandbox.Event) {
		seq++
		e.Seq, e.Time = seq, info.Ended
		show.event(e)
	}
	for _, notice := range notices {
		tell(sandbox.Event{Type: sandbox.EventNotice, Data: []byte(notice)})
	}
	tell(sandbox.Event{Type: sandbox.EventResult, Result: &r})
	return r, nil
}

// completeIDs completes the IDs of commands, of which at most so many are written.
func completeIDs(g *globals, most int, fits func(sandbox.LogInfo) bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		logs, err := newLogs(g)
		if err != nil || len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		list, _ := logs.Logs(cmd.Context())
		var ids []string
		for _, l := range list {
			if fits(l) && !slices.Contains(args, l.ID) {
				ids = append(ids, completedID(l))
			}
		}
		return ids, cobra.ShellCompDirectiveNoFileComp
	}
}
