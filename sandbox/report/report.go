// Package report says in plain text what became of a command, for a model that must
// decide what to do next.
//
// The rule to remember: facts come first, the command's own words last. Everything
// below the first line that begins with "Summary", "Output", "Screen", "Stdout" or "Stderr"
// was written by the command, or about what it wrote, and may be whatever it likes;
// everything above it is belljar's. What is absent is not mentioned.
//
//	text := report.Text(result, report.Options{})
//
// # Design
//
// It is no part of the contract, which has no words of its own and is kept small
// enough to be read. The wording is stable: programs and prompts may depend on it, and
// golden files hold it.
package report

import (
	"fmt"
	"strings"
	"time"

	"belljar/sandbox"
	"belljar/view"
)

// Options say what a report has. The zero Options are a full report.
type Options struct {
	// Brief leaves out what the caller knows already, such as the command, and
	// what is as usual.
	Brief bool
	// View bounds the output where the result has no views. Zero bounds are those of
	// sandbox.Defaults.
	View sandbox.View
	// Notices are those that came as events, such as what the policy took away.
	Notices []string
	// ReadMore says how to get what is left out, such as "belljar logs ID"; "" says
	// nothing, since it is not kept.
	ReadMore string
}

// The bounds of belljar's own words, so that a report is never much longer than
// its view. A script, a path and a process can be long.
const (
	maxScript    = 2000 // characters
	maxProcesses = 10
	maxNotices   = 10
)

// Text is the report about a result. It ends with a line end, and is safe to show.
func Text(r sandbox.Result, o Options) string {
	var f facts
	if !o.Brief {
		f.script(r.Command)
		f.line("Description", r.Description)
		f.line("Directory", r.Dir)
		f.line("Session", r.Session)
	}
	f.fate(r, o.Brief)
	f.policy(r.Policy)
	if !o.Brief && r.Timing.Total > 0 {
		f.line("Elapsed", elapsed(r.Timing.Total))
	}
	f.notices(o.Notices)
	f.line("Session lost", r.SessionLost)
	f.processes(r)
	e := r.Evidence
	f.line("Output may be missing", e.OutputError)
	f.line("Background processes are not known", e.ListError)
	f.line("Container may still exist", e.RemoveError)
	parts := outputs(r, o.View)
	if left := leftOut(parts); left > 0 {
		text := sandbox.FormatSize(left)
		if o.ReadMore != "" {
			text += ": " + o.ReadMore
		}
		f.line("Left out of the output", text)
	}
	return f.String() + written(r, parts)
}

// facts are lines of belljar's.
type facts struct{ strings.Builder }

func (f *facts) line(name, text string) {
	if text != "" {
		fmt.Fprintf(f, "%s: %s\n", name, oneLine(text))
	}
}

// script shows a script of several lines so that none of them can pass for a fact.
func (f *facts) script(text string) {
	text = strings.TrimRight(text, "\n")
	if !strings.Contains(text, "\n") {
		f.line("Command", text)
		return
	}
	f.WriteString("Command:\n")
	for line := range strings.Lines(shortened(text, maxScript)) {
		f.WriteString("  " + oneLine(strings.TrimSuffix(line, "\n")) + "\n")
	}
}

// fate is how the command ended and what usually helps.
func (f *facts) fate(r sandbox.Result, brief bool) {
	status := string(r.Status)
	if c := string(r.Cause); r.Cause != sandbox.CauseExited && c != status {
		status += " (" + c + ")"
	}
	f.line("Status", status)
	if r.ExitCode > 0 || r.ExitCode == 0 && !brief {
		f.line("Exit code", exitCode(r))
	}
	f.line("Signal", r.Signal)
	switch {
	case r.Error != nil:
		f.line("Error", r.Error.Message)
	case r.Cause != sandbox.CauseSignaled || r.Evidence.KilledBy == "outside":
		f.line("Error", r.Message)
	}
	f.line("Next", Next(r))
}

// policy is who decided, if that is not the policy alone.
func (f *facts) policy(j *sandbox.Judgment) {
	if j == nil || j.By != sandbox.ByPerson || j.Approval == nil {
		return
	}
	if j.Decision == sandbox.Allow {
		f.line("Approved by", j.Approval.By)
	} else {
		f.line("Denied by", j.Approval.By)
	}
}

func (f *facts) notices(list []string) {
	for _, text := range list[:min(len(list), maxNotices)] {
		f.line("Note", text)
	}
	if more := len(list) - maxNotices; more > 0 {
		fmt.Fprintf(f, "Note: and %d more\n", more)
	}
}

// processes lists what the command left running.
func (f *facts) processes(r sandbox.Result) {
	title := "Background processes"
	if r.ExitCode == sandbox.ExitEnded {
		title = "Processes" // of the command itself, too
	}
	switch {
	case r.Session == "":
		f.list(title+", killed with the container", r.Lingering, r.ID)
	case r.SessionLost != "":
		f.list(title+" that ran when the command ended", r.Lingering, r.ID)
	default:
		f.list(title+", still running", r.Lingering, r.ID)
	}
	f.list("Processes killed with the command", r.Evidence.Killed, r.ID)
}

func (f *facts) list(title string, list []sandbox.Process, id string) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintf(f, "%s: %d\n", title, len(list))
	for _, p := range list[:min(len(list), maxProcesses)] {
		which := fmt.Sprintf("PID %d, group %d", p.PID, p.PGID)
		if p.PID == 0 {
			which = fmt.Sprintf("PID %d of the host", p.HostPID)
		}
		if p.CommandID != "" && id != "" && p.CommandID != id {
			which += ", of command " + oneLine(p.CommandID)
		}
		fmt.Fprintf(f, "  %s: %s\n", which, oneLine(p.Command))
	}
	if more := len(list) - maxProcesses; more > 0 {
		fmt.Fprintf(f, "  and %d more\n", more)
	}
}

func oneLine(text string) string {
	return shortened(view.SafeLine(shortened(text, maxScript)), maxScript)
}

// shortened leaves out the middle of a long text.
func shortened(text string, most int) string {
	runes := []rune(text[:min(len(text), most*8)])
	if len(runes) <= most && len(text) <= most*8 {
		return text
	}
	half := most / 2
	tail := []rune(text[max(0, len(text)-half*4):])
	return string(runes[:half]) + " [...] " + string(tail[max(0, len(tail)-half):])
}

// elapsed is rounded: a model has no use for microseconds.
func elapsed(d time.Duration) string {
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return sandbox.FormatDuration(d.Round(100 * time.Millisecond))
}
