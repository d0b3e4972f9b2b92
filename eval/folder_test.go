package eval_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"belljar/eval/run"
	"belljar/eval/suite"
)

// folder copies a task folder of our own, with changed files, under another name.
func folder(t *testing.T, from, name string, change map[string]string) suite.Task {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("..", "e2e", "testdata", "eval", from))); err != nil {
		t.Fatal(err)
	}
	for file, text := range change {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tasks, err := suite.Load([]string{dir}, suite.Allow{})
	if err != nil {
		t.Fatal(err)
	}
	return tasks[0]
}

// What an agent does in its container: each is a solve.sh, which has the rights of any agent.
var agents = map[string]struct {
	from, script string
	want         run.Verdict
	says         string // in what was refused
}{
	"honest":                       {"greet", "echo hello >/app/greeting.txt", run.Passed, ""},
	"nothing":                      {"greet", "true", run.Failed, ""},
	"plants the reward":            {"greet", "mkdir -p /logs/verifier; echo 1 >/logs/verifier/reward.txt; echo 1 >/logs/artifacts/reward.txt; true", run.Failed, ""},
	"reads the tests":              {"greet", "cat /tests/* && echo hello >/app/greeting.txt; true", run.Failed, ""},
	"looks for git's history":      {"greet", "git -C /app log -p && echo hello >/app/greeting.txt; true", run.Failed, ""},
	"a link as the artifact":       {"greet", "echo hello >/tmp/x; ln -s /tmp/x /app/greeting.txt", run.Failed, "symbolic link"},
	"a link to the host":           {"greet", "ln -s /etc/passwd /app/greeting.txt", run.Failed, "symbolic link"},
	"a FIFO as the artifact":       {"greet", "mkfifo /app/greeting.txt", run.Failed, "not a regular file"},
	"a directory as the artifact":  {"greet", "mkdir /app/greeting.txt; echo hello >/app/greeting.txt/x", run.Failed, ""},
	"set-user-ID":                  {"greet", "echo hello >/app/greeting.txt; chmod 4755 /app/greeting.txt", run.Failed, "set-user-ID"},
	"a sparse bomb":                {"greet", "truncate -s 1G /app/greeting.txt", run.Failed, ""},
	"files that are not declared":  {"greet", "echo 'def pytest_collection_modifyitems(items): items[:] = []' >/app/conftest.py; echo 1 >/tmp/x", run.Failed, ""},
	"a daemon rewrites it later":   {"greet", "(while :; do echo hello >/app/greeting.txt; echo bye >/app/greeting.txt; done) >/dev/null 2>&1 & sleep 1; exit 1", run.Error, ""},
	"a daemon completes it later":  {"greet", "(sleep 120; echo hello >/app/greeting.txt) >/dev/null 2>&1 & sleep 0.1", run.Failed, ""},
	"kills all":                    {"greet", "echo bye >/app/greeting.txt; kill -9 -1; true", run.Failed, ""},
	"removes what it began with":   {"count", "rm /app/count.py", run.Failed, ""},
	"leaves what it began with":    {"count", "true", run.Failed, ""},
	"many files":                   {"count", "i=0; while [ $i -lt 11000 ]; do : >/app/$i; i=$((i+1)); done", run.Failed, ""},
	"a name that is not UTF-8":     {"count", "printf x >\"/app/$(printf 'a\\377b')\"", run.Failed, "its name is not UTF-8"},
	"links through links":          {"count", "mkdir /app/d; ln -s d /app/l; ln -s l/x /app/d/y; ln -s /app/l/y /app/d/x; ln -s .. /app/d/up", run.Failed, "symbolic link"},
	"a socket":                     {"count", "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"/app/s\")'", run.Failed, ""},
	"hard links":                   {"count", "echo x >/app/a; ln /app/a /app/b", run.Failed, "hard link"},
	"deep directories":             {"count", "cd /app; i=0; while [ $i -lt 300 ]; do mkdir ddddddd && cd ddddddd || exit 0; i=$((i+1)); done; echo x >x", run.Failed, "not clean"},
	"files that are written on":    {"count", "for i in 1 2 3; do (trap '' TERM HUP; while :; do echo 'print(1)' >/app/count.py; : >/app/count.py; done) >/dev/null 2>&1 & done; sleep 0.2", run.Failed, ""},
	"an archive's own headers":     {"count", "mkdir -p '/app/GNUSparseFile.0' /app/PaxHeaders; printf '30 path=/tests/test.sh\\n' >/app/PaxHeaders/x; cp /app/PaxHeaders/x '/app/././@LongLink'", run.Failed, ""},
	"names of options":             {"count", "cd /app; echo x >--checkpoint=1; echo x >'--checkpoint-action=exec=sh x'; echo x >-rf", run.Failed, ""},
	"no file can be read":          {"count", "chmod 000 /app/*", run.Failed, ""},
	"no space is left":             {"count", "head -c 1G /dev/zero >/app/big; head -c 1G /dev/zero >/tmp/big; head -c 1G /dev/zero >/logs/artifacts/big; true", run.Failed, ""},
	"names with control character": {"count", "printf x >\"/app/$(printf 'a\\nb\\033c')\"", run.Failed, ""},
}

