// Package report shows how a run of belljar eval ended: as a table, as JUnit XML and as one
// page of HTML.
//
// The one rule: what a solution wrote is text. Whatever it is, it can neither act on the
// terminal or the browser that shows it, nor look like something that belljar says.
//
//	r := report.New(dir.Run, results)
//	io.WriteString(os.Stdout, r.Text())
//	err := r.HTML(file)
package report

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"belljar/eval/run"
)

// Report is a run and the trials that ended. It is made from files that anyone may have
// changed, so no number and no name in it is taken for granted.
type Report struct {
	Run     run.Run
	Tasks   []Task
	Summary Summary
	Wrong   []string // what belljar would not have written
}

// Task is a task with its trials.
type Task struct {
	run.Task
	Trials []run.Result // by number
	Passed int          // of Counted
	Counts int          // trials that say something about the solution
	Flaky  bool         // some of them passed and some did not
}

// maxWrong bounds what is said about files that are not of belljar's making.
const maxWrong = 20

// New makes a report of a run's results. Of several about one trial the last counts.
func New(r run.Run, results []run.Result) *Report {
	report := &Report{Run: r}
	at := map[string]int{}
	for _, t := range r.Tasks {
		if _, again := at[t.ID]; again {
			report.wrong("run.json has the task %.200q more than once", t.ID)
			continue
		}
		at[t.ID] = len(report.Tasks)
		report.Tasks = append(report.Tasks, Task{Task: t})
	}
	last := map[run.Key]int{}
	for i, result := range results {
		last[result.Key()] = i
	}
	for i, result := range results {
		if last[result.Key()] != i {
			continue
		}
		task, known := at[result.Task]
		if !known || result.Trial < 1 || result.Trial > r.Trials {
			report.wrong("results.jsonl has trial %d of %.200q, which is not in run.json", result.Trial, result.Task)
			continue
		}
		report.Tasks[task].Trials = append(report.Tasks[task].Trials, report.checked(result))
	}
	for i := range report.Tasks {
		report.Tasks[i].count()
	}
	report.summarize()
	return report
}

func (r *Report) wrong(format string, args ...any) {
	if len(r.Wrong) < maxWrong {
		r.Wrong = append(r.Wrong, fmt.Sprintf(format, args...))
	}
}

// checked is a result that makes sense: what belljar does not write is an error, never a pass.
func (r *Report) checked(result run.Result) run.Result {
	switch result.Verdict {
	case run.Passed, run.Failed, run.Tampered, run.Timeout, run.OOM, run.Skipped:
	case run.Error:
		if !slices.Contains([]run.Side{run.BySolution, run.ByTask, run.Infrastructure}, result.Side) {
			r.wrong("results.jsonl has an error of the side %.40q for trial %d of %.200q", result.Side, result.Trial, result.Task)
			result.Side = run.Infrastructure
		}
	default:
		r.wrong("results.jsonl has the verdict %.40q for trial %d of %.200q", result.Verdict, result.Trial, result.Task)
		result.Verdict, result.Side = run.Error, run.Infrastructure
	}
	result.Millis = sane(result.Millis)
	for i := range result.Phases {
		result.Phases[i].Millis = sane(result.Phases[i].Millis)
	}
	return result
}

// sane is a duration that can be added up and drawn.
func sane(millis float64) float64 {
	return max(0, min(millis, float64((1000*time.Hour).Milliseconds())))
}

func (t *Task) count() {
	slices.SortStableFunc(t.Trials, func(a, b run.Result) int { return cmp.Compare(a.Trial, b.Trial) })
	for _, trial := range t.Trials {
		if !trial.Counts() {
			continue
		}
		t.Counts++
		if trial.Verdict == run.Passed {
			t.Passed++
		}
	}
	t.Flaky = t.Passed > 0 && t.Passed < t.Counts
}

// Millis is how long the task's trials took.
func (t *Task) Millis() (sum float64) {
	for _, trial := range t.Trials {
		sum += trial.Millis
	}
	return sum
}
