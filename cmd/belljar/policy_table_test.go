package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

func TestPolicyTable(t *testing.T) {
	inPolicyFile(t)
	table := func(rows string) {
		t.Helper()
		if err := os.WriteFile("t.yaml", []byte("tests:\n"+rows), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	table(`- {script: ls, decision: allow, rule: ""}
- {script: git push, decision: ask, rule: push}
- {script: "cd sub && rm a", decision: deny, rule: no-rm}
`)
	if out, status, err := askPolicy(t, "test", "t.yaml"); err != nil || status != 0 || out != "3 tests, 0 failed\n" {
		t.Errorf("%v, exit status %d\n%s", err, status, out)
	}
	table(`- {script: ls, decision: deny}
- {script: git push, decision: ask}
- {script: "rm \u202E'\n\e[2J", decision: allow, rule: "no\erm"}
- {script: git push, decision: ask, rule: ""}
- {script: "` + strings.Repeat("x", 99) + `", decision: ask}
`)
	out, status, err := askPolicy(t, "test", "t.yaml")
	want := `t.yaml:2: ls: want deny, got allow: default at 1:1: no rule matches "ls", and the default is allow
t.yaml:4: rm \u202e'\n\x1b[2J: want allow: rule "no\x1brm", got deny: default at 1:4: the script contains the control character U+202E
t.yaml:5: git push: want ask: default, got ask: rule "push" at 1:1: rule "push" says ask
t.yaml:6: ` + strings.Repeat("x", 59) + `…: want ask, got allow: default at 1:1: no rule matches "` + strings.Repeat("x", 57) + `…", and the default is allow
5 tests, 4 failed
`
	if err != nil || status != 1 || out != want {
		t.Errorf("%v, exit status %d\n%s", err, status, out)
	}
	out, status, err = askPolicy(t, "test", "t.yaml", "--format", "json")
	var results policyResults
	if err != nil || status != 1 || json.Unmarshal([]byte(out), &results) != nil || results.Failed != 4 || len(results.Tests) != 5 || !results.Tests[1].OK ||
		!strings.HasPrefix(out, `{"tests":[{"ok":false,"line":2,"script":"ls","want":"deny","got":{"decision":"allow","rule":"",`) || strings.Contains(out, "\u202e") {
		t.Errorf("%v, exit status %d\n%s", err, status, out)
	}
	for args, want := range map[string]string{
		"--profile none t.yaml": `no profile "none"`, "--set none t.yaml": `--set "none" is unknown`, "--format xml t.yaml": `--format "xml" is unknown`,
		"none.yaml": "open none.yaml: no such file", "": "accepts 1 arg", "t.yaml t.yaml": "accepts 1 arg",
	} {
		if _, status, err := askPolicy(t, append([]string{"test"}, strings.Fields(args)...)...); status != exitFailed || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: exit status %d, %v", args, status, err)
		}
	}
}

// Where a script starts is the profile's working directory, if the row says no
// other.
func TestPolicyTableDir(t *testing.T) {
	inPolicyFile(t)
	rows := `tests:
- {script: touch a, decision: allow}
- {script: touch a, decision: deny, dir: /work/.git}
- {script: "cd /work && touch a", decision: allow}
`
	if err := os.WriteFile("t.yaml", []byte(rows), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, status, err := askPolicy(t, "test", "--set", "build", "t.yaml"); err != nil || status != 0 {
		t.Errorf("%v, exit status %d\n%s", err, status, out)
	}
}
