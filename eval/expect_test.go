package eval_test

import (
	"fmt"
	"strings"
	"testing"

	"belljar/eval/run"
	"belljar/eval/suite"
)

// What no command can have is the doing of who made it: a solution does not leave the denominator by that.
func TestExpectUnplaceable(t *testing.T) {
	b := engine(t)
	task := func(id string, more map[string]any) map[string]any {
		o := map[string]any{"id": id, "artifacts": []string{"."}, "command": "cat a", "expect": "42\n"}
		for key, value := range more {
			o[key] = value
		}
		return o
	}
	for _, c := range []struct {
		id     string
		answer map[string]string
		more   map[string]any
		want   run.Verdict
		side   run.Side
	}{
		{"honest", map[string]string{"a": "42\n"}, nil, run.Passed, ""},
		{"a file as a directory", map[string]string{"a": "42\n", "a/b": ""}, nil, run.Failed, run.BySolution},
		{"a long name", map[string]string{"a": "42\n", strings.Repeat("x", 300): ""}, nil, run.Failed, run.BySolution},
		{"deep", map[string]string{"a": "42\n", strings.Repeat("d/", 100) + "x": ""}, nil, run.Failed, run.BySolution},
		{"large", map[string]string{"a": "42\n", "x": strings.Repeat("x", 15<<20), "y": strings.Repeat("y", 1<<20-100)}, map[string]any{"files": map[string]string{"a": strings.Repeat("z", 100)}}, run.Passed, ""},
		{"the task's", map[string]string{"a": "42\n"}, map[string]any{"artifacts": []string{"a"}, "files": map[string]string{"f": "", "f/g": ""}}, run.Error, run.ByTask},
	} {
		tasks := load(t, task(c.id, c.more))
		list, err := suite.LoadAnswers(lines(t, map[string]any{"id": c.id, "answer": c.answer}), tasks)
		if err != nil {
			t.Fatal(err)
		}
		if r := b.run(t, run.Run{Agent: run.Agent{Kind: run.Solutions}}, tasks, list)[0]; r.Verdict != c.want || r.Side != c.side {
			t.Errorf("%s: %s of %q (%s)%s", c.id, r.Verdict, r.Side, r.Message, phases(r))
		}
	}
	many := load(t, task("many", map[string]any{"solve": "echo 42 >a; i=0; while [ $i -lt 1001 ]; do : >f$i; i=$((i+1)); done"}))
	if r := b.run(t, run.Run{Agent: run.Agent{Kind: run.Oracle}}, many, nil)[0]; r.Verdict != run.Failed || r.Side != run.BySolution || !strings.Contains(r.Message, "1002 files") {
		t.Errorf("many: %s of %q (%s)%s", r.Verdict, r.Side, r.Message, fmt.Sprint(r.Artifacts[:1]))
	}
}
