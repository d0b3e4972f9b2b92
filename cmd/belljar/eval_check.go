package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	evalrun "belljar/eval/run"

	"github.com/spf13/cobra"
)

func evalCheckCmd(g *globals) *cobra.Command {
	f := &evalFlags{}
	cmd := &cobra.Command{
		Use:   "check PATH...",
		Short: "Test a suite: its oracle must pass, doing nothing must not, and every control must fail",
		Long: `Test the tasks of a suite themselves. For each, its own solution must pass, an agent that does
nothing must not, and every control must fail: one that passes says nothing about
solutions. Each task for which that does not hold is listed.

The exit status is 0 if all tasks are in order, 1 if some are not, and 125 if
belljar or the engine failed.`,
		Example: "  belljar eval check tasks.jsonl",
		Args:    needSuite,
		RunE: stoppable(func(cmd *cobra.Command, paths []string) error {
			return f.check(cmd, g, paths)
		}),
	}
	f.add(cmd)
	f.allow.flags(cmd.Flags())
	cmd.Flags().StringVar(&f.filter, "filter", "", "only tasks whose names match this `GLOB`")
	return cmd
}

// check runs the oracle and nop, and says what is wrong.
func (f *evalFlags) check(cmd *cobra.Command, g *globals, paths []string) error {
	temp, err := os.MkdirTemp("", "belljar-check-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	var wrong []string
	failed := false
	for _, kind := range []evalrun.AgentKind{evalrun.Oracle, evalrun.Nop} {
		r := evalrun.Run{Version: evalrun.Version, ID: newRunID(), Started: time.Now().UTC(), Suite: evalrun.Suite{Paths: paths}, Agent: evalrun.Agent{Kind: kind}, Trials: 1, Options: evalrun.Options{Controls: true, Retries: 2, Filter: f.filter}}
		results, err := f.checkWith(cmd, g, filepath.Join(temp, string(kind)), r)
		if err != nil {
			return err
		}
		for _, one := range results {
			failed = failed || one.Side == evalrun.Infrastructure
			if what := checked(kind, one); what != "" {
				wrong = append(wrong, one.Task+": "+what)
			}
		}
	}
	if err := writeChecked(cmd.OutOrStdout(), f.format, wrong); err != nil {
		return err
	}
	switch {
	case failed:
		return exitError(exitFailed)
	case len(wrong) > 0:
		return exitError(1)
	}
	return nil
}

// checked says what is wrong with a task, of which that is a result, or "".
func checked(kind evalrun.AgentKind, r evalrun.Result) string {
	switch {
	case r.Side == evalrun.Infrastructure:
		return fmt.Sprintf("not known, the infrastructure failed: %s", r.Message)
	case r.Verdict == evalrun.Skipped:
		return "not known, it was skipped: " + r.Message
	case kind == evalrun.Nop && (r.Verdict == evalrun.Passed || r.Verdict == evalrun.Error):
		return fmt.Sprintf("an agent that does nothing: %s: %s", r.Verdict, r.Message)
	case kind == evalrun.Nop:
		return ""
	case r.Verdict != evalrun.Passed:
		return fmt.Sprintf("its own solution: %s: %s", r.Verdict, r.Message)
	}
	for _, c := range r.Controls {
		if (c.Passed || c.Skipped != "") && !isPart(c, r.Controls) {
			return fmt.Sprintf("control %q says nothing: %s", c.Name, c.Skipped)
		}
	}
	return ""
}

// isPart reports whether a control that says nothing is one for a language that the tests may not use: another of its kind does.
func isPart(c evalrun.Control, all []evalrun.Control) bool {
	const kind = "failing "
	return strings.HasPrefix(c.Name, kind) && slices.ContainsFunc(all, func(o evalrun.Control) bool {
		return strings.HasPrefix(o.Name, kind) && o.Step == c.Step && !o.Passed && o.Skipped == ""
	})
}
