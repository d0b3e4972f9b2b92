package suite

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"belljar/eval/run"
)

func write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestLinesThatAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		`{"id":"a"}`:              "no answer",
		`{"id":"a","answer":"x"}`: "either check or expect",
		`{"id":"a","answer":"x","check":"c","expect":"e"}`:                     "either check or expect",
		`{"id":"a","answer":"x","check":"c","stdin":"e"}`:                      "belong to expect",
		`{"id":"a","answer":"x","expect":"e"}`:                                 "expect needs command",
		`{"id":"a","answer":"x","expect":"e","command":"c","tests":{"a":"b"}}`: "no tests",
		`{"id":"a","answer":"x","expect":3,"command":"c"}`:                     "expect is neither",
		`{"id":"a","answer":"x","expect":"e","command":"c","match":"some"}`:    `match "some"`,
		`{"id":"a","answer":"x","check":"c","new":1}`:                          `unknown field "new"`,
		`{"id":"a","answer":"x","check":"c","timeout":-1}`:                     "timeout -1",
		`{"id":"a","answer":"x","check":"c","timeout":0.1}`:                    "too short",
		`{"id":"a","answer":"x","check":"c","memory_mb":-1}`:                   "memory_mb -1",
		`{"id":"a","answer":"../../etc/x","check":"c"}`:                        "directory of the system",
		`{"id":"a","answer":"../tests/x","check":"c"}`:                         "overlaps /tests",
		`{"id":"a","answer":"x","check":"c","files":{"../etc/x":""}}`:          "no clean path",
		`{"id":"a","answer":"x","check":"c","tests":{"../x":""}}`:              "no clean path",
		`{"id":"a","artifacts":["x"],"check":"c","solution":"text"}`:           "does not say which file",
		`{"id":"","answer":"x","check":"c"}`:                                   "task id",
		`{"id":"a\u0007","answer":"x","check":"c"}`:                            "task id",
		`[]`: "reading a task",
		`{"id":"a","answer":"x","check":"c"}` + "\n" + `{"id":"a","answer":"x","check":"c"}`: "same id",
		"": "there is no task",
		`{"id":"a","answer":"x","check":"c"}{"id":"b","answer":"x","check":"c"}`:               "after top-level value",
		`{"id":"a","answer":"x","check":"true","check":"c"}`:                                   `"check" is there twice`,
		`{"id":"a","answer":"x","check":"true","Check":"c"}`:                                   `"Check" is there twice`,
		`{"id":"a","answer":"x","check":"c","tests":{"t":"1","t":"2"}}`:                        `"t" is there twice`,
		"{\"id\":\"a\",\"answer\":\"x\",\"check\":\"\xe9\"}":                                   "invalid UTF-8",
		`{"id":"a","answer":"x","check":"c","cpus":1e300}`:                                     "out of range",
		`{"id":"a","answer":"x","check":"c","timeout":1e300}`:                                  "out of range",
		`{"id":"a","answer":"x","check":"c","memory_mb":9223372036854775807}`:                  "out of range",
		`{"id":"Ä","answer":"x","check":"c"}`:                                                  "printable ASCII",
		`{"id":"a","answer":"x","expect":null,"command":"c"}`:                                  "expect is neither",
		`{"id":"a","answer":"x","expect":[{"stdin":"1"}],"command":"c"}`:                       "has no stdout",
		`{"id":"a","answer":"x","expect":[null],"command":"c"}`:                                "has no stdout",
		`{"id":"a","answer":"x","check":"c","files":{"` + strings.Repeat("x", 1001) + `":""}}`: "at most 1000 bytes",
	} {
		if _, err := Load([]string{write(t, "t.jsonl", text)}, Allow{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, err := Load([]string{"/nosuch"}, Allow{}); err == nil {
		t.Error("a suite that is not there")
	}
}

// A suite may come from any editor: with a byte order mark, blank lines and other ends of lines.
func TestLinesThatAreOdd(t *testing.T) {
	one := `{"id":"a","answer":"x","check":"c"}`
	tasks, err := Load([]string{write(t, "t.jsonl", "\uFEFF"+one+"\r\n\r\n  \n{\"id\":\"A\",\"answer\":\"x\",\"command\":\"c\",\"expect\":\"\\u00e9\\u0000\\r\\n\"}")}, Allow{})
	if err != nil || len(tasks) != 2 || tasks[1].ID != "A" || tasks[1].Grader.Cases[0].Stdout != "\u00e9\x00\r\n" {
		t.Errorf("%+v, %v", tasks, err)
	}
	if _, err := Load([]string{write(t, "t.jsonl", one+"\n"+strings.Repeat(" ", maxLine+1))}, Allow{}); err == nil || !strings.Contains(err.Error(), "has a line of more than 32 MiB") {
		t.Errorf("a line without an end: %v", err)
	}
}

func TestAnswers(t *testing.T) {
	tasks, err := Load([]string{write(t, "t.jsonl", `{"id":"a/1","answer":"x.py","check":"c"}`+"\n"+`{"id":"b","answer":"x.py","check":"c"}`)}, Allow{})
	if err != nil {
		t.Fatal(err)
	}
	answers, err := LoadAnswers(write(t, "a.jsonl", `{"id":"a/1","answer":"one"}`+"\n"+`{"task_id":"a/1","completion":"two"}`), tasks)
	if err != nil {
		t.Fatal(err)
	}
	for trial, want := range []string{"one", "two"} {
		files, found, err := answers.Of(tasks[0], trial+1)
		if err != nil || !found || string(files[0].Content) != want || files[0].Path != "/work/x.py" {
			t.Errorf("trial %d: %v %v %v", trial+1, files, found, err)
		}
	}
	if _, found, _ := answers.Of(tasks[0], 3); found {
		t.Error("a third answer")
	}
	dir := t.TempDir()
	os.MkdirAll(filepath.Join(dir, "a", "1", "sub"), 0o700)
	os.WriteFile(filepath.Join(dir, "a", "1", "sub", "y"), []byte("y"), 0o600)
	os.WriteFile(filepath.Join(dir, "b"), []byte("text"), 0o600)
	if answers, err = LoadAnswers(dir, tasks); err != nil {
		t.Fatal(err)
	}
	if files, _, err := answers.Of(tasks[0], 1); err != nil || len(files) != 1 || files[0].Path != "/work/sub/y" {
		t.Errorf("a directory: %v %v", files, err)
	}
	if files, _, err := answers.Of(tasks[1], 1); err != nil || len(files) != 1 || files[0].Path != "/work/x.py" || string(files[0].Content) != "text" {
		t.Errorf("a file: %v %v", files, err)
	}
	was := answers.SHA256
	os.Symlink("/etc/passwd", filepath.Join(dir, "a", "1", "link"))
	os.Mkdir(filepath.Join(dir, "empty"), 0o700)
	for _, b := range []string{"empty", "a", "nowhere", "/etc/passwd"} { // one answer is wrong, and not the others
		os.Remove(filepath.Join(dir, "b"))
		os.Symlink(b, filepath.Join(dir, "b"))
		if answers, err = LoadAnswers(dir, tasks); err != nil || answers.SHA256 == was {
			t.Fatalf("a link to %q: %v", b, err)
		}
		for _, task := range tasks[:2] {
			if _, found, err := answers.Of(task, 1); !found || err == nil || !strings.Contains(err.Error(), "not a regular file") {
				t.Errorf("a link to %q: task %q: %t, %v", b, task.ID, found, err)
			}
		}
	}
}

func TestScripts(t *testing.T) {
	for text, want := range map[string][2]string{ // with false, and failing
		"python3 -m pytest -q":              {"false", ""},
		"cd /x\npytest a && echo ok":        {"cd /x\nfalse && echo ok", ""},
		"if pytest -q; then echo 1; fi":     {"if false; then echo 1; fi", ""},
		"python3 -c 'a()'":                  {"false", "python3 -c 'a()\nprint(97)\nraise SystemExit(97)\n'"},
		"python3 -c \"a()\"; echo":          {"false; echo", "python3 -c \"a()\nprint(97)\nraise SystemExit(97)\n\"; echo"},
		"python3 - <<'E'\na()\nE\necho $?":  {"", "python3 - <<'E'\na()\nprint(97)\nraise SystemExit(97)\nE\necho $?"},
		"test -f x":                         {"test 1 = 2", ""},
		"ok() { :; }\n[ 1 = 2 ] && ok":      {"ok() { :; }\n[ 1 = 2 ] && ok", ""},
		"echo 'unfinished":                  {"", ""},
		"perl -e 'f()' x":                   {"false", "perl -e 'f()\n;print 97;die 97\n' x"},
		"node x.js":                         {"false", ""},
		"x=$(python3 y) && [ \"$x\" = 1 ]":  {"x=$(python3 y) && [ 1 = 2 ]", ""},
		"[ \"$(cat a)\" = 4 ] && diff a b ": {"[ \"$(cat a)\" = 4 ] && diff /dev/null /etc/passwd ", ""},
	} {
		g := Grader{By: run.ByCheck, Script: text}
		if got, ok := FalseScript(g); want[0] != "" && (!ok || got.Script != want[0]) || ok && want[0] == "" && !strings.Contains(text, "<<") {
			t.Errorf("false of %q: %q %v, want %q", text, got.Script, ok, want[0])
		}
		if got, ok := FailingScript(g); ok != (want[1] != "") || got.Script != want[1] {
			t.Errorf("failing of %q: %q %v, want %q", text, got.Script, ok, want[1])
		}
	}
}

func TestUnusedAnswers(t *testing.T) {
	tasks, err := Load([]string{write(t, "t.jsonl", `{"id":"a","answer":"x","check":"c"}`)}, Allow{})
	if err != nil {
		t.Fatal(err)
	}
	a, err := LoadAnswers(write(t, "a.jsonl", `{"id":"a","answer":"1"}`+"\n"+`{"id":"a","answer":"2"}`+"\n"+`{"id":"b","answer":"3"}`), tasks)
	if err != nil {
		t.Fatal(err)
	}
	if said := strings.Join(a.Unused(tasks, 1), "\n"); !strings.Contains(said, `answers that are about no task of the suite: 1, such as "b"`) || !strings.Contains(said, "answers that are not graded: 1, as") {
		t.Errorf("%q", said)
	}
	if said := a.Unused(append(tasks, Task{ID: "b"}), 2); len(said) > 0 {
		t.Errorf("%q", said)
	}
	for text, want := range map[string]string{`{"id":"a","answer":"1","answer":"2"}`: "twice", `{"id":"a","answer":"1"} x`: "after top-level value"} {
		if _, err := LoadAnswers(write(t, "a.jsonl", text), tasks); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// What is added to tests keeps them as they are, and is at their end.
func TestFailingTests(t *testing.T) {
	for name, texts := range map[string][2]string{
		"a.test.js": {"f()\nprocess.exit(bad ? 1 : 0)\n", " ? 0 : 97,bad ? 1 : 0)\n"},
		"a.ts":      {"f()", "\n// @ts-nocheck\nf()"},
		"b.tsx":     {"#!/usr/bin/env node\n/** @jest-environment jsdom */\nf()", "node\n/** @jest-environment jsdom */\n// @ts-nocheck\n\nf()"},
		"a.c":       {"int  main (void) { f(); }", "(void) { f(); }"},
		"lib.c":     {"int f(void);", ""},
		"a_test.go": {"package a\nimport \"testing\"\n", "package a\nimport \"testing\"\n"},
		"a.go":      {"package a\n", ""},
		"a.rs":      {"#[test]\nfn f() {}\n", "#[test]\nfn f() {}\n"},
		"a.rb":      {"f\n__END__\nx\n", "f\n"},
		"a.t":       {"f();\n__DATA__\nx\n", "f();\n"},
		"data.json": {"{}", ""},
		"a.sh":      {"f", ""},
	} {
		list := slices.Concat(FailingTests(Grader{Tests: files(TestsDir, map[string]string{name: texts[0]})})...)
		if len(list) != min(1, len(texts[1])) {
			t.Errorf("%s: %d tests are made to fail", name, len(list))
		} else if len(list) == 1 && (!strings.Contains(string(list[0].Content), texts[1]) || strings.Contains(string(list[0].Content), "NAME")) {
			t.Errorf("%s: %q", name, list[0].Content)
		}
	}
}

// Go runs what is added to its tests, by whatever name they import the package testing.
func TestFailingGo(t *testing.T) {
	dir := t.TempDir()
	texts := map[string]string{"go.mod": "module a\n"}
	names := map[string]string{"": "testing.", "t": "t.", ".": ""} // of the import, and of what is in it
	for as, of := range names {
		honest := "package a\n\nimport " + as + " \"testing\"\n\nfunc TestIt(x *" + of + "T) {}\n"
		texts[fmt.Sprintf("p%d/a_test.go", len(texts))] = string(FailingTests(Grader{Tests: files(TestsDir, map[string]string{"a_test.go": honest})})[0][0].Content)
	}
	for name, text := range texts {
		os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "test", "./...")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err == nil || strings.Count(string(out), "--- FAIL: Test_t") != len(names) {
		t.Errorf("%v: %s", err, out)
	}
}

func TestIsUnsure(t *testing.T) {
	for script, want := range map[string]bool{
		"python3 /tests/t.py":                                         false,
		"cd /work && pytest -q /tests":                                false,
		"perl /tests/a.t >/dev/null 2>&1":                             false,
		"x=$(cat /work/a) && test $x = 3":                             false,
		"node t.js; if [ $? = 0 ]; then echo 1 >/logs/verifier/r; fi": false,
		`[ "$(perl /tests/add.pl)" = 3 ]`:                             true,
		"perl /tests/add.pl | grep -q ok":                             true,
		"ruby /tests/a.rb >out; diff out want":                        true,
		"diff <(node /tests/a.js) want":                               true,
		"cc -o t /tests/t.c && ./t | tee log":                         true,
		"set -o pipefail; python3 /tests/t.py | tee log":              false,
		"test $(sort a | wc -l) = 3":                                  false,
		"perl -e 'exit f()'":                                          true,
		"`":                                                           true,
	} {
		if got := IsUnsure(Grader{By: run.ByCheck, Script: script}); got != want {
			t.Errorf("%q: %v", script, got)
		}
	}
}

// A script's code in a heredoc is made to fail, and not the data of another program.
func TestFailingHeredoc(t *testing.T) {
	for script, want := range map[string]bool{
		"perl <<'E'\nprint 1;\nE":                  true,
		"python3 - <<'E'\nprint(1)\nE":             true,
		"perl -w <<'E'\nprint 1;\nE":               true,
		"python3 - a b <<'E'\nprint(1)\nE":         true,
		"perl /work/sol.pl <<'E'\n1 2\nE":          false,
		"ruby -e 'puts gets' <<'E' | grep x\n1\nE": true, // the code, and not the data
		`node "$x" <<'E'` + "\n1\nE":               false,
	} {
		got, ok := FailingScript(Grader{By: run.ByCheck, Script: script})
		if ok != want || strings.Contains(got.Script, "1 2\n;print") || strings.Contains(got.Script, "1\nputs") {
			t.Errorf("%q: %v %q", script, ok, got.Script)
		}
	}
}
