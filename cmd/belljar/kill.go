package main

import (
	"context"
	"errors"
	"fmt"
	"math"

	signals "belljar/internal/names"
	"belljar/sandbox"

	"github.com/spf13/cobra"
)

const killHelp = `End commands that are running, or send a signal to their processes. This works for
every command that this user's belljar run started, detached or in another terminal.

Without -s it does what Ctrl-C does in the terminal of belljar run: the command ends
with the cause canceled, its partial output is kept, and its container is removed. In
a session this ends the session's container, unless the command was started with
--on-timeout command. With --force it ends at once, without waiting for anything, as
with a second Ctrl-C. (docker kill sends SIGKILL instead: that is -s KILL.)

With -s SIGNAL, all processes of the command get the signal, and it decides what
to do. If it ends, the cause is exited or signaled, as its exit status says.

It prints the ID of each command that it reached, and does not wait for the end: see
belljar wait. A command that has ended is an error.`

const killExamples = `  belljar kill 01KAJ2M4T5R7ZQ
  belljar kill -s HUP 01KAJ2M4T5R7ZQ
  belljar kill "$id" && belljar wait "$id"`

func killCmd(g *globals) *cobra.Command {
	var signal string
	var force bool
	cmd := &cobra.Command{
		Use:         "kill [-s SIGNAL | --force] ID...",
		Short:       "End commands that are running, or send them a signal",
		Long:        killHelp + shortIDs,
		Example:     killExamples,
		Annotations: map[string]string{takesHost: ""},
		Args:        needIDs,
		RunE: stoppable(func(cmd *cobra.Command, ids []string) error {
			s, err := parseSignal(cmd, signal)
			if err != nil {
				return err
			}
			return killAll(cmd, g, ids, func(ctx context.Context, r records, id string) error {
				if force {
					return r.Kill(ctx, id)
				}
				return r.End(ctx, id, s)
			})
		}),
		ValidArgsFunction: completeIDs(g, math.MaxInt, func(l sandbox.LogInfo) bool { return l.Running }),
	}
	cmd.Flags().StringVarP(&signal, "signal", "s", "", "send `SIGNAL` instead, such as TERM, SIGINT or 9")
	cmd.Flags().BoolVarP(&force, "force", "f", false, "end them at once, without stop_grace and without a list of what runs")
	cmd.MarkFlagsMutuallyExclusive("signal", "force")
	cmd.RegisterFlagCompletionFunc("signal", func(*cobra.Command, []string, string) (list []string, _ cobra.ShellCompDirective) {
		for _, s := range signals.Signals() {
			list = append(list, string(s)[len("SIG"):])
		}
		return list, cobra.ShellCompDirectiveNoFileComp
	})
	return cmd
}

// parseSignal is -s, "" without one.
func parseSignal(cmd *cobra.Command, text string) (sandbox.Signal, error) {
	if !cmd.Flags().Changed("signal") {
		return "", nil
	}
	return signals.ParseSignal(text)
}

// killAll reaches as many of them as it can.
func killAll(cmd *cobra.Command, g *globals, ids []string, end func(context.Context, records, string) error) error {
	logs, err := newLogs(g)
	if err != nil {
		return err
	}
	return forEach(cmd, ids, func(ctx context.Context, given string) error {
		id, err := wholeID(ctx, logs, given)
		if err == nil {
			err = end(ctx, logs, id)
		}
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), id)
		return err
	})
}

// forEach does it for all arguments, also where it fails for some.
func forEach(cmd *cobra.Command, args []string, do func(ctx context.Context, arg string) error) error {
	var errs []error
	for _, arg := range args {
		if err := do(cmd.Context(), arg); err != nil {
			errs = append(errs, err)
		}
		if cmd.Context().Err() != nil {
			break
		}
	}
	if len(errs) <= 1 {
		return errors.Join(errs...)
	}
	for _, err := range errs {
		tellError(cmd.ErrOrStderr(), err)
	}
	return exitError(exitFailed)
}
