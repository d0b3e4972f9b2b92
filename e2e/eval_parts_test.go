package e2e

import (
	"os"
	"strings"
	"testing"

	"belljar/eval/run"
)

// three are tasks of which the second's own solution is wrong.
var three = []string{
	`{"id":"good1","answer":"a","solution":"42\n","command":"cat a","expect":"42\n"}`,
	`{"id":"bad","answer":"a","solution":"41\n","command":"cat a","expect":"42\n"}`,
	`{"id":"good2","answer":"a","solution":"42\n","command":"cat a","expect":"42\n"}`,
}

// verdicts are those of a run's first trials.
func (e *evaluating) verdicts(t *testing.T, out string) string {
	t.Helper()
	results, words := e.results(t, out), []string{}
	for _, task := range []string{"good1", "bad", "good2"} {
		words = append(words, string(results[run.Key{Task: task, Trial: 1}].Verdict))
	}
	return strings.Join(words, " ")
}

// A suite runs in parts, and what ran is graded again.
func TestEvalParts(t *testing.T) {
	t.Parallel()
	e, temp := evaluate(t, three...), t.TempDir()
	e.env = append(e.env, "TMPDIR="+temp) // the same test may run on another engine now
	e.run(t, 1, "run", "suite.jsonl", "--agent", "oracle", "--out", "fast", "--fail-fast", "--jobs", "1")
	if v := e.verdicts(t, "fast"); v != "passed failed skipped" {
		t.Errorf("with --fail-fast: %s", v)
	}
	e.run(t, 1, "resume", "fast")
	if v := e.verdicts(t, "fast"); v != "passed failed passed" || strings.Count(e.read(t, "fast/results.jsonl"), "\n") != 4 {
		t.Errorf("resumed: %s\n%s", v, e.read(t, "fast/results.jsonl"))
	}
	e.run(t, 0, "run", "suite.jsonl", "--agent", "oracle", "--out", "good", "--filter", "good*")
	if v := e.verdicts(t, "good"); v != "passed  passed" {
		t.Errorf("with --filter: %s", v)
	}
	e.run(t, 0, "run", "suite.jsonl", "--agent", "oracle", "--out", "1", "--shard", "1/2")
	e.run(t, 1, "run", "suite.jsonl", "--agent", "oracle", "--out", "2", "--shard", "2/2")
	if said := e.run(t, 125, "merge", "1", "good", "--out", "all"); !strings.Contains(said, "good is not a shard") {
		t.Errorf("other runs are merged: %s", said)
	}
	e.run(t, 1, "merge", "2", "1", "--out", "all", "--html", "all.html")
	if v := e.verdicts(t, "all"); v != "passed failed passed" {
		t.Errorf("merged: %s", v)
	}
	if said := e.run(t, 0, "regrade", "all"); !strings.Contains(said, "3 verdicts are the same, 0 are flaky") {
		t.Errorf("graded again: %s", said)
	}
	e.write(t, "all/results.jsonl", strings.Replace(e.read(t, "all/results.jsonl"), `"verdict":"failed"`, `"verdict":"passed"`, 1))
	if said := e.run(t, 1, "regrade", "all"); !strings.Contains(said, "flaky: bad/1 was passed and is failed now") {
		t.Errorf("graded again: %s", said)
	}
	e.write(t, "all/artifacts/good2/1.tar", strings.Replace(e.read(t, "all/artifacts/good2/1.tar"), "42\n", "43\n", 1))
	if said := e.run(t, 125, "regrade", "all", "--out", "again"); !strings.Contains(said, "not known: good2/1: artifact /work/a in") || !strings.Contains(said, "not the one that was graded") {
		t.Errorf("graded again: %s", said)
	}
	if left := e.left(t, "again"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
