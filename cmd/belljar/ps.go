package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/listing"
	"belljar/sandbox/local"
	"belljar/view"

	"github.com/docker/go-units"
	"github.com/spf13/cobra"
)

const psHelp = `List the commands of this user that are running or waiting for their session,
detached or not. Then list the containers on this engine that belljar created, and the
processes in them.

  COMMAND ID   what belljar wait, kill and logs take
  ELAPSED      the time since belljar got the command

Of the containers:

  FOR    the ID of the container's command, or its session, or the profile whose
         pool keeps it warm
  USER   the user that its commands run as; in a session, that of the first command
  ENDS   when any belljar process may remove the container
  OWNER  the process ID of the belljar that created it, or
         gone:    that belljar has ended; the next belljar run removes the container
         "-":     a session's container, which stays when belljar exits
         foreign: the container has belljar's labels but no valid signature of this
                  user; belljar runs nothing in it and does not remove it
  RUNS   the commands' processes; "-" means none, "?" means unknown

A container is removed when its command ends, except those of sessions and pools.
If the engine does not answer, the commands are listed; in JSON, containers is null.

With -H it lists the commands of the sidecar that you may see, and no containers.`

func psCmd(g *globals) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "ps",
		Short: "List running commands, and belljar's containers",
		Long:  psHelp,
		Example: `  belljar ps
  belljar ps --format json | jq -r '.commands[].id'
  belljar ps --format json | jq '.containers[].runs[].command'`,
		Annotations: map[string]string{takesHost: ""},
		Args:        cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := textOrJSON(format); err != nil {
				return err
			}
			commands, err := runningCommands(cmd.Context(), g, time.Now())
			if err != nil {
				return err
			}
			if g.sidecar() != "" {
				return writeThere(cmd.OutOrStdout(), format, commands)
			}
			if format == "text" { // also where no engine answers
				if err := writeCommands(cmd.OutOrStdout(), commands); err != nil {
					return err
				}
				fmt.Fprintln(cmd.OutOrStdout())
			}
			list, err := managed(cmd.Context(), g)
			if format == "json" {
				return cmp.Or(err, writeJSON(cmd.OutOrStdout(), struct {
					Commands   []runningCommand    `json:"commands"`
					Containers []listing.Container `json:"containers"`
				}{commands, list}))
			}
			if err != nil {
				return err
			}
			return writeManaged(cmd.OutOrStdout(), list, time.Now())
		},
	}
	formatFlag(cmd, &format)
	return cmd
}

// formatFlag is --format of commands that print a list.
func formatFlag(cmd *cobra.Command, format *string) {
	cmd.Flags().StringVar(format, "format", "text", "output format: `text|json`")
	cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp))
}

func textOrJSON(format string) error {
	if format == "text" || format == "json" {
		return nil
	}
	return &sandbox.Error{Cause: sandbox.CauseInvalid, Message: fmt.Sprintf("--format %q is unknown", format), Hint: "use text or json"}
}

// lister is what ps needs of the engine.
type lister interface {
	List(ctx context.Context) ([]listing.Container, error)
	FillProcesses(ctx context.Context, m *listing.Container) error
}

// looks run in parallel: one of many containers may be slow to answer.
const looks = 8

// managed lists the engine's containers.
func managed(ctx context.Context, g *globals) ([]listing.Container, error) {
	host, _, err := g.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer host.Close()
	return listManaged(ctx, host.Engine)
}

// listManaged lists the containers with what runs in them, as far as that can be
// known.
func listManaged(ctx context.Context, engine lister) ([]listing.Container, error) {
	list, err := engine.List(ctx)
	if err != nil {
		return nil, err
	}
	slots := make(chan struct{}, looks)
	var all sync.WaitGroup
	for i := range list {
		if list[i].Foreign {
			continue
		}
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			// One that fails has most likely ended: its row shows that nothing
			// is known.
			if err := engine.FillProcesses(ctx, &list[i]); err == nil && list[i].Runs == nil {
				list[i].Runs = []sandbox.Process{}
			}
		})
	}
	all.Wait()
	return list, nil
}

func writeManaged(w io.Writer, list []listing.Container, now time.Time) error {
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "CONTAINER\tFOR\tIMAGE\tUSER\tSTATE\tAGE\tENDS\tOWNER\tRUNS")
	for _, m := range list {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", short(m.ID), purpose(m), orDash(m.Image), userOf(m.User, m.UserName), orDash(m.State),
			lifetime(m.Created, now), ends(m.Deadline, now), ownerOf(m), cut(runs(m.Runs), 60))
	}
	return table.Flush()
}

// lifetime is "-" for a container of which it is not known when it was made.
func lifetime(made, now time.Time) string {
	if made.IsZero() {
		return "-"
	}
	return duration(now.Sub(made))
}

// userOf is the number, with the requested name.
func userOf(numbers, name string) string {
	if name != "" {
		numbers += " (" + name + ")"
	}
	return orDash(numbers)
}

func purpose(m listing.Container) string {
	switch {
	case m.Session != "":
		return "session " + view.SafeLine(m.Session)
	case m.Pool != "":
		return "pool " + view.SafeLine(m.Pool)
	}
	return orDash(m.Command)
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return view.SafeLine(text)
}

func ends(deadline, now time.Time) string {
	switch left := deadline.Sub(now); {
	case deadline.IsZero():
		return "-"
	case left < 0:
		return duration(-left) + " ago"
	default:
		return "in " + duration(left)
	}
}

// duration is approximate, in docker's wording, in lower case.
func duration(d time.Duration) string { return strings.ToLower(units.HumanDuration(d)) }

// ownerOf is the PID of "PID@start", whose second part distinguishes processes that
// had the same PID.
func ownerOf(m listing.Container) string {
	if m.Foreign {
		return "foreign"
	}
	if m.Orphaned {
		return "gone"
	}
	if m.Session != "" {
		return "-"
	}
	pid, _, _ := strings.Cut(m.Owner, "@")
	return orDash(pid)
}

func runs(list []sandbox.Process) string {
	if list == nil {
		return "?"
	}
	lines := make([]string, len(list))
	for i, p := range list {
		if lines[i] = p.Command; local.IsWaiting(p) {
			lines[i] = "(waiting for a command)"
		}
	}
	return orDash(strings.Join(slices.DeleteFunc(lines, func(line string) bool { return line == "" }), ", "))
}

// cut shortens text to that many characters.
func cut(text string, most int) string {
	characters := []rune(view.SafeLine(text))
	if len(characters) <= most {
		return string(characters)
	}
	return string(characters[:most-1]) + "…"
}
