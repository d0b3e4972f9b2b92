package report

import (
	"fmt"
	"slices"
	"strings"

	"belljar/eval/run"
)

// Summary is a run in numbers.
type Summary struct {
	Tasks   int `json:"tasks"`
	Trials  int `json:"trials"`  // of all tasks together
	Missing int `json:"missing"` // trials that have not ended
	Counted int `json:"counted"` // trials that say something about the solution: the denominator

	Passed   int `json:"passed"`
	Failed   int `json:"failed"`
	Tampered int `json:"tampered"`
	Timeout  int `json:"timeout"`
	OOM      int `json:"oom"`
	Skipped  int `json:"skipped"`

	AgentErrors          int `json:"agent_errors"`
	TaskErrors           int `json:"task_errors"`
	InfrastructureErrors int `json:"infrastructure_errors"`

	Unsealed int        `json:"unsealed"` // trials whose solution shared a container with its grader
	Flaky    []string   `json:"flaky"`    // tasks of which some trials passed and some did not
	PassAt   []Estimate `json:"pass_at"`
}

// Estimate is pass@k: the mean of PassAt over the tasks that have k trials that count.
type Estimate struct {
	K       int     `json:"k"`
	Chance  float64 `json:"chance"`
	Tasks   int     `json:"tasks"`    // that it is about
	LeftOut int     `json:"left_out"` // tasks with fewer trials that count
}

// usualK are the k that papers give; the number of trials comes with them.
var usualK = []int{1, 2, 5, 10, 20, 50, 100}

func (r *Report) summarize() {
	s := &r.Summary
	s.Tasks, s.Flaky = len(r.Tasks), []string{}
	for _, task := range r.Tasks {
		s.Trials += r.Run.Trials
		s.Missing += r.Run.Trials - len(task.Trials)
		s.Counted += task.Counts
		if task.Flaky {
			s.Flaky = append(s.Flaky, task.ID)
		}
		for _, trial := range task.Trials {
			s.add(trial)
		}
	}
	s.PassAt = []Estimate{}
	for _, k := range r.ks() {
		if e := r.passAt(k); e.Tasks > 0 {
			s.PassAt = append(s.PassAt, e)
		}
	}
}

func (s *Summary) add(trial run.Result) {
	if !trial.Sealed && trial.Counts() {
		s.Unsealed++
	}
	switch trial.Verdict {
	case run.Passed:
		s.Passed++
	case run.Failed:
		s.Failed++
	case run.Tampered:
		s.Tampered++
	case run.Timeout:
		s.Timeout++
	case run.OOM:
		s.OOM++
	case run.Skipped:
		s.Skipped++
	case run.Error:
		switch trial.Side {
		case run.BySolution:
			s.AgentErrors++
		case run.ByTask:
			s.TaskErrors++
		case run.Infrastructure:
			s.InfrastructureErrors++
		}
	}
}

func (r *Report) ks() (ks []int) {
	for _, k := range append(slices.Clone(usualK), r.Run.Trials) {
		if k >= 1 && k <= r.Run.Trials && !slices.Contains(ks, k) {
			ks = append(ks, k)
		}
	}
	slices.Sort(ks)
	return ks
}

func (r *Report) passAt(k int) Estimate {
	e := Estimate{K: k}
	for _, task := range r.Tasks {
		chance, known := PassAt(task.Counts, task.Passed, k)
		if !known {
			e.LeftOut++
			continue
		}
		e.Tasks++
		e.Chance += chance
	}
	if e.Tasks > 0 {
		e.Chance /= float64(e.Tasks)
	}
	return e
}

// AllPassed reports whether every trial passed.
func (s Summary) AllPassed() bool { return s.Trials > 0 && s.Passed == s.Trials }

// String is "3 of 4 trials passed: 1 tampered".
func (s Summary) String() string {
	var others []string
	for _, of := range []struct {
		n    int
		name string
	}{
		{s.Failed, "failed"}, {s.Tampered, "tampered"}, {s.Timeout, "timed out"}, {s.OOM, "ran out of memory"},
		{s.AgentErrors, plural(s.AgentErrors, "error") + " of the agent"},
	} {
		if of.n > 0 {
			others = append(others, fmt.Sprintf("%d %s", of.n, of.name))
		}
	}
	text := fmt.Sprintf("%d of %d %s passed", s.Passed, s.Counted, plural(s.Counted, "trial"))
	if len(others) > 0 {
		text += ": " + strings.Join(others, ", ")
	}
	return text
}

// NotCounted says which trials are not in the denominator, or "".
func (s Summary) NotCounted() string {
	var parts []string
	for _, of := range []struct {
		n    int
		name string
	}{
		{s.InfrastructureErrors, plural(s.InfrastructureErrors, "error") + " of the infrastructure"}, {s.TaskErrors, plural(s.TaskErrors, "error") + " of the task"}, {s.Skipped, "skipped"}, {s.Missing, "not ended"},
	} {
		if of.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", of.n, of.name))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "not counted: " + strings.Join(parts, ", ")
}

// String is "pass@2 75.0% of 4 tasks".
func (e Estimate) String() string {
	text := fmt.Sprintf("pass@%d %.1f%% of %d %s", e.K, 100*e.Chance, e.Tasks, plural(e.Tasks, "task"))
	if e.LeftOut > 0 {
		text += fmt.Sprintf(" (%d with too few trials that count)", e.LeftOut)
	}
	return text
}

func plural(n int, name string) string {
	if n == 1 {
		return name
	}
	return name + "s"
}
