package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"belljar/policy"
)

func TestReadPolicyTests(t *testing.T) {
	got, err := ReadPolicyTests("t.yaml", []byte(`# ours
tests:
  - {script: git status, decision: allow}
  - script: |
      cd x
      git push
    decision: ask
    rule: push
    dir: /work/sub
  - {script: ls, decision: deny, rule: ""}
`))
	push, none := "push", ""
	want := []PolicyTest{
		{Line: 3, Script: "git status", Decision: policy.Allow},
		{Line: 4, Script: "cd x\ngit push\n", Decision: policy.Ask, Rule: &push, Dir: "/work/sub"},
		{Line: 10, Script: "ls", Decision: policy.Deny, Rule: &none},
	}
	if err != nil || !cmp.Equal(got, want) {
		t.Errorf("%v\n%s", err, cmp.Diff(want, got))
	}
}

func TestBadPolicyTests(t *testing.T) {
	for file, want := range map[string]string{
		"":                           "t.yaml:1: tests: there are no tests (write tests: [{script: git status, decision: allow}])",
		"tests: []":                  "t.yaml:1: tests: there are no tests (write tests: [{script: git status, decision: allow}])",
		"- a":                        "t.yaml:1: must be a mapping, not a list (`belljar config schema` describes it)\nt.yaml:1: tests: there are no tests (write tests: [{script: git status, decision: allow}])",
		"tests: a":                   "t.yaml:1: tests: must be a list, not a string (`belljar config schema` describes it)",
		"tests:\n- a":                "t.yaml:2: tests[0]: must be a mapping, not a string (`belljar config schema` describes it)",
		"tests:\n- {script: ls}":     "t.yaml:2: tests[0]: the decision is missing (write {script: git status, decision: allow})",
		"tests:\n- {decision: deny}": "t.yaml:2: tests[0]: the script is missing (write {script: git status, decision: allow})",
		"test:\n- {}\n":              "t.yaml:1: test: unknown key (the only key of a test table is tests)\nt.yaml:1: tests: there are no tests (write tests: [{script: git status, decision: allow}])",
		"tests:\n- {script: ls\n":    "t.yaml:1: did not find expected ',' or '}' (check the indentation, colons and quotes there)",
		"tests: [{script: ls, decision: allow}]\n---\na: b": "t.yaml:2: a second YAML document (keep one document in the file)",
		"tests:\n- {script: ls, decision: allow, rules: a}": "t.yaml:2: tests[0].rules: unknown key (a test has script, decision, rule and dir)",
		"tests:\n- {script: ls, decision: Allow}":           `t.yaml:2: tests[0].decision: the value is not a decision (write allow, ask or deny)`,
		"tests:\n- {script: ls, decision: 5}":               "t.yaml:2: tests[0].decision: must be a string, not a number (write it in quotes)",
		"tests:\n- {script: ls, script: id, decision: ask}": "t.yaml:2: tests[0].script: duplicate key, first on line 2 (remove one of them)",
		"tests:\n- {script: ' ', decision: ask}":            "t.yaml:2: tests[0].script: is empty (write one such as git status)",
		"tests:\n- {script: 5, decision: ask}":              "t.yaml:2: tests[0].script: must be a string, not a number (write it in quotes)",
		"tests:\n- {script: ls, decision: ask, dir: sub}":   `t.yaml:2: tests[0].dir: the value is not absolute (write a path in the container, such as /work/sub)`,
		"tests:\n- &a {script: ls, decision: ask}\n- *a":    "t.yaml:3: YAML aliases are not supported (write the value out)",
		"tests: []\ntests: []":                              "t.yaml:2: tests: duplicate key, first on line 1 (remove one of them)",
	} {
		if _, err := ReadPolicyTests("t.yaml", []byte(file)); err == nil || err.Error() != want {
			t.Errorf("%q:\n got %v\nwant %s", file, err, want)
		}
	}
}

func FuzzReadPolicyTests(f *testing.F) {
	f.Add("tests:\n- {script: ls, decision: allow, rule: a, dir: /work}")
	f.Add("tests:\n- &a {script: ls, decision: ask}\n- *a")
	f.Fuzz(func(t *testing.T, file string) {
		tests, err := ReadPolicyTests("t.yaml", []byte(file))
		if (err == nil) != (len(tests) > 0) {
			t.Errorf("%d tests and %v", len(tests), err)
		}
		for _, test := range tests {
			if test.Script == "" || test.Line < 1 {
				t.Errorf("%+v", test)
			}
		}
	})
}