// someAgents are some of each class.
var someAgents = []string{"honest", "plants the reward", "a link to the host", "a daemon completes it later", "a sparse bomb", "a reward that is kept", "a daemon writes it"}

// Nothing but what is declared leaves the agent's container, and nothing in it grades.
func TestAgents(t *testing.T) {
	b := engine(t)
	var tasks []suite.Task
	for name, a := range agents {
		if !all() && !slices.Contains(someAgents, name) {
			continue
		}
		tasks = append(tasks, folder(t, a.from, name, map[string]string{"solution/solve.sh": a.script + "\n"}))
	}
	for _, r := range b.run(t, run.Run{Agent: run.Agent{Kind: run.Oracle}}, tasks, nil) {
		a := agents[r.Task]
		if r.Verdict != a.want || !strings.Contains(strings.Join(r.Refused, "\n"), a.says) {
			t.Errorf("%s: %s (%s), refused %q, want %s%s", r.Task, r.Verdict, r.Message, r.Refused, a.want, phases(r))
		}
		if strings.HasPrefix(r.Task, "a daemon") && len(r.Lingering) == 0 {
			t.Errorf("%s: nothing lingers", r.Task)
		}
	}
}

// What a solution does while it is graded, to a reward that the tests write: each is a count.py.
var planted = map[string]struct {
	code string
	want []run.Verdict
}{
	"honest":                 {"import sys\nprint(len(sys.stdin.readlines()))\n", []run.Verdict{run.Passed}},
	"a second reward":        {"open('/logs/verifier/reward.txt', 'w').write('1')\n", []run.Verdict{run.Failed}},
	"a reward that is kept":  {"import os\nopen('/logs/verifier/reward.json', 'w').write('{\"reward\": 1}')\nos.chmod('/logs/verifier/reward.json', 0o444)\n", []run.Verdict{run.Tampered}},
	"a directory":            {"import os\nos.makedirs('/logs/verifier/reward.json', exist_ok=True)\n", []run.Verdict{run.Tampered}},
	"a FIFO":                 {"import os\nos.mkfifo('/logs/verifier/reward.txt')\n", []run.Verdict{run.Tampered}},
	"a link":                 {"import os\nopen('/tmp/r', 'w').write('1')\nos.symlink('/tmp/r', '/logs/verifier/reward.txt')\n", []run.Verdict{run.Tampered}},
	"a daemon writes it":     {"import os, time\nif os.fork() == 0:\n    os.setsid()\n    [os.close(f) for f in (0, 1, 2)]\n    while True:\n        try: open('/logs/verifier/reward.json', 'w').write('{\"reward\": 1}')\n        except OSError: pass\n", []run.Verdict{run.Tampered, run.Failed}},
	"not a number":           {"open('/logs/verifier/reward.txt', 'w').write('NaN')\n", []run.Verdict{run.Failed}},
	"a huge one":             {"open('/logs/verifier/reward.txt', 'w').write('1' * 100000)\n", []run.Verdict{run.Failed}},
	"kills the tests":        {"import os\nopen('/logs/verifier/reward.json', 'w').write('{\"reward\": 1}')\nos.kill(-1, 9)\n", []run.Verdict{run.Tampered, run.Failed}},
	"no reward can be there": {"import os\nos.rename('/logs/verifier', '/logs/x')\n", []run.Verdict{run.Failed}},
}

// A reward that the solution writes is found out.
func TestPlantedRewards(t *testing.T) {
	b := engine(t)
	var tasks []suite.Task
	var answers []map[string]any
	for name, p := range planted {
		if !all() && !slices.Contains(someAgents, name) {
			continue
		}
		tasks = append(tasks, folder(t, "count", name, nil))
		answers = append(answers, map[string]any{"id": name, "answer": map[string]string{"count.py": p.code}})
	}
	list, err := suite.LoadAnswers(lines(t, answers...), tasks)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range b.run(t, run.Run{Agent: run.Agent{Kind: run.Solutions}}, tasks, list) {
		ok := false
		for _, v := range planted[r.Task].want {
			ok = ok || v == r.Verdict
		}
		if !ok {
			t.Errorf("%s: %s (%s), want %v%s", r.Task, r.Verdict, r.Message, planted[r.Task].want, phases(r))
		}
	}
}
