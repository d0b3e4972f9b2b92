package eval

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"belljar/eval/run"
	"belljar/eval/suite"
	"belljar/sandbox"
)

// trial is one trial of one task. It is used by one goroutine.
type trial struct {
	harness *Harness
	task    *suite.Task
	number  int
	step    string     // of a task with several: what is done is part of it
	result  run.Result // so far
	aside   bool       // what it does is no part of the run

	spare    *spare         // made ahead; may be nil
	removing sync.WaitGroup // of its containers
	left     sync.Map       // why one may still be there, by its session
}

// step is what came of a command.
type step struct {
	result sandbox.Result
	phase  run.PhaseName
	lost   string // why the container that it was to run in is gone
	own    bool   // which the solution did
}

// run evaluates the task once.
func (t *trial) run(ctx context.Context) run.Result {
	began := time.Now()
	defer t.dropSpare()
	t.result = run.Result{Task: t.task.ID, Trial: t.number, Started: began.UTC().Truncate(time.Millisecond), Sealed: true}
	out := t.evaluate(ctx)
	t.result.Verdict, t.result.Side, t.result.Phase, t.result.Cause, t.result.Message = out.verdict, out.side, out.phase, out.cause, out.message
	t.result.Reward, t.result.Rewards = out.reward, out.rewards
	t.result.Millis = millis(time.Since(began))
	return t.result
}

// closed waits until the containers of the trial are gone, and adds to its result which are not.
func (t *trial) closed(r *run.Result) {
	t.removing.Wait()
	t.left.Range(func(_, err any) bool {
		r.Notices = append(r.Notices, fmt.Sprintf("removing a container: %v", err))
		return true
	})
}

func (t *trial) evaluate(ctx context.Context) outcome {
	if t.harness.Dir.Run.Agent.Kind == run.Regrade {
		return t.again(ctx)
	}
	if work := t.worker(); work != nil && (len(t.task.Steps.List) > 0 || t.task.Grader.Shared) {
		return t.inPlace(ctx, work)
	}
	made, out := t.solve(ctx)
	if out.verdict != "" {
		return out
	}
	if out := t.keep(made); out.verdict != "" {
		return out
	}
	return t.judge(ctx, made)
}

// keep records artifacts, and keeps them.
func (t *trial) keep(made artifacts) outcome {
	t.result.Artifacts = made.list()
	if err := t.harness.Dir.Keep(run.Key{Task: t.task.ID, Trial: t.number}, made.archive()); err != nil {
		return infrastructure(run.Collect, fmt.Errorf("keeping the artifacts: %w", err))
	}
	return outcome{}
}

// judge grades artifacts, and those that pass against the controls.
func (t *trial) judge(ctx context.Context, made artifacts) outcome {
	defer t.dropSpare() // before another step begins
	controls := t.controls()
	if !t.harness.Dir.Run.Options.Controls {
		controls = nil
	}
	out := t.grade(ctx, made, control{}.before(t, controls))
	if out.verdict != run.Passed {
		return out
	}
	for i, c := range controls {
		c = c.before(t, controls[i+1:])
		seen := t.gradeControl(ctx, made, c)
		if seen.verdict != "" {
			seen.reward, seen.rewards = out.reward, out.rewards
			return seen
		}
	}
	return out
}

// notice adds a notice to the trial's result.
func (t *trial) notice(format string, args ...any) {
	t.result.Notices = append(t.result.Notices, fmt.Sprintf(format, args...))
}

// record adds a phase to the result, and writes its logs.
func (t *trial) record(name run.PhaseName, detail string, r sandbox.Result, took time.Duration) step {
	p := run.Phase{
		Name: name, Step: t.step, Detail: detail, Status: r.Status, Cause: r.Cause, ExitCode: r.ExitCode, Signal: r.Signal, Message: r.Message,
		Millis: millis(took), Evidence: r.Evidence, Resources: r.Resources, Lingering: len(r.Lingering), Container: r.Container.ID, Image: r.Container.ImageDigest,
	}
	if t.aside {
		return step{result: r, phase: name}
	}
	p.Evidence.Killed = nil // by belljar, of the harness's own steps
	key, number := run.Key{Task: t.task.ID, Trial: t.number}, len(t.result.Phases)+1
	var err, errStderr error
	p.Stdout, err = t.harness.Dir.Log(key, number, string(name)+".stdout", r.Stdout)
	p.Stderr, errStderr = t.harness.Dir.Log(key, number, string(name)+".stderr", r.Stderr)
	if err = cmp.Or(err, errStderr); err != nil {
		t.notice("writing the logs of phase %s: %v", name, err)
	}
	t.result.Phases = append(t.result.Phases, p)
	return step{result: r, phase: name}
}

func millis(d time.Duration) float64 { return math.Round(d.Seconds()*1e6) / 1e3 }
