package eval

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"fmt"
	"strings"

	"belljar/eval/run"
	"belljar/eval/suite"
	"belljar/sandbox"
)

// control is a grading that must fail. The zero control is the real grading.
type control struct {
	name    string
	python  string         // how controls.py changes the tests
	script  string         // in place of the grader's own
	tests   []sandbox.File // in place of those with the same paths
	missing bool           // there are no artifacts
	planted bool           // the tests write the reward elsewhere: one in its place is planted
	cannot  string         // why it cannot be made, if that is known
	next    *control       // what follows if it ends as it should; may be nil
}

// before is the control with the one that follows it, unless its outcome is known without grading.
func (c control) before(t *trial, rest []control) control {
	if len(rest) == 0 {
		return c
	}
	if _, known := t.harness.found(t.key() + rest[0].name); !known || !rest[0].missing {
		c.next = &rest[0]
	}
	return c
}

// saysNothing is why such a control does not count.
const saysNothing = "it passes with the task's own solution, too, so it says nothing about another"

// elsewhere is where the tests of a control write the reward.
const elsewhere = "/tmp/verifier"

// controlsPy changes Python tests so that no solution can satisfy them.
//
//go:embed controls.py
var controlsPy string

func (c control) phase() run.PhaseName {
	if c.name == "" {
		return run.Verify
	}
	return run.Check
}

func (c control) detail(what string) string { return strings.TrimSpace(c.name + " " + what) }

// replace is the tests as the control has them.
func (c control) replace(tests []sandbox.File) []sandbox.File {
	all := over(tests, c.tests)
	for i := range all {
		if c.planted {
			all[i].Content = bytes.ReplaceAll(all[i].Content, []byte(suite.RewardDir), []byte(elsewhere))
		}
	}
	return all
}

// prepare is a script that makes the tests ready. No code of the solution is there yet.
func (c control) prepare(g suite.Grader) string {
	script := ""
	if g.By == run.ByReward {
		script += "\ncommand -v bash >/dev/null || { echo 'the image has no bash, which runs tests/test.sh' >&2; exit 93; }"
	}
	if c.planted {
		script += "\nmkdir -m 1777 " + elsewhere
	}
	if c.python != "" {
		or := "exit $?"
		if c.script != "" || len(c.tests) > 0 { // there are other tests that fail
			or = "[ $? -eq 94 ] || exit 93"
		}
		script += "\ncommand -v python3 >/dev/null || { echo 'the image has no python3 on PATH, which changes the .py files of the tests' >&2; exit 93; }" +
			"\npython3 -I -S -c " + quote(controlsPy) + " " + c.python + " t" + strings.ToLower(rand.Text()[:9]) + " " + suite.TestsDir + " || " + or
	}
	return script
}

// doesNotApply is the outcome of a control in whose tests there is nothing to change, once they were to be placed, or no
// verdict. Without any test that fails, there is no knowing whether a solution ends them.
func (c control) doesNotApply(placed step) outcome {
	if c.python == "" || c.name == failing || placed.result.Cause != sandbox.CauseExited || placed.result.ExitCode != 94 {
		return outcome{}
	}
	return placed.outcome(run.Skipped, "", "it does not apply: %s", lastLine(placed.result.Stderr))
}

// controls are those of the task.
func (t *trial) controls() (list []control) {
	g := t.task.Grader
	if g.By != run.ByExpect {
		if list = t.failing(); hasPython(g) {
			list = append(list, control{name: "equality", python: "equality"})
		}
		if without, ok := suite.FalseScript(g); ok {
			list = append(list, control{name: "false", script: without.Script, tests: without.Tests})
		} else if err := suite.Unreadable(g); err != nil {
			list = append(list, control{name: "false", cannot: fmt.Sprintf("the script cannot be read as Bash has it: %v", err)})
		}
		if g.By == run.ByReward {
			list = append(list, control{name: "planted", planted: true})
		}
		for _, own := range g.Controls {
			list = append(list, control{name: "own " + own.Name, tests: own.Tests})
		}
	}
	return append(list, control{name: "missing", missing: true})
}

