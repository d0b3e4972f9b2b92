package eval_test

import (
	"strings"
	"testing"

	"belljar/eval"
	"belljar/eval/run"
	"belljar/eval/suite"
)

// With controls, nothing passes without them: what is not Python among the tests stays as it is, and a control that cannot be
// made is an error of the task, which says what to do.
func TestControlsThatCannotBeMade(t *testing.T) {
	b := engine(t)
	const fixture = "fixtures/old.py"
	script := func(more map[string]string) map[string]string {
		all := map[string]string{"check.py": "import sys\nsys.path.insert(0, '/work')\nfrom solution import add\nassert add(1, 2) == 3\n"}
		for name, text := range more {
			all[name] = text
		}
		return all
	}
	const honest, exits = "def add(a, b): return a + b\n", "import os; os._exit(0)\n"
	const driver = "python3 /tests/run.py"
	driven := map[string]string{ // by a program that fails with its own control whatever the others do
		"run.py": "import subprocess\nassert subprocess.run(['perl', '/tests/a.pl']).returncode == 0\n", "unused.js": "f()\n",
		"a.pl": "do '/work/solution.py';\nopen F, '/work/solution.py' or exit 1; exit 1 unless <F> =~ /add/;\n",
	}
	rows := map[string]struct {
		image, answer, check string
		tests                map[string]string
		want                 run.Verdict
		says                 string
	}{
		"a fixture, honest":  {python, honest, "python3 /tests/check.py", script(map[string]string{fixture: "print 'x'\n"}), run.Passed, ""},
		"a fixture, cheated": {python, exits, "python3 /tests/check.py", script(map[string]string{fixture: "print 'x'\n"}), run.Tampered, `"failing" passed`},
		"NUL, cheated":       {python, exits, "python3 /tests/check.py", script(map[string]string{fixture: "x\x00"}), run.Tampered, `"failing" passed`},
		"not UTF-8, cheated": {python, exits, "python3 /tests/check.py", script(map[string]string{fixture: "# coding: nosuch\n"}), run.Tampered, `"failing" passed`},
		"only __init__.py":   {python, exits, "PYTHONPATH=/work:/ python3 -m tests", map[string]string{"__init__.py": "from solution import add\nassert add(1, 2) == 3\nraise SystemExit(0)\n"}, run.Error, `"failing" cannot be made: placing the tests: exit status 94: there is no Python test to change: none of them but conftest.py`},
		"only Python 2":      {python, honest, "test -e /tests/a.py", map[string]string{"a.py": "print 'x'\n"}, run.Error, "python3 cannot read a.py"},
		"no python3":         {"belljar/base", honest, "grep -q add solution.py", map[string]string{"a.py": "x\n"}, run.Error, "the image has no python3 on PATH"},
		"no comparison":      {python, honest, "PYTHONPATH=/work python3 /tests/a.py", map[string]string{"a.py": "import solution\nsolution.add(1, 2)\n"}, run.Passed, ""},
		"another language":   {python, honest, "perl /tests/a.pl", map[string]string{"old.py": "print 'x'\n", "a.pl": "open F, '/work/solution.py' or exit 1; exit 1 unless <F> =~ /add/;\n"}, run.Passed, ""},
		"a driver, honest":   {python, honest, driver, driven, run.Passed, ""},
		"a driver, cheated":  {python, "exit(0)\n", driver, driven, run.Tampered, `control "failing .pl" passed`},
		"no script of Bash":  {python, honest, "((grep -q add solution.py) && true)", nil, run.Error, `"false" cannot be made: the script cannot be read as Bash`},
	}
	var tasks []suite.Task
	var answers []map[string]any
	for id, row := range rows {
		task := map[string]any{"id": id, "image": row.image, "answer": "solution.py", "check": row.check, "tests": row.tests}
		if row.check == driver {
			task["solution"] = honest
		}
		tasks = append(tasks, load(t, task)...)
		answers = append(answers, map[string]any{"id": id, "answer": row.answer})
	}
	list, err := suite.LoadAnswers(lines(t, answers...), tasks)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range b.runWith(t, run.Run{Agent: run.Agent{Kind: run.Solutions}}, tasks, func(h *eval.Harness) { h.Answers = list }) {
		row := rows[r.Task]
		if r.Verdict != row.want || !strings.Contains(r.Message, row.says) || r.Verdict == run.Error && (r.Side != run.ByTask || !strings.Contains(r.Message, "--no-controls")) {
			t.Errorf("%s: %s (%s), want %s %q; %+v%s", r.Task, r.Verdict, r.Message, row.want, row.says, r.Controls, phases(r))
		}
	}
}
