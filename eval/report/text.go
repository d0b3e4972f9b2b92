package report

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"belljar/eval/run"
	"belljar/sandbox"
	"belljar/view"
)

// maxRows is how many tasks that passed the table has: in a large suite they hide the others.
const maxRows = 40

// Text is the report for a terminal: a row for each task, and the numbers.
func (r *Report) Text() string {
	var b strings.Builder
	if len(r.Tasks) > 0 {
		r.table(&b)
	}
	s := r.Summary
	fmt.Fprintln(&b, s)
	for _, line := range append(r.scores(), r.remarks()...) {
		fmt.Fprintln(&b, oneLine(line, 2000))
	}
	return b.String()
}

func (r *Report) table(b *strings.Builder) {
	table := tabwriter.NewWriter(b, 0, 0, 3, ' ', 0)
	defer fmt.Fprintln(b)
	defer table.Flush()
	fmt.Fprintln(table, "TASK\tVERDICT\tTIME\tWHY")
	passed, shown := 0, 0
	for _, task := range r.Tasks {
		if task.Passed == r.Run.Trials && task.Sealed {
			if passed++; len(r.Tasks) > maxRows {
				continue
			}
		}
		verdict, why := task.inShort(r.Run.Trials)
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", oneLine(task.ID, 60), oneLine(verdict, 60), duration(task.Millis()), oneLine(why, 160))
		shown++
	}
	if shown < len(r.Tasks) {
		fmt.Fprintf(table, "%d other %s\tpassed\t\t\n", passed, plural(passed, "task"))
	}
}

// oneLine is the beginning of a text, on one line and in its column.
func oneLine(text string, most int) string { return clip(view.SafeLine(clip(text, most)), most) }

// inShort is the verdict of all trials together, and the reason of the first that did not pass.
func (t *Task) inShort(trials int) (verdict, why string) {
	if trials == 1 && len(t.Trials) == 1 {
		return label(t.Trials[0]), reason(t.Trials[0])
	}
	verdict = fmt.Sprintf("%d of %d passed", t.Passed, t.Counts)
	if t.Flaky {
		verdict += ", flaky"
	}
	if missing := trials - len(t.Trials); missing > 0 {
		verdict += fmt.Sprintf(", %d not ended", missing)
	}
	for _, trial := range t.Trials {
		if trial.Verdict != run.Passed {
			why = fmt.Sprintf("trial %d: %s", trial.Trial, label(trial))
			if because := reason(trial); because != "" {
				why += ": " + because
			}
			return verdict, why
		}
	}
	for _, trial := range t.Trials {
		if !trial.Sealed {
			return verdict + ", unsealed", ""
		}
	}
	return verdict, ""
}

// label is the verdict in a word or two: "error (task)", "passed, unsealed".
func label(r run.Result) string {
	text := string(r.Verdict)
	if r.Verdict == run.Error {
		text += " (" + string(r.Side) + ")"
	}
	if !r.Sealed && r.Counts() {
		text += ", unsealed"
	}
	return text
}

// reason says why a trial did not pass.
func reason(r run.Result) string {
	if r.Verdict == run.Passed {
		return ""
	}
	if r.Message != "" {
		return r.Message
	}
	for _, c := range r.Controls {
		if c.Passed {
			return strings.TrimSuffix(fmt.Sprintf("the control %q passed: %s", c.Name, c.Message), ": ")
		}
	}
	if r.Phase == "" {
		return string(r.Cause)
	}
	return strings.TrimSuffix(fmt.Sprintf("in phase %s: %s", r.Phase, r.Cause), ": ")
}

// scores are pass@k, and what they leave out.
func (r *Report) scores() (lines []string) {
	var all []string
	for _, e := range r.Summary.PassAt {
		all = append(all, e.String())
	}
	if len(all) > 0 {
		lines = append(lines, strings.Join(all, ", "))
	}
	if not := r.Summary.NotCounted(); not != "" {
		lines = append(lines, not)
	}
	return lines
}

// remarks are what a person has to know to believe the numbers.
func (r *Report) remarks() (lines []string) {
	s := r.Summary
	if s.Unsealed > 0 {
		lines = append(lines, fmt.Sprintf("unsealed: %d %s: the solution shared a container with what graded it, and can have faked its score", s.Unsealed, plural(s.Unsealed, "trial")))
	}
	if !r.Run.Options.Controls {
		lines = append(lines, "without controls: a solution that cheats the tests passes")
	}
	if n := len(s.Flaky); n > 0 {
		lines = append(lines, fmt.Sprintf("flaky: %d %s, of which some trials passed and some did not: %s", n, plural(n, "task"), names(s.Flaky)))
	}
	for _, wrong := range r.Wrong {
		lines = append(lines, "changed by something other than belljar: "+wrong)
	}
	return lines
}

// names are the first of a list.
func names(list []string) string {
	const most = 10
	text := strings.Join(list[:min(len(list), most)], ", ")
	if len(list) > most {
		text += fmt.Sprintf(" and %d more", len(list)-most)
	}
	return text
}

// duration is "1.2s" or "3m5s".
func duration(millis float64) string {
	d := time.Duration(millis * float64(time.Millisecond))
	switch {
	case d < 10*time.Second:
		d = d.Round(10 * time.Millisecond)
	case d < time.Minute:
		d = d.Round(100 * time.Millisecond)
	default:
		d = d.Round(time.Second)
	}
	return sandbox.FormatDuration(d)
}
