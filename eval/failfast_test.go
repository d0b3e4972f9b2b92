package eval_test

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"belljar/eval"
	"belljar/eval/run"
	"belljar/eval/suite"
	"belljar/sandbox"
)

// holding is a Runner with which the artifacts of one task have begun to come, but not more, when the other's are taken.
type holding struct {
	eval.Runner
	began chan struct{}
	once  sync.Once
}

func (h *holding) Start(ctx context.Context, c sandbox.Command) (sandbox.Execution, error) {
	if strings.Contains(c.Script, "exec tar -cf -") {
		if strings.Contains(c.Description, "task held") {
			c.Script = "printf x; sleep 1000"
			h.once.Do(func() { close(h.began) })
		} else {
			<-h.began
		}
	}
	return h.Runner.Start(ctx, c)
}

// A trial that is cut off because another did not pass is skipped: it neither failed, nor did the infrastructure.
func TestFailFastCutsOff(t *testing.T) {
	b := engine(t)
	task := func(id string) map[string]any {
		return map[string]any{"id": id, "image": python, "answer": "a", "solve": "echo 41 >a", "check": "test $(cat a) = 42"}
	}
	h := &holding{Runner: b.runner, began: make(chan struct{})}
	for _, r := range b.runWith(t, run.Run{Agent: run.Agent{Kind: run.Oracle}}, load(t, task("held"), task("fails")), func(e *eval.Harness) { e.Runner, e.FailFast, e.Jobs = h, true, 2 }) {
		if want := map[string]run.Verdict{"held": run.Skipped, "fails": run.Failed}[r.Task]; r.Verdict != want || want == run.Skipped && r.Side != "" {
			t.Errorf("%s: %s of %q (%s)%s", r.Task, r.Verdict, r.Side, r.Message, phases(r))
		}
	}
}

// A result that cannot be written ends the run with an error, also once the rest is skipped: a run without results did not pass.
func TestFailFastCannotWrite(t *testing.T) {
	b := engine(t)
	tasks := load(t, map[string]any{"id": "fails", "answer": "a", "command": "cat a", "expect": "42"}, map[string]any{"id": "next", "answer": "a", "command": "cat a", "expect": "42"})
	dir, err := run.Create(filepath.Join(t.TempDir(), "run"), run.Run{Version: run.Version, ID: b.id(t), Trials: 1, Agent: run.Agent{Kind: run.Nop}})
	if err != nil {
		t.Fatal(err)
	}
	dir.Close() // as on a full disk, nothing more can be written
	h := b.harness(tasks)
	h.Dir, h.FailFast = dir, true
	if err := h.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "writing a result") {
		t.Errorf("error %v", err)
	}
}

// Names in an answer are the solution's: whatever they are, the run goes on, and can be read.
func TestLongNames(t *testing.T) {
	b := engine(t)
	long := strings.Repeat("x", 17<<20)
	many := map[string]string{"a": "42"}
	for i := range 500 {
		many[strings.Repeat("y", 300)+strings.Repeat("z", i)] = ""
	}
	tasks := load(t, map[string]any{"id": "long", "answer": "a", "command": "cat a", "expect": "42"}, map[string]any{"id": "many", "answer": "a", "command": "cat a", "expect": "42"})
	answers, err := suite.LoadAnswers(lines(t, map[string]any{"id": "long", "answer": map[string]string{long: "x"}}, map[string]any{"id": "many", "answer": many}), tasks)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range b.run(t, run.Run{Agent: run.Agent{Kind: run.Solutions}}, tasks, answers) {
		want := map[string]run.Verdict{"long": run.Failed, "many": run.Passed}[r.Task]
		if r.Verdict != want || len(r.Message) > 1000 || len(strings.Join(r.Refused, "")) > 20*400 {
			t.Errorf("%s: %s (%.1000s), %d refused", r.Task, r.Verdict, r.Message, len(r.Refused))
		}
	}
}
