package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"belljar/sandbox"
	"belljar/view"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

const doctorHelp = `Check this host, its engine and the configuration, and run one real command.

Each line is one check: its status, its name and what it found. A warning or a
failure is followed by how to fix it.

  ok    nothing to fix
  warn  belljar works, but something is weaker than it could be
  fail  commands do not run, or run with less isolation than they should have
  skip  not checked, because something else failed

The exit status is 1 if a check failed, and 0 otherwise. Warnings are not failures.`

func doctorCmd(g *globals) *cobra.Command {
	var format, engine string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check that commands can run here, and how well they are isolated",
		Long:  doctorHelp,
		Example: `  belljar doctor
  belljar doctor --engine kubernetes
  belljar doctor --format json | jq '.checks[] | select(.status != "ok")'`,
		Args: cobra.NoArgs,
		RunE: stoppable(func(cmd *cobra.Command, _ []string) error {
			if err := textOrJSON(format); err != nil {
				return err
			}
			flags := map[string]string{}
			if engine != "" {
				flags["engine.kind"] = engine
			}
			return runDoctor(cmd.Context(), g, flags, cmd.OutOrStdout(), format)
		}),
	}
	formatFlag(cmd, &format)
	cmd.Flags().StringVar(&engine, "engine", "", "check this engine: docker, oci or kubernetes (default engine.kind)")
	return cmd
}

// verdict is a check's outcome, the worst last.
type verdict int

const (
	verdictOK verdict = iota
	verdictSkip
	verdictWarn
	verdictFail
)

func (v verdict) String() string { return [...]string{"ok", "skip", "warn", "fail"}[v] }

// MarshalText implements encoding.TextMarshaler.
func (v verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// check is one line of the doctor's.
type check struct {
	Name string `json:"name"`
	finding
}

// finding is what a check found. A warning and a failure have a fix.
type finding struct {
	Status verdict `json:"status"`
	Text   string  `json:"finding"`
	Fix    string  `json:"fix"`
}

func ok(format string, args ...any) finding {
	return finding{Status: verdictOK, Text: fmt.Sprintf(format, args...)}
}

func skip(format string, args ...any) finding {
	return finding{Status: verdictSkip, Text: fmt.Sprintf("not checked: "+format, args...)}
}

func warn(fix, format string, args ...any) finding {
	return finding{Status: verdictWarn, Text: fmt.Sprintf(format, args...), Fix: fix}
}

func fail(fix, format string, args ...any) finding {
	return finding{Status: verdictFail, Text: fmt.Sprintf(format, args...), Fix: fix}
}

// together combines several findings: it has the worst ones, or all if nothing is
// wrong.
func together(all ...finding) finding {
	var worst finding
	for _, f := range all {
		worst.Status = max(worst.Status, f.Status)
	}
	var texts, fixes []string
	for _, f := range all {
		if f.Status == worst.Status {
			texts = appendNew(texts, f.Text)
			fixes = appendNew(fixes, f.Fix)
		}
	}
	worst.Text, worst.Fix = strings.Join(texts, "; "), strings.Join(fixes, "; ")
	return worst
}

// runDoctor shows each check as soon as it is done: the last ones take a second.
func runDoctor(ctx context.Context, g *globals, flags map[string]string, out io.Writer, format string) error {
	var broken error
	all := []check{}
	paint := painter(out)
	failed := false
	diagnose(ctx, g, flags, func(c check) {
		all = append(all, c)
		failed = failed || c.Status == verdictFail
		if format == "text" {
			_, err := io.WriteString(out, c.render(paint))
			broken = cmp.Or(broken, err)
		}
	})
	if format == "json" {
		broken = writeJSON(out, struct {
			Checks []check `json:"checks"`
		}{all})
	}
	if broken == nil && failed {
		return exitError(1)
	}
	return broken
}

// render is the check as text.
func (c check) render(paint func(verdict) string) string {
	line := fmt.Sprintf("%s  %-15s  %s\n", paint(c.Status), c.Name, view.SafeLine(c.Text))
	if c.Fix != "" {
		line += "      fix: " + view.SafeLine(c.Fix) + "\n"
	}
	return line
}

// colourful reports whether out is a terminal whose user did not turn colours off
// (no-color.org).
func colourful(out io.Writer) bool {
	file, isFile := out.(*os.File)
	return isFile && term.IsTerminal(int(file.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// painter gives verdicts a colour.
func painter(out io.Writer) func(verdict) string {
	if !colourful(out) {
		return func(v verdict) string { return fmt.Sprintf("%-4s", v) }
	}
	return func(v verdict) string {
		colour := [...]int{verdictOK: 32, verdictSkip: 90, verdictWarn: 33, verdictFail: 31}[v]
		return fmt.Sprintf("\x1b[%dm%-4s\x1b[0m", colour, v)
	}
}

// writeJSON writes v as one line.
func writeJSON(out io.Writer, v any) error {
	text, err := sandbox.JSON(v)
	if err != nil {
		return err
	}
	_, err = out.Write(append(text, '\n'))
	return err
}
