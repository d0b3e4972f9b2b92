package eval_test

import (
	"context"
	"strings"
	"testing"

	"belljar/eval"
	"belljar/eval/run"
	"belljar/eval/suite"
	"belljar/sandbox"
)

// loses is a program after which its container is gone, or all of the run's are.
type loses struct {
	runner eval.Runner
	all    bool
	goes   bool // on, with a command that then has another container
	writes string
	tries  int
}

func (l *loses) Solve(ctx context.Context, w eval.Work) sandbox.Result {
	c := sandbox.Command{Script: l.writes}
	x, err := w.Place.Start(ctx, c)
	if err != nil {
		return sandbox.Refused(c, err)
	}
	r, _ := x.Wait()
	if l.tries++; l.tries > 1 {
		return r
	}
	list, _ := l.runner.Sessions(ctx)
	for _, s := range list {
		if s.Name == w.Place.Session() || l.all && strings.HasPrefix(s.Name, "eval-testlost-") {
			l.runner.RemoveSession(ctx, s.Name)
		}
	}
	if l.goes {
		if x, err = w.Place.Start(ctx, c); err != nil {
			return sandbox.Refused(c, err)
		}
		r, _ = x.Wait()
		r.SessionLost = "its container was ended" // who removes it by name is not told so
		w.Place.Ended(r)
	}
	return r
}

// What the agent left in its container can end it. That is no way out of the denominator: only what other containers lose, too,
// such as with their engine, is the infrastructure's.
func TestLostByTheSolution(t *testing.T) {
	b := engine(t)
	task := load(t, map[string]any{"id": "lost", "image": python, "answer": "a", "check": "test $(cat a) = 42"})
	for all, want := range map[bool]struct {
		verdict run.Verdict
		attempt int
	}{false: {run.Failed, 1}, true: {run.Passed, 2}} {
		for _, goes := range []bool{false, true} {
			program := &loses{runner: b.runner, all: all, goes: goes, writes: "echo 42 >a"}
			r := b.runWith(t, run.Run{Agent: run.Agent{Kind: run.Program}}, task, func(h *eval.Harness) { h.Program = program })[0]
			if r.Verdict != want.verdict || r.Attempt != want.attempt || r.Verdict == run.Failed && r.Side != run.BySolution {
				t.Errorf("all are gone: %t, and it goes on: %t: %s of %q (%s) in attempt %d%s", all, goes, r.Verdict, r.Side, r.Message, r.Attempt, phases(r))
			}
		}
	}
}

// In a container in which the agent worked, what the next step brings may find no room: that is the agent's doing.
func TestStepsAfterAnAgent(t *testing.T) {
	b := engine(t)
	task := folder(t, "steps", "blocked", nil)
	program := &loses{runner: b.runner, writes: `echo 'print("hello")' >hello.py; mkdir -p names.txt/x`, tries: 1}
	r := b.runWith(t, run.Run{Agent: run.Agent{Kind: run.Program}}, []suite.Task{task}, func(h *eval.Harness) { h.Program = program })[0]
	if r.Verdict != run.Failed || r.Side != run.BySolution || !strings.Contains(r.Message, "writing the task's files") {
		t.Errorf("%s of %q (%s)%s", r.Verdict, r.Side, r.Message, phases(r))
	}
}
