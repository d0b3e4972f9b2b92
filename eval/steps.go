package eval

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"belljar/eval/run"
	"belljar/eval/suite"
	"belljar/sandbox"
)

// inPlace has the agent work where its container is still needed afterwards: for a task's next step, or
// to grade in it.
func (t *trial) inPlace(ctx context.Context, work func(context.Context, *box) outcome) outcome {
	b := t.agentBox()
	defer b.remove(ctx)
	if out := t.ready(ctx, b); out.verdict != "" {
		return out
	}
	if len(t.task.Steps.List) > 0 {
		var all artifacts
		return t.steps(t.task.Steps.List, func(s *suite.Step) outcome { return t.oneStep(ctx, b, s, work, &all) })
	}
	made, out := t.stage(ctx, b, work)
	if out.verdict != "" {
		return out
	}
	if out := t.keep(made); out.verdict != "" {
		return out
	}
	return t.judgeShared(ctx, b)
}

// steps goes through some of a task's steps, each of which has an outcome, as long as they reach what the next needs.
func (t *trial) steps(list []suite.Step, each func(*suite.Step) outcome) outcome {
	whole := t.task
	defer func() { t.task, t.step = whole, "" }()
	for i := range list {
		s := &list[i]
		t.task, t.step = &s.Task, s.Name
		began := time.Now()
		out := each(s)
		t.result.Steps = append(t.result.Steps, run.Step{Name: s.Name, Verdict: out.verdict, Message: out.message, Reward: out.reward, Rewards: out.rewards, Millis: millis(time.Since(began))})
		if out.message != "" {
			out.message = "step " + s.Name + ": " + out.message
		}
		last := i == len(list)-1
		if out.verdict != run.Passed && out.verdict != run.Failed || last || !reached(s.Min, out) {
			return t.total(whole, out)
		}
	}
	return outcome{}
}

// oneStep is one step. What it made is added to what is kept.
func (t *trial) oneStep(ctx context.Context, b *box, s *suite.Step, work func(context.Context, *box) outcome, all *artifacts) outcome {
	if out := t.place(ctx, b, s.Files, t.task.Ready); out.verdict != "" {
		return out
	}
	t.aheadOfAgent(ctx)
	made, out := t.stage(ctx, b, work)
	if out.verdict != "" {
		return out
	}
	for _, f := range made {
		f.Path = inStep(t.step, f.Path)
		*all = append(*all, f)
	}
	if out := t.keep(*all); out.verdict != "" {
		return out
	}
	if t.task.Grader.Shared {
		return t.judgeShared(ctx, b)
	}
	return t.judge(ctx, made)
}

// stepsAgain grades what was kept of each step once more. There is nothing of those that did not run.
func (t *trial) stepsAgain(ctx context.Context, all artifacts, before []run.Step) outcome {
	ran := t.task.Steps.List[:min(len(before), len(t.task.Steps.List))]
	return t.steps(ran, func(s *suite.Step) outcome {
		var made artifacts
		for _, f := range all {
			if rest, ok := strings.CutPrefix(f.Path, inStep(s.Name, "")); ok && strings.HasPrefix(rest, "/") {
				f.Path = rest
				made = append(made, f)
			}
		}
		return t.judge(ctx, made)
	})
}

// reached reports whether a step reached what the next needs.
func reached(least map[string]float64, out outcome) bool {
	for name, value := range least {
		got, ok := out.rewards[name]
		if name == run.DefaultReward && !ok && out.reward != nil {
			got, ok = *out.reward, true
		}
		if !ok || got < value {
			return false
		}
	}
	return true
}

// total is the outcome of the whole task, the last of whose steps that ran has one. It passed if all
// steps ran, and they passed, or the last if that is the one that counts.
func (t *trial) total(whole *suite.Task, last outcome) outcome {
	if last.verdict != run.Passed && last.verdict != run.Failed {
		return last
	}
	sum, failed := 0.0, ""
	for _, s := range t.result.Steps {
		if s.Reward != nil {
			sum += *s.Reward
		}
		if s.Verdict != run.Passed && failed == "" {
			failed = "step " + s.Name + ": " + cmp.Or(s.Message, "failed")
		}
	}
	ran := len(t.result.Steps)
	if !whole.Steps.Final {
		mean := sum / float64(ran)
		last.reward, last.rewards = &mean, nil
	}
	if whole.Steps.Final && last.verdict == run.Passed {
		failed = ""
	}
	if ran < len(whole.Steps.List) && failed == "" {
		failed = "step " + t.step + " was the last that ran"
	}
	last.message = ""
	if failed != "" {
		last.verdict, last.side, last.message = run.Failed, run.BySolution, fmt.Sprintf("%s (%d of %d steps ran)", failed, ran, len(whole.Steps.List))
	} else {
		last.verdict, last.side = run.Passed, ""
	}
	return last
}

// judgeShared grades in the agent's container. There are no controls: whatever the agent left there could
// tell them from the real tests.
func (t *trial) judgeShared(ctx context.Context, b *box) outcome {
	t.result.Sealed = false
	g := t.task.Grader
	emptied := b.do(ctx, run.Verify, "emptying", func(c *sandbox.Command) {
		c.Script = "kill -9 -1 2>/dev/null; mkdir -p " + words([]string{suite.TestsDir, suite.RewardDir}) + "; cd / && rm -rf ." + suite.TestsDir + "/* ." + suite.RewardDir + "/*"
	})
	if out := emptied.fails(run.BySolution); out.verdict != "" {
		return out
	}
	if out := b.put(ctx, run.Verify, "tests", sandbox.User{}, g.Tests, "chmod 755 "+suite.TestsDir+control{}.prepare(g)).fails(run.BySolution); out.verdict != "" {
		out.message = "placing the tests: " + out.message
		return out
	}
	return t.runTests(ctx, b, control{}, nil)
}

// referenceStep has the task's own solution do its steps, up to this trial's.
func (t *trial) referenceStep(ctx context.Context, whole *suite.Task) (artifacts, outcome) {
	upTo := t.step
	t.task = whole
	b := t.agentBox()
	defer b.remove(ctx)
	if out := t.ready(ctx, b); out.verdict != "" {
		return nil, out
	}
	for i := range whole.Steps.List {
		s := &whole.Steps.List[i]
		t.task, t.step = &s.Task, s.Name
		if out := t.place(ctx, b, s.Files, t.task.Ready); out.verdict != "" {
			return nil, out
		}
		if made, out := t.stage(ctx, b, t.ownSolution); out.verdict != "" || s.Name == upTo {
			return made, out
		}
	}
	return nil, outcome{}
}
