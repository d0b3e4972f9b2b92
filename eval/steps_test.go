package eval_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"belljar/eval"
	"belljar/eval/run"
	"belljar/eval/suite"
	"belljar/sandbox"
)

// taskIn writes a task folder of a few files, and reads it.
func taskIn(t *testing.T, name string, allow suite.Allow, files map[string]string) suite.Task {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	for file, text := range files {
		at := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tasks, err := suite.Load([]string{dir}, allow)
	if err != nil {
		t.Fatal(err)
	}
	return tasks[0]
}

const noNetwork = "[environment]\ndocker_image = \"" + python + "\"\nnetwork_mode = \"no-network\"\n"

// A task of several steps: each is graded on its own, in a new container, and the mean is its reward. A task that is graded in the agent's container is unsealed.
func TestSteps(t *testing.T) {
	b := engine(t)
	tasks := []suite.Task{
		folder(t, "steps", "all", nil),
		folder(t, "steps", "second fails", map[string]string{"steps/extend/solution/solve.sh": "echo x >/tmp/notes\n"}),
		taskIn(t, "shared", suite.Allow{Shared: true}, map[string]string{
			"task.toml":         noNetwork + "[verifier]\nenvironment_mode = \"shared\"\n",
			"tests/test.sh":     "grep -q hello /tmp/left && echo 1 >/logs/verifier/reward.txt\n",
			"solution/solve.sh": "echo hello >/tmp/left; echo 'echo 0 >/logs/verifier/reward.txt' >/tests/test.sh\n",
		}),
	}
	want := map[string]struct {
		verdict run.Verdict
		reward  float64
		steps   int
		says    string
	}{
		"all": {run.Passed, 1, 2, ""}, "second fails": {run.Failed, 0.5, 2, "step extend"}, "shared": {run.Passed, 1, 0, ""},
	}
	for _, r := range b.run(t, run.Run{Agent: run.Agent{Kind: run.Oracle}}, tasks, nil) {
		w := want[r.Task]
		if r.Verdict != w.verdict || r.Reward == nil || *r.Reward != w.reward || len(r.Steps) != w.steps || !strings.Contains(r.Message, w.says) || r.Sealed == (r.Task == "shared") {
			t.Errorf("%s: %s (%s), reward %v, %d steps, sealed %v, want %+v%s", r.Task, r.Verdict, r.Message, r.Reward, len(r.Steps), r.Sealed, w, phases(r))
		}
		if r.Task == "all" && (len(r.Artifacts) != 3 || r.Artifacts[0].Path != "/steps/write/app/hello.py" || r.Artifacts[2].Path != "/steps/extend/logs/artifacts/notes") {
			t.Errorf("artifacts %+v", r.Artifacts)
		}
	}
}

// What the steps made is graded again as it was, up to where a task ended.
func TestStepsAgain(t *testing.T) {
	b := engine(t)
	tasks := []suite.Task{folder(t, "steps", "second fails", map[string]string{"steps/extend/solution/solve.sh": "echo x >/tmp/notes\n"}), folder(t, "steps", "first fails", map[string]string{"steps/write/solution/solve.sh": "true\n"})}
	var first *run.Dir
	was := b.runWith(t, run.Run{Agent: run.Agent{Kind: run.Oracle}}, tasks, func(h *eval.Harness) { first = h.Dir })
	is := b.runWith(t, run.Run{Agent: run.Agent{Kind: run.Regrade}}, tasks, func(h *eval.Harness) { h.Earlier = first })
	for _, a := range was {
		for _, b := range is {
			if a.Task == b.Task && (b.Verdict != run.Failed || b.Message != a.Message || *b.Reward != *a.Reward || len(b.Steps) != len(a.Steps)) {
				t.Errorf("%s: %s (%s) with %d steps, was %s (%s) with %d%s", b.Task, b.Verdict, b.Message, len(b.Steps), a.Verdict, a.Message, len(a.Steps), phases(b))
			}
		}
	}
}

// Only what was graded is graded again: not the steps that did not run, though the one before them reaches what they need now, nor
// a trial that the infrastructure or a step's own agent ended before. That is another verdict of no one.
func TestStepsNotAgain(t *testing.T) {
	b := engine(t)
	regrade := func(first *run.Dir, tasks ...suite.Task) run.Result {
		return b.runWith(t, run.Run{Agent: run.Agent{Kind: run.Regrade}}, tasks, func(h *eval.Harness) { h.Earlier = first })[0]
	}
	solve := func(task suite.Task) (first *run.Dir, r run.Result) {
		r = b.runWith(t, run.Run{Agent: run.Agent{Kind: run.Oracle}}, []suite.Task{task}, func(h *eval.Harness) { first = h.Dir })[0]
		return first, r
	}
	writes, fails := "steps/write/solution/solve.sh", "steps/extend/solution/solve.sh"
	first, was := solve(folder(t, "steps", "one", map[string]string{writes: "echo 'print(1)' >/app/hello.py\n"}))
	easier := folder(t, "steps", "one", map[string]string{"steps/write/tests/test.sh": "python3 /app/hello.py && echo 1 >/logs/verifier/reward.txt\n"})
	if r := regrade(first, easier); len(was.Steps) != 1 || len(r.Steps) != 1 || r.Steps[0].Verdict != run.Passed || r.Verdict != run.Failed || r.Message != "step write was the last that ran (1 of 2 steps ran)" {
		t.Errorf("%s (%s) with %d steps, was %s (%s) with %d%s", r.Verdict, r.Message, len(r.Steps), was.Verdict, was.Message, len(was.Steps), phases(r))
	}
	task := folder(t, "steps", "two", map[string]string{fails: "exit 3\n"})
	first, was = solve(task)
	if r := regrade(first, task); was.Verdict != run.Error || len(was.Steps) != 2 || r.Verdict != run.Skipped || !strings.Contains(r.Message, "step extend") {
		t.Errorf("%s (%s), was %s (%s) with %d steps%s", r.Verdict, r.Message, was.Verdict, was.Message, len(was.Steps), phases(r))
	}
	task = folder(t, "steps", "all", nil)
	first, was = solve(task)
	was.Verdict, was.Side, was.Phase, was.Message = run.Error, run.Infrastructure, run.Check, "the engine ended"
	line, err := sandbox.JSON(was)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(first.Path, run.ResultsFile), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(append(line, '\n')); err != nil || f.Close() != nil {
		t.Fatal(err)
	}
	if r := regrade(first, task); r.Verdict != run.Skipped || !strings.Contains(r.Message, "the engine ended") {
		t.Errorf("%s (%s)%s", r.Verdict, r.Message, phases(r))
	}
}

// A task that works where only root can has a root user and a writable root, where the engine contains
// them; else it is refused before anything runs.
func TestRoot(t *testing.T) {
	b := engine(t)
	task := taskIn(t, "root", suite.Allow{}, map[string]string{
		"task.toml":         "artifacts = [\"/etc/motd\"]\n" + noNetwork + "workdir = \"/root\"\nstorage_mb = 32\n",
		"tests/test.sh":     "[ \"$(cat /etc/motd)\" = 0 ] && [ ! -e /usr/bin/left ] && echo 1 >/logs/verifier/reward.txt\n",
		"solution/solve.sh": "id -u >/etc/motd; touch /usr/bin/left; ! head -c 64M /dev/zero >/root/big\n",
	})
	if err := b.refuse(t, []suite.Task{task}); err != nil {
		if !strings.Contains(err.Error(), "needs a root user") {
			t.Error(err)
		}
		return
	}
	r := b.run(t, run.Run{Agent: run.Agent{Kind: run.Oracle}}, []suite.Task{task}, nil)[0]
	if r.Verdict != run.Passed || !r.Sealed {
		t.Errorf("%s: %s%s", r.Verdict, r.Message, phases(r))
	}
	for _, c := range r.Controls {
		if c.Passed || c.Skipped != "" {
			t.Errorf("control %s says nothing: %s", c.Name, c.Skipped)
		}
	}
}
