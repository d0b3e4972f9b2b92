package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"belljar/sandbox"
	"belljar/view"
)

// runningCommand is a command in the list of belljar ps.
type runningCommand struct {
	sandbox.LogInfo
	Elapsed int64 `json:"elapsed_seconds"`
}

// runningCommands are this user's, the oldest first. Their belljars tell, not an engine.
func runningCommands(ctx context.Context, g *globals, now time.Time) ([]runningCommand, error) {
	list := []runningCommand{}
	if g.sidecar() == "" {
		c, err := g.loadConfig(nil)
		if err != nil || c.StateDir == "" {
			return list, err
		}
	}
	logs, err := newLogs(g)
	if err != nil {
		return nil, err
	}
	all, err := logs.Logs(ctx)
	for _, l := range all {
		if l.Running {
			list = append(list, runningCommand{l, int64(now.Sub(l.Started) / time.Second)})
		}
	}
	return list, err
}

func writeCommands(w io.Writer, list []runningCommand) error {
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "COMMAND ID\tELAPSED\tSESSION\tDESCRIPTION\tCOMMAND")
	for _, c := range list {
		elapsed := time.Duration(c.Elapsed) * time.Second
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", view.SafeLine(c.ID), sandbox.FormatDuration(elapsed), orDash(c.Session), orDash(cut(c.Description, 40)), cut(c.Command, 60))
	}
	return table.Flush()
}