// gradeControl grades artifacts against a control. The outcome is Tampered if that passes, and an
// error if it is not known: nothing passes without its controls.
func (t *trial) gradeControl(ctx context.Context, made artifacts, c control) outcome {
	if c.missing && len(made) == 0 {
		return t.broken(outcome{phase: run.Check})
	}
	note := run.Control{Name: c.name, Step: t.step}
	defer func() { t.result.Controls = append(t.result.Controls, note) }()
	if own, known := t.harness.found(t.key() + "oracle " + c.name); known && own.verdict == run.Passed {
		note.Passed, note.Skipped = true, saysNothing
		return outcome{}
	}
	seen := t.knownControl(ctx, made, c)
	note.Message = seen.message
	switch {
	case seen.verdict == run.Error && seen.side == run.Infrastructure:
		note.Skipped = seen.message
		return seen
	case seen.verdict == run.Error:
		note.Skipped = "it cannot be made: " + seen.message
		seen.message = fmt.Sprintf("control %q cannot be made: %s; change that, or use --no-controls, with which a solution that cheats the tests passes", c.name, seen.message)
		return seen
	case seen.verdict == run.Skipped:
		note.Skipped, note.Message = seen.message, ""
		return outcome{}
	case seen.verdict == run.Tampered: // a forged reward
		note.Passed = true
		return seen
	case seen.verdict != run.Passed:
		return outcome{}
	}
	note.Passed = true
	if c.missing {
		return t.broken(seen)
	}
	oracle := t.calibrate(ctx, c)
	switch {
	case oracle.verdict == run.Error && oracle.side == run.Infrastructure:
		return oracle
	case oracle.verdict == run.Passed:
		note.Skipped = saysNothing
		return outcome{}
	}
	if oracle.verdict == run.Error && c.isUnsure(t.task.Grader) {
		seen.verdict, seen.side = run.Error, run.ByTask
		seen.message = fmt.Sprintf("control %q passed, and it is not known whether it works here, because %s: give the task a solution that passes", c.name, oracle.message)
		return seen
	}
	seen.verdict, seen.side, seen.message = run.Tampered, run.BySolution, "control \""+c.name+"\" passed: "+cmp.Or(seen.message, "tests that cannot be satisfied were")
	if oracle.verdict == run.Error {
		seen.message += "; this may be the task's doing: it is not known whether the control works, because " + oracle.message
	}
	return seen
}

// broken is the outcome of a task that passes without any artifacts.
func (t *trial) broken(seen outcome) outcome {
	seen.verdict, seen.side, seen.message = run.Error, run.ByTask, "the tests pass without any artifacts"
	return seen
}

// knownControl grades, or knows the outcome: without artifacts it is always the same.
func (t *trial) knownControl(ctx context.Context, made artifacts, c control) outcome {
	if c.cannot != "" {
		return outcome{verdict: run.Error, side: run.ByTask, phase: run.Check, message: c.cannot}
	}
	if !c.missing {
		return t.grade(ctx, made, c)
	}
	return t.harness.once(t.key()+c.name, func() outcome { return t.grade(ctx, nil, c) })
}

// calibrate grades the task's own solution against a control. That says something only if the
// solution passes otherwise: else the outcome is an error, with the reason.
func (t *trial) calibrate(ctx context.Context, c control) outcome {
	c.next = nil // which aside would make a container for
	aside := &trial{harness: t.harness, task: t.task, number: t.number, step: t.step, aside: true}
	defer t.removing.Go(aside.removing.Wait)
	defer aside.dropSpare()
	own := t.harness.once(t.key()+"oracle", func() outcome {
		made, out := aside.reference(ctx)
		if out.verdict != "" {
			return out
		}
		aside.task, aside.step = t.task, t.step // reference may go through others
		t.harness.mu.Lock()
		if t.harness.oracles == nil {
			t.harness.oracles = map[string]artifacts{}
		}
		t.harness.oracles[t.key()] = made
		t.harness.mu.Unlock()
		return aside.grade(ctx, made, control{})
	})
	switch {
	case own.verdict == run.Error && (own.side == run.Infrastructure || !t.task.Solution.Exists()):
		return own
	case own.verdict != run.Passed:
		own.verdict, own.side, own.message = run.Error, run.ByTask, fmt.Sprintf("the task's own solution does not pass: %s: %s", own.verdict, own.message)
		return own
	}
	t.harness.mu.Lock()
	made := t.harness.oracles[t.key()]
	t.harness.mu.Unlock()
	return t.harness.once(t.key()+"oracle "+c.name, func() outcome { return aside.grade(ctx, made, c) })
}

// key names the task, or the step, in what the harness remembers.
func (t *trial) key() string { return t.task.ID + "\x00" + t.step + "\x00" }

// reference are the artifacts of the task's own solution, up to the step that is graded.
func (t *trial) reference(ctx context.Context) (artifacts, outcome) {
	if t.step == "" {
		return t.oracle(ctx)
	}
	for i := range t.harness.Tasks {
		if whole := &t.harness.Tasks[i]; whole.ID == t.task.ID {
			return t.referenceStep(ctx, whole)
		}
	}
	return nil, outcome{}
}

// once finds an outcome and remembers it, unless the infrastructure failed. Trials that want the
// same one at the same time find it together.
func (h *Harness) once(key string, find func() outcome) outcome {
	found, _, _ := h.finding.Do(key, func() (any, error) {
		if known, ok := h.found(key); ok {
			return known, nil
		}
		out := find()
		if out.verdict != run.Error || out.side != run.Infrastructure {
			h.mu.Lock()
			defer h.mu.Unlock()
			if h.known == nil {
				h.known = map[string]outcome{}
			}
			h.known[key] = out
		}
		return out, nil
	})
	return found.(outcome)
}

// found is the outcome that once has found, if it has.
func (h *Harness) found(key string) (known outcome, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	known, ok = h.known[key]
	return known, ok
}
