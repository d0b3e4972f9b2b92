package policy

import (
	"errors"
	"strings"
	"testing"

	"belljar/sandbox"
)

func TestCheckScript(t *testing.T) {
	commands, err := CommandRules{Default: Allow, Rules: []CommandRule{
		{Name: "no\trm", Commands: []string{"rm"}, Reason: "it removes"},
		{Name: "push", Commands: []string{"git push"}, Decision: Ask},
	}}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("日", 30)
	for script, want := range map[string]string{
		"ls":                "",
		"ls\n  rm \"a\nb\"": `the command policy denies it: rule "no\trm" at 2:3, "rm \"a\nb\"": it removes`,
		"git push":          `the command policy wants an approval, and nobody is there to ask: rule "push" at 1:1, "git push"`,
		"rm " + long:        `the command policy denies it: rule "no\trm" at 1:1, "rm ` + long[:3*19] + `"…: it removes`,
		"a \x1b":            `the command policy denies it: default at 1:3, "\x1b": the script holds the control character U+001B`,
	} {
		err := Rules{Commands: commands}.CheckScript(script)
		refusal, ok := errors.AsType[*sandbox.Error](err)
		switch {
		case want == "" && err != nil:
			t.Errorf("%q: %v", script, err)
		case want != "" && (!ok || refusal.Cause != sandbox.CauseDenied || !strings.HasPrefix(refusal.Message, want)):
			t.Errorf("%q: %v", script, err)
		}
	}
}

func TestRulesWithoutCommandsJudgeNothing(t *testing.T) {
	if err := (Rules{}).CheckScript("rm \x1b"); err != nil {
		t.Error(err)
	}
	if err := (Rules{Commands: &CommandPolicy{}}).CheckScript("ls"); sandbox.CauseOf(err) != sandbox.CauseDenied {
		t.Error(err)
	}
}
