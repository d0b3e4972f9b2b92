package suite

import (
	"cmp"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"

	"belljar/eval/run"
	"belljar/sandbox"
)

// Steps are a task's, in their order: the agent does one after the other in one container,
// and each is graded once it is done.
type Steps struct {
	List  []Step
	Final bool // the last one's reward is the task's, not the mean of all
}

// Step is one step, as a task of its own.
type Step struct {
	Name  string
	Min   map[string]float64 // rewards without which no other step begins
	Files []sandbox.File     // that are placed for it; its task's are these and those of the steps before
	Task  Task
}

// StepsDir is the directory of a task folder, and of an archive of artifacts, that has those of each step.
const StepsDir = "steps"

// steps reads the steps of a task, or none.
func (f *folder) steps() error {
	t := f.task
	switch f.set.Strategy {
	case "", "mean":
	case "final":
		t.Steps.Final = true
	default:
		return unsupported("multi_step_reward_strategy = %q", f.set.Strategy)
	}
	if len(f.set.Steps) == 0 {
		for _, name := range f.order {
			if strings.HasPrefix(name, StepsDir+"/") {
				f.notice("%s/ is ignored: task.toml has no [[steps]]", StepsDir)
				break
			}
		}
		return nil
	}
	var staged []sandbox.File
	for _, s := range f.set.Steps {
		if s.Name == "" || s.Name == "." || s.Name == ".." || strings.Contains(s.Name, "/") || checkID(s.Name) != nil || slices.ContainsFunc(t.Steps.List, func(o Step) bool { return o.Name == s.Name }) {
			return sandbox.Invalid("name each as its directory below steps/", "the name %q of a step is empty, unusable or there twice", s.Name)
		}
		own := f.below(StepsDir+"/"+s.Name+"/workdir", t.Workdir)
		staged = over(staged, own)
		one, err := f.step(s, staged)
		if err != nil {
			return fmt.Errorf("step %q: %w", s.Name, err)
		}
		one.Files = own
		t.Steps.List = append(t.Steps.List, one)
	}
	return nil
}

// step is a step, which begins with files that were staged for it and those before.
func (f *folder) step(s step, staged []sandbox.File) (one Step, err error) {
	dir := StepsDir + "/" + s.Name
	one = Step{Name: s.Name, Task: *f.task}
	t := &one.Task
	t.Steps, t.Notices, t.Collect = Steps{}, nil, nil
	t.Files = over(f.task.Files, staged)
	t.Instruction = withoutCanary(string(f.files[dir+"/instruction.md"].Content))
	if _, ok := f.files[dir+"/instruction.md"]; !ok {
		return one, sandbox.Invalid("write what is asked", "it has no %s/instruction.md", dir)
	}
	if one.Min, err = minRewards(s.MinReward); err != nil {
		return one, err
	}
	if _, ok := f.files[dir+"/workdir/setup.sh"]; ok {
		t.Ready = "bash " + path.Join(t.Workdir, "setup.sh")
	}
	t.Ready = both(t.Ready, s.Healthcheck.script())
	v := s.Verifier.or(f.set.Verifier)
	t.Grader.Tests = over(f.below("tests", TestsDir), f.below(dir+"/tests", TestsDir))
	if t.Artifacts, err = f.artifacts(f.set.Artifacts, s.Artifacts); err != nil {
		return one, err
	}
	if err := f.grading(t, v); err != nil {
		return one, err
	}
	if t.Solution = f.solutionOf(dir); !t.Solution.Exists() {
		t.Solution = f.solutionOf("solution")
	}
	if s.Agent.TimeoutSec == 0 {
		s.Agent.TimeoutSec = f.set.Agent.TimeoutSec
	}
	if err := f.limitsOf(t, s.Agent, v); err != nil {
		return one, err
	}
	return one, nil
}

// or is the verifier of a step, with the task's where it says nothing. A step's timeout is its own.
func (v verifier) or(task verifier) verifier {
	env := map[string]string{}
	for _, from := range []map[string]string{task.Env, v.Env} {
		for name, value := range from {
			env[name] = value
		}
	}
	v.Env, v.Collect = env, append(slices.Clone(task.Collect), v.Collect...)
	v.EnvironmentMode, v.NetworkMode = cmp.Or(v.EnvironmentMode, task.EnvironmentMode), cmp.Or(v.NetworkMode, task.NetworkMode)
	if v.Environment == nil {
		v.Environment = task.Environment
	}
	return v
}

// minRewards reads what a step must reach: a number is that of "reward".
func minRewards(value any) (map[string]float64, error) {
	number := func(v any) (float64, bool) {
		switch v := v.(type) {
		case float64:
			return v, !math.IsNaN(v)
		case int64:
			return float64(v), true
		}
		return 0, false
	}
	if value == nil {
		return nil, nil
	}
	if one, ok := number(value); ok {
		return map[string]float64{run.DefaultReward: one}, nil
	}
	table, ok := value.(map[string]any)
	all := map[string]float64{}
	for name, v := range table {
		one, isNumber := number(v)
		all[name], ok = one, ok && isNumber
	}
	if !ok {
		return nil, sandbox.Invalid("write a number, or numbers by the names of rewards", "min_reward is malformed")
	}
	return all, nil
}

// script is a script that succeeds once the command does.
func (h *healthcheck) script() string {
	if h == nil || strings.TrimSpace(h.Command) == "" {
		return ""
	}
	or := func(value, otherwise float64) float64 {
		if value <= 0 {
			return otherwise
		}
		return min(value, 3600)
	}
	retries := h.Retries
	if retries <= 0 {
		retries = 3
	}
	// A try of the start period does not count; here it only makes more of them.
	tries := min(retries+int(or(h.StartPeriod, 0)/or(h.StartInterval, 5)), 1000)
	return fmt.Sprintf("n=0\nuntil (\n%s\n); do n=$((n+1)); [ $n -lt %d ] || { echo 'the healthcheck does not succeed' >&2; exit 94; }; sleep %g; done", h.Command, tries, or(h.Interval, 5))
}

// both are two scripts, one after the other.
func both(first, second string) string {
	if first == "" || second == "" {
		return first + second
	}
	return first + " || exit\n" + second
}

// over is files, and those that replace some of them.
func over(files, with []sandbox.File) (all []sandbox.File) {
	for _, f := range files {
		if !slices.ContainsFunc(with, func(w sandbox.File) bool { return w.Path == f.Path }) {
			all = append(all, f)
		}
	}
	return append(all, with...)
}

// hooks are what runs once the agent ended.
func (v verifier) hooks() (list []Hook, err error) {
	for _, h := range v.Collect {
		if h.Service != "" && h.Service != "main" {
			return nil, unsupported("[[verifier.collect]] of service %q", h.Service)
		}
		if strings.TrimSpace(h.Command) == "" {
			return nil, sandbox.Invalid("write what it runs", "[[verifier.collect]] has no command")
		}
		timeout := duration(cmp.Or(h.TimeoutSec, 60))
		if timeout < sandbox.MinTimeout || timeout > maxTimeout {
			return nil, sandbox.Invalid("write seconds, from 1 to a day", "timeout_sec %g of [[verifier.collect]] is out of range", h.TimeoutSec)
		}
		list = append(list, Hook{h.Command, timeout})
	}
	return list, nil
}
