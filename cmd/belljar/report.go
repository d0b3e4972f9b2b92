package main

import (
	"io"
	"time"

	"belljar/config"
	"belljar/sandbox"
	"belljar/sandbox/report"
)

// isReport is true for the formats that tell a model in text what happened.
func isReport(format string) bool { return format == "report" || format == "report-brief" }

// reporter prints one command's report.
type reporter struct {
	brief   bool
	kept    bool // belljar logs can show the output
	notices []string
}

// prepare has the command's result have what a report shows, unless sandbox.yaml or
// a flag asks for other views.
func (r *reporter) prepare(command *sandbox.Command, c *config.Config, profile string) {
	if c.Profiles[profile].View.Mode == sandbox.ViewNone {
		command.View.Mode = sandbox.ViewMerged
	}
	r.kept = c.StateDir != "" && c.Spool.Age > time.Duration(0)
}

func (r *reporter) event(w io.Writer, e sandbox.Event) error {
	switch e.Type {
	case sandbox.EventNotice:
		if !e.Binary && !e.Waits && e.LeftOut == 0 { // the report says so, and nothing waits any more
			r.notices = append(r.notices, string(e.Data))
		}
	case sandbox.EventResult:
		return r.write(w, *e.Result)
	}
	return nil
}

func (r *reporter) write(w io.Writer, result sandbox.Result) error {
	o := report.Options{Brief: r.brief, Notices: r.notices}
	if r.kept {
		o.ReadMore = "belljar logs " + result.ID
	}
	_, err := io.WriteString(w, report.Text(result, o))
	return err
}
