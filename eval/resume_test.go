package eval_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"belljar/eval"
	"belljar/eval/run"
	"belljar/sandbox"
)

// A run that was ended is continued: nothing that has a result runs again, and what is left of a
// run whose belljar was killed is removed.
func TestContinued(t *testing.T) {
	b := engine(t)
	var objects []map[string]any
	r := run.Run{Version: run.Version, ID: "continued", Trials: 1, Agent: run.Agent{Kind: run.Oracle}}
	for i := range 4 {
		objects = append(objects, map[string]any{"id": fmt.Sprint(i), "answer": "a", "solution": "42\n", "command": "cat a", "expect": "42\n"})
	}
	tasks := load(t, objects...)
	path := filepath.Join(t.TempDir(), "run")
	dir, err := run.Create(path, r)
	if err != nil {
		t.Fatal(err)
	}
	b.config.Profiles[sandbox.DefaultProfile] = eval.Profile(b.config.Profiles[sandbox.DefaultProfile], tasks)
	left := sandbox.Command{Script: "sleep 1000 >/dev/null 2>&1 &", Session: "eval-continued-left"}
	if _, err := sandbox.Run(t.Context(), b.runner, left); err != nil { // as a killed belljar leaves it
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := func(r run.Result) {
		if r.Task == "1" {
			cancel()
		}
	}
	h := &eval.Harness{Runner: b.runner, Profile: sandbox.DefaultProfile, Dir: dir, Tasks: tasks, Watch: eval.Watch{Ended: ended}}
	if err := h.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a run that was ended: %v", err)
	}
	dir.Close()
	if dir, err = run.Continue(path); err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	var again []string
	h = &eval.Harness{Runner: b.runner, Profile: sandbox.DefaultProfile, Dir: dir, Tasks: tasks, Watch: eval.Watch{Ended: func(r run.Result) { again = append(again, r.Task) }}}
	if err := h.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	results, err := dir.Results()
	if err != nil || len(results) != len(tasks) || strings.Join(again, " ") != "2 3" {
		t.Errorf("%d results, and %q ran again: %v", len(results), again, err)
	}
	for _, r := range results {
		if r.Verdict != run.Passed {
			t.Errorf("task %s: %s (%s)", r.Task, r.Verdict, r.Message)
		}
	}
}
