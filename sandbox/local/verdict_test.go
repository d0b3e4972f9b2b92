package local_test

import (
	"errors"
	"strings"
	"testing"

	"belljar/sandbox"
	"belljar/sandbox/sandboxtest"
)

func TestDenials(t *testing.T) {
	long := "rm " + strings.Repeat("日", 30)
	for name, test := range map[string]struct {
		script  string
		verdict sandbox.Verdict
		want    string
	}{
		"a place": {"ls\n  rm \"a\nb\"", sandbox.Verdict{Rule: "no\trm", Reason: "it removes", Span: sandbox.ScriptSpan{Start: 5, End: 13, Line: 2, Column: 3}},
			`denied by policy: rule "no\trm" at 2:3, "rm \"a\nb\"": it removes`},
		"a long one": {long, sandbox.Verdict{Rule: "x", Span: sandbox.ScriptSpan{End: len(long), Line: 1, Column: 1}},
			`denied by policy: rule "x" at 1:1, "rm ` + long[3:3+3*19] + `"…`},
		"no place": {"a", sandbox.Verdict{Reason: "no"}, `denied by policy: default: no`},
		"asks": {"git push", sandbox.Verdict{Decision: sandbox.Ask, Rule: "push", Span: sandbox.ScriptSpan{End: 8, Line: 1, Column: 1}},
			`policy requires approval, but no one is available to ask: rule "push" at 1:1, "git push"`},
	} {
		runner := newLocal(&sandboxtest.Engine{})
		p := profile()
		p.Policy = verdict(test.verdict)
		runner.Profiles["default"] = p
		_, err := runner.Start(t.Context(), sandbox.Command{Script: test.script})
		refusal, ok := errors.AsType[*sandbox.Error](err)
		if !ok || refusal.Cause != sandbox.CauseDenied || refusal.Message != test.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// verdict is a policy that always says the same, and allows nothing else.
type verdict sandbox.Verdict

func (verdict) Steers(setting string) bool {
	return setting == "LANG=zh_TW.BIG5" || strings.HasPrefix(setting+"=", "PATH=")
}

func (verdict) AllowEnv(string) bool { return false }

func (verdict) CheckMount(sandbox.Mount) error { return nil }

func (verdict) Writable(string) bool { return false }

func (verdict) Hash() string { return "hash" }

func (v verdict) JudgeScript(string, string, string) sandbox.Verdict { return sandbox.Verdict(v) }

// Under rules that allow ls, a caller's PATH of its own made `ls` another program.
func TestJudgedCommandsAreNotSteered(t *testing.T) {
	judged := sandbox.Verdict{Decision: sandbox.Allow, Commands: []sandbox.CommandVerdict{{}}}
	for name, test := range map[string]struct {
		verdict sandbox.Verdict
		env     string
		script  string
		denied  bool
	}{
		"judged":     {judged, "PATH=/work/bin:/bin", "ls", true},
		"harmless":   {judged, "A=b", "ls", false},
		"not judged": {sandbox.Verdict{Decision: sandbox.Allow}, "PATH=/work/bin:/bin", "ls", false},
		// In which bash reads the backslash after a character as a part of it.
		"charset":         {judged, "LANG=zh_TW.BIG5", "echo \u4e2d", true},
		"charset, ASCII":  {judged, "LANG=zh_TW.BIG5", "echo a", false},
		"UTF-8":           {judged, "LANG=C.UTF-8", "echo \u4e2d", false},
		"charset, unread": {sandbox.Verdict{Decision: sandbox.Allow}, "LANG=zh_TW.BIG5", "echo \u4e2d", false},
	} {
		runner := newLocal(&sandboxtest.Engine{})
		p := profile()
		p.Policy = verdict(test.verdict)
		runner.Profiles["default"] = p
		_, err := runner.Prepare(t.Context(), sandbox.Command{Script: test.script, Env: []string{test.env}})
		if denied := sandbox.CauseOf(err) == sandbox.CauseDenied; denied != test.denied || denied != (err != nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
