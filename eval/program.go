package eval

import (
	"context"
	"time"

	"belljar/eval/run"
	"belljar/eval/suite"
	"belljar/sandbox"
)

// Program is a program of the operator's, on this host, that solves tasks.
type Program interface {
	// Solve has it work until it ends, its time is up or ctx is done. Once it returns, no process
	// of the program is left, and no one uses the Workplace.
	Solve(ctx context.Context, w Work) sandbox.Result
}

// Work is what a Program is to do.
type Work struct {
	Task    *suite.Task
	Trial   int
	Timeout time.Duration
	Place   *Workplace
}

// program has the operator's program solve the task. What it left is graded however it
// ended: only its container says what it achieved.
func (t *trial) program(ctx context.Context, b *box) outcome {
	w := Work{Task: t.task, Trial: t.number, Timeout: t.task.Agent.Timeout, Place: t.workplace(b)}
	b.solution(ctx)
	began := time.Now()
	r := t.harness.Program.Solve(ctx, w)
	s := t.record(run.Work, "", r, time.Since(began))
	switch r.Cause {
	case sandbox.CauseExited, sandbox.CauseSignaled, sandbox.CauseWallTimeout:
	default:
		return s.outcome(run.Error, run.Infrastructure, "running the agent: %s", r.Message)
	}
	if r.Message != "" {
		t.notice("the agent: %s; what it left is graded", r.Message)
	}
	if lost := w.Place.Lost(); lost != nil {
		return t.gone(ctx, b, step{result: *lost, phase: run.Work}, lost.SessionLost)
	}
	still := b.do(ctx, run.Collect, "what lingers", func(c *sandbox.Command) { c.Script = ":" })
	t.lingers(still.result.Lingering)
	if out := still.fails(run.BySolution); out.verdict == run.Error || still.lost != "" {
		return out
	}
	if why := still.result.SessionLost; why != "" {
		return t.gone(ctx, b, still, why)
	}
	return outcome{}
}

// gone is the outcome of a command with which the agent's container ended. Who is known to have ended it is not the
// solution.
func (t *trial) gone(ctx context.Context, b *box, s step, why string) outcome {
	out := s.fails(run.BySolution)
	if out.verdict == "" || out.verdict == run.Error {
		if s.result.Evidence.KilledBy != "outside" && b.isOwn(ctx) {
			out = s.outcome(run.Failed, run.BySolution, "")
		} else if out.verdict == "" { // it ran in the container that came after
			out = s.outcome(run.Error, run.Infrastructure, "")
		}
	}
	out.message = "the agent's container is gone: " + why
	return out
}
