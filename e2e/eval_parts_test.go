package e2e

import (
	"os"
	"path/filepath"
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

// What shards have in common is that of the whole suite: their answers, and the settings, which depend on all tasks. The images
// of verifiers belong to a run as those of agents.
func TestEvalShardsDiffer(t *testing.T) {
	t.Parallel()
	e := evaluate(t, append(three, `{"id":"slow","answer":"a","solution":"42\n","command":"cat a","expect":"42\n","timeout":7200}`)...)
	if err := os.Mkdir(e.dir+"/answers", 0o700); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"good1", "bad", "good2", "slow"} {
		e.write(t, "answers/"+id, "42\n")
	}
	e.run(t, 0, "run", "suite.jsonl", "--solutions", "answers", "--out", "1", "--shard", "1/2")
	e.run(t, 0, "run", "suite.jsonl", "--solutions", "answers", "--out", "2", "--shard", "2/2")
	e.run(t, 0, "merge", "1", "2", "--out", "all")
	for name, text := range map[string]string{
		"task.toml": "[environment]\ndocker_image = \"belljar/base\"\n[verifier.environment]\ndocker_image = \"belljar/nosuch\"\n", "tests/test.sh": "true\n", "instruction.md": "x\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(e.dir, "folder", name)), 0o700); err != nil {
			t.Fatal(err)
		}
		e.write(t, "folder/"+name, text)
	}
	e.run(t, 125, "run", "folder", "--agent", "nop", "--out", "verifier")
	if text := e.read(t, "verifier/run.json"); !strings.Contains(text, `"name": "belljar/nosuch"`) {
		t.Errorf("no verifier's image in %s", text)
	}
	for _, command := range []string{"check", "regrade"} {
		if said := e.run(t, 125, command, "all", "--fail-fast"); !strings.Contains(said, "unknown flag") {
			t.Errorf("%s --fail-fast: %s", command, said)
		}
	}
}

// A run's directory may come from anywhere: no program of its runs on this host unless its operator says so.
func TestEvalResumeAnothers(t *testing.T) {
	t.Parallel()
	e := evaluate(t, three[0])
	e.write(t, "agent.sh", "#!/bin/sh\ntouch \"$0.ran\"\n")
	e.run(t, 1, "run", "suite.jsonl", "--out", "out", "--", "./agent.sh")
	e.write(t, "out/results.jsonl", "")
	if err := os.Remove(e.dir + "/agent.sh.ran"); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"out"}, {"out", "--", "./agent.sh", "more"}} {
		if said := e.run(t, 125, append([]string{"resume"}, args...)...); !strings.Contains(said, `the run's agent is the program ["./agent.sh"]`) {
			t.Errorf("%q: %s", args, said)
		}
	}
	e.write(t, "out/run.json", strings.Replace(e.read(t, "out/run.json"), `"belljar": "belljar `, `"belljar": "belljar other`, 1))
	if said := e.run(t, 125, "resume", "out", "--", "./agent.sh"); !strings.Contains(said, "use the belljar that began it") {
		t.Errorf("another version: %s", said)
	}
	e.write(t, "out/run.json", strings.Replace(e.read(t, "out/run.json"), `"belljar": "belljar other`, `"belljar": "belljar `, 1))
	if _, err := os.Stat(e.dir + "/agent.sh.ran"); err == nil {
		t.Error("the program ran")
	}
	e.run(t, 1, "resume", "out", "--", "./agent.sh")
	if _, err := os.Stat(e.dir + "/agent.sh.ran"); err != nil {
		t.Errorf("the program did not run: %v", err)
	}
	plain := e.read(t, "out/run.json")
	for _, option := range []string{"build", "network"} {
		flag := "--allow-" + option
		e.write(t, "out/run.json", strings.Replace(plain, `"allow_shared": false`, `"allow_shared": false, "allow_`+option+`": true`, 1))
		for command, args := range map[string][]string{"resume": {"--", "./agent.sh"}, "regrade": nil} {
			if said := e.run(t, 125, append([]string{command, "out"}, args...)...); !strings.Contains(said, "the run was begun with "+flag) {
				t.Errorf("%s: %s", command, said)
			}
		}
		e.run(t, 1, "resume", "out", flag, "--", "./agent.sh")
		e.write(t, "out/run.json", plain)
		if said := e.run(t, 125, "regrade", "out", flag); !strings.Contains(said, "the run was begun without "+flag) {
			t.Errorf("regrade: %s", said)
		}
	}
}
