package policy

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"belljar/sandbox"

	"github.com/google/go-cmp/cmp"
)

func TestCompileNamesRuleAndField(t *testing.T) {
	for _, test := range []struct {
		rules CommandRules
		want  string
	}{
		{CommandRules{Shell: "zsh"}, `shell "zsh": write posix or bash`},
		{CommandRules{Writes: []string{"/work/../etc"}}, `writes: "/work/../etc"`},
		{CommandRules{Writes: []string{"/[a"}}, `writes: "/[a"`},
		{CommandRules{Env: []string{"A B"}}, `env: "A B"`},
		{CommandRules{Rules: []CommandRule{{Commands: []string{"ls"}}}}, `rules[0]: name ""`},
		{CommandRules{Rules: []CommandRule{{Name: "a"}}}, `rule "a": commands: name at least one`},
		{CommandRules{Rules: []CommandRule{{Name: "a", Commands: []string{" "}}}}, `rule "a": commands: " " has no program`},
		{CommandRules{Rules: []CommandRule{{Name: "a", Commands: []string{"npm r*"}}}}, `rule "a": commands: "npm r*": * stands for a whole word`},
		{CommandRules{Rules: []CommandRule{{Name: "a", Commands: []string{"ls; id"}}}}, `rule "a": commands: "ls; id": write words without quotes`},
		{CommandRules{Rules: []CommandRule{{Name: "a", Commands: []string{"ls"}, Deny: []string{"x"}}}}, `rule "a": deny: "x"`},
		{CommandRules{Rules: []CommandRule{{Name: "a", Commands: []string{"ls"}, Allow: []string{"run"}}}}, `rule "a": allow: "run"`},
		{CommandRules{Rules: []CommandRule{{Name: "a", Commands: []string{"ls"}, Reason: "a\nb"}}}, `rule "a": reason: write one line`},
		{CommandRules{Rules: []CommandRule{{Name: "a", Commands: []string{"ls"}, Grant: Grant{Network: "host"}}}}, `rule "a": grant.network: "host"`},
		{CommandRules{Rules: []CommandRule{{Name: "a", Commands: []string{"ls"}, Grant: Grant{Limits: sandbox.Limits{Memory: -1}}}}}, `rule "a": grant.limits.memory: -1`},
		{CommandRules{Rules: []CommandRule{{Name: "a", Commands: []string{"ls"}}, {Name: "a", Commands: []string{"ls"}}}}, `rules[1]: name "a"`},
	} {
		if _, err := test.rules.Compile(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("got %v, want %q", err, test.want)
		}
	}
}

func TestBundledSetsCompileAsCopies(t *testing.T) {
	for _, name := range Sets() {
		rules, _ := Bundled(name)
		compile(t, rules)
		rules.Rules[0].Commands[0] = "changed"
		if again, _ := Bundled(name); again.Rules[0].Commands[0] == "changed" {
			t.Errorf("%s is shared", name)
		}
	}
	if _, ok := Bundled("x"); ok {
		t.Error("x is a set")
	}
}

func TestZeroesDeny(t *testing.T) {
	for _, v := range []Verdict{{}, new(CommandPolicy).Judge("ls", ""), compile(t, CommandRules{}).Judge("cd /", ""),
		compile(t, CommandRules{Rules: []CommandRule{{Name: "a", Commands: []string{"ls"}}}}).Judge("ls", "")} {
		if v.Decision != Deny {
			t.Errorf("%+v", v)
		}
	}
}

// rulesOf reads one rule a line: decision, then commands separated by "|",
// then fields.
func rule(name string, decision Decision, commands string) CommandRule {
	return CommandRule{Name: name, Commands: strings.Split(commands, "|"), Decision: decision}
}

func TestRules(t *testing.T) {
	set := CommandRules{
		Writes: []string{"out/**", "/tmp/*.log"},
		Env:    []string{"APP_*"},
		Rules: []CommandRule{
			{Name: "no-force", Commands: []string{"git push"}, Args: []string{"-f", "--force*"}, Decision: Deny, Reason: "history is shared"},
			rule("push", Ask, "git push"),
			{Name: "git", Commands: []string{"git log", "git fetch", "git branch"}, Decision: Allow, Deny: []string{"--upload-pack"}},
			rule("npm", Allow, "npm test|npm run *|cargo test"),
			rule("exact-path", Allow, "./gradlew"),
			{Name: "only-these", Commands: []string{"cat"}, Args: []string{"*.md", "-n"}, Decision: Allow},
			{Name: "sorts", Commands: []string{"sort"}, Decision: Allow, AllowUnknown: true, Allow: []string{Writes}},
			{Name: "tools", Commands: []string{"make", "mkdir", "rm", "echo", "tool", "sed"}, Decision: Allow, Env: []string{"CC"}, Writes: []string{"/data/**"}},
		},
	}
	for _, test := range []struct {
		script string
		want   Decision
		rule   string
	}{
		{"git push", Ask, "push"}, {"git push -f", Deny, "no-force"}, {"git push origin --force-with-lease", Deny, "no-force"},
		{"git push \"$x\"", Deny, "no-force"}, // may be -f
		{"git log -3", Allow, "git"}, {"git -C sub log", Allow, "git"}, {"git --no-pager log", Allow, "git"}, {"git status", Deny, ""},
		{"git fetch origin", Allow, "git"}, {"git branch new", Allow, "git"}, // named by two words
		{"git fetch --upload-pack=id", Deny, "git"}, {"git fetch --upl=id", Deny, "git"}, {"git fetch --upload-pack id", Deny, "git"},
		{"git $x", Deny, ""}, {"git 'log'", Allow, "git"}, {"git l\\og", Allow, "git"},
		{"npm test", Allow, "npm"}, {"npm run build", Allow, "npm"}, {"npm run", Deny, ""}, {"npm run \"$x\"", Allow, "npm"}, {"npm run $x", Deny, ""}, {"npm --prefix web test", Allow, "npm"}, {"npm install", Deny, ""}, {"npm \"\" x test", Deny, ""}, {"cargo test", Allow, "npm"}, {"cargo -C sub test", Allow, "npm"}, {"cargo \"\" x test", Deny, ""}, {"/usr/bin/npm \"\" x test", Deny, ""},
		{"./gradlew build", Allow, "exact-path"}, {"cd x && ./gradlew", Deny, ""}, {"cd x && cd .. && ./gradlew", Allow, "exact-path"}, {"../gradlew", Deny, ""}, {"gradlew", Deny, ""},
		{"cat a.md -n", Allow, "only-these"}, {"cat a.txt", Deny, ""}, {"cat \"$x\"", Deny, ""},
		{"sort -o x f", Allow, "sorts"}, {"sort \"$x\"", Allow, "sorts"}, {"sort --compress-program=id f", Deny, ""},
		{"make all", Allow, "tools"}, {"CC=gcc make", Allow, "tools"}, {"CX=gcc make", Deny, "tools"}, {"APP_X=1 make", Allow, "tools"}, {"export APP_X=1; make", Allow, "tools"},
		{"APP_X=1 CC=x env make", Allow, "tools"}, {"tool --anything $x", Allow, "tools"},
		{"mkdir out/a /data/b", Allow, "tools"}, {"mkdir src", Deny, "tools"}, {"mkdir out/../src", Deny, "tools"}, {"rm /data/x", Allow, "tools"}, {"rm /data/.git/x", Deny, "tools"}, {"rm /data", Allow, "tools"}, {"rm /data/$x", Deny, "tools"},
		{"echo x > out/f", Allow, "tools"}, {"echo x > /work/out/f", Allow, "tools"}, {"echo x > f", Deny, "tools"}, {"cd out && echo x > f", Allow, "tools"}, {"cd out; echo x > f", Deny, "tools"},
		{"cd out && cd .. && echo x > f", Deny, "tools"}, {"(cd out && echo x > f)", Allow, "tools"}, {"(cd out); echo x > f", Deny, "tools"}, {"cd \"$x\" && echo x > f", Deny, "tools"}, {"cd \"$x\" && echo x > /tmp/a.log", Allow, "tools"},
		{"trap 'cd /' EXIT; echo x > out/f", Deny, "tools"}, {"rm out/.git", Deny, "tools"}, {"rm out/.GIT/hooks/x", Deny, "tools"}, {"PAGER=cat git log", Allow, "git"}, {"PAGER=less git log", Deny, "git"},
		{"echo x > /tmp/a.log", Allow, "tools"}, {"echo x > /tmp/a/b.log", Deny, "tools"}, {"cat a.md > /data/x", Deny, "only-these"}, {"make > /data/x", Allow, "tools"},
		{"while make; do cd out; echo x > f; done", Deny, "tools"}, {"sed -i p out/f", Allow, "tools"}, {"sed -i p f", Deny, "tools"}, {"sed -i.orig p out/f", Deny, "tools"},
		{"f() { make; }; f", Allow, "tools"}, {"f() { make; }; f; g", Deny, ""}, {"f; f() { make; }", Deny, ""}, {"make || { f() { make; }; f; }", Deny, ""}, {"f() { make; }; env f", Deny, ""}, {"f() { make; }; X=1 f", Deny, ""},
	} {
		v := compile(t, set).Judge(test.script, "/work")
		if v.Decision != test.want || v.Rule != test.rule {
			t.Errorf("%q is %s by %q, want %s by %q: %s", test.script, v.Decision, v.Rule, test.want, test.rule, v.Reason)
		}
	}
}

func TestDenylists(t *testing.T) {
	p := compile(t, CommandRules{Default: Allow, Rules: []CommandRule{rule("no-curl", Deny, "curl"), rule("ask-rm", Ask, "rm")}})
	for script, want := range map[string]Decision{
		"make": Allow, "ls > x": Allow, "ls > $x": Allow, "sed -n 1p \"$f\"": Allow, "./x.sh": Allow, "FOO=1 make": Allow,
		"curl x": Deny, "/usr/bin/curl x": Deny, "c\\url x": Deny, "env curl": Deny, "sh -c 'curl x'": Deny, "find . -exec curl {} \\;": Deny, "ls | xargs curl": Deny,
		"$x": Deny, "PATH=/tmp ls": Deny, "eval \"$x\"": Deny, "sh -c \"$x\"": Deny, ". ./x": Deny, "alias ls=curl": Deny, "rm x": Ask, "make && rm x": Ask,
	} {
		if v := p.Judge(script, ""); v.Decision != want {
			t.Errorf("%q is %s, want %s: %s", script, v.Decision, want, v.Reason)
		}
	}
	if v := compile(t, CommandRules{Default: Allow}).Judge("if", ""); v.Decision != Allow {
		t.Error("no rules, default allow:", v.Reason)
	}
	if v := compile(t, CommandRules{Default: Ask}).Judge("ls", ""); v.Decision != Ask || !slices.Equal(v.Roots, []string{"ls"}) {
		t.Errorf("%+v", v)
	}
}

func TestSpans(t *testing.T) {
	p := bundled(t, "readonly", ShellPOSIX)
	for script, want := range map[string]string{
		"ls\ncd x && pwn -a b | wc":    "2:9 pwn -a b",
		"echo \"a $(pwn x)\"":          "1:11 pwn x",
		"sh -c 'ls; pwn x'":            "1:12 pwn x",
		"bash -lc \"ls &&\n pwn\"":     "2:2 pwn",
		"sh -c \"ls \\$x; pwn x\"":     "1:7 \"ls \\$x; pwn x\"",
		"timeout 5 env pwn":            "1:15 pwn",
		"sort -n -o out f":             "1:12 out",
		"ls > out":                     "1:4 > out",
		"ls '":                         "1:4 '",
		"ls $(":                        "1:4 $",
		"PATH=x; ls":                   "1:1 PATH=x",
		"find . -exec sh -c 'pwn' \\;": "1:21 pwn",
	} {
		v := p.Judge(script, "")
		got := strings.Join([]string{itoa(v.Span.Line) + ":" + itoa(v.Span.Column), script[v.Span.Start:v.Span.End]}, " ")
		if v.Decision != Deny || got != want {
			t.Errorf("%q is %s at %q, want %q: %s", script, v.Decision, got, want, v.Reason)
		}
	}
}

func itoa(n int) string {
	text, _ := json.Marshal(n)
	return string(text)
}

func TestVerdictHasRootsUnknownAndGrant(t *testing.T) {
	p := compile(t, CommandRules{Rules: []CommandRule{
		{Name: "a", Commands: []string{"make", "timeout"}, Decision: Allow, Grant: Grant{Timeout: time.Hour, Limits: sandbox.Limits{Memory: 6 << 20}}},
		{Name: "b", Commands: []string{"git"}, Decision: Allow, Grant: Grant{Timeout: time.Minute, Network: "none", Limits: sandbox.Limits{CPUs: 0.5}}},
	}})
	v := p.Judge("cd x && timeout 5 make all | git log", "")
	if want := (Grant{Timeout: time.Minute, Limits: sandbox.Limits{Memory: 6 << 20, CPUs: 0.5}, Network: "none"}); v.Decision != Allow || !cmp.Equal(v.Grant, want) {
		t.Errorf("%s, grant %+v", v.Reason, v.Grant)
	}
	if !slices.Equal(v.Roots, []string{"git", "make", "timeout"}) || len(v.Commands) != 3 {
		t.Errorf("roots %q, %d commands", v.Roots, len(v.Commands))
	}
	if v = p.Judge("make; $x; git log $y", ""); len(v.Unknown) == 0 || v.Unknown[0].Span.Start != 6 {
		t.Errorf("unknown %+v", v.Unknown)
	}
	text, err := json.Marshal(v)
	var back Verdict
	if err != nil || json.Unmarshal(text, &back) != nil || back.Decision != v.Decision || !strings.Contains(string(text), `"decision":"deny"`) {
		t.Errorf("%v: %s", err, text)
	}
}

// Scripts up to the limits are judged in bounded time: what is too deep or
// has too many parts is denied.
func TestLargeScripts(t *testing.T) {
	p := bundled(t, "build", ShellPOSIX)
	for _, unit := range []string{"ls;", "(", "$(", "`", "{ ", "if ", "sh -c '", "env ", "x=$((", "\"$(", "a|", "[[ ", "{a,b}", "<<E ", "case x in x) ", "# \\\n", "f(){ ", "$x", "\\", "*", "~", "! ", "echo $((i+1));"} {
		size := maxScript / 4 // the parser takes seconds for more of some units, with the race detector
		if unit == "ls;" {
			size = maxScript
		}
		script := strings.Repeat(unit, size/len(unit))
		if v := p.Judge(script, ""); v.Decision != Deny {
			t.Errorf("%q, many times: %s", unit, v.Decision)
		}
	}
}

// A script within a script is read once per dialect; findings are listed once.
func TestRecordsAreMadeOnce(t *testing.T) {
	quoted := func(script string, times int) string {
		for range times {
			script = "sh -c '" + strings.ReplaceAll(script, "'", `'\''`) + "'"
		}
		return "cd x; " + script
	}
	p := compile(t, CommandRules{Default: Allow, Rules: []CommandRule{
		rule("a", Ask, "tool a"), rule("b", Allow, "tool b"), rule("c", Allow, "tool c"), rule("sort", Allow, "sort -r"),
	}})
	for script, want := range map[string]struct{ commands, unknown int }{
		quoted("tool b", 1):            {1, 0},
		quoted("tool b; tool c", 5):    {2, 0},
		quoted("tool b | $x", 3):       {2, 1},
		"tool b; tool c":               {2, 0},
		"tool \"$x\"":                  {1, 1}, // which rule applies
		"sort --unknown":               {1, 1},
		"sort \"$x\"":                  {1, 2}, // the word, and which rule applies
		"dash -c 'bash -c \"tool b\"'": {1, 0},
	} {
		if v := p.Judge(script, ""); len(v.Commands) != want.commands || len(v.Unknown) != want.unknown {
			t.Errorf("%q: %d commands and %d unknown, want %v", script, len(v.Commands), len(v.Unknown), want)
		}
	}
}

// Both readings count, regardless of which is reported: (( for one shell is a command for the
// other.
func TestReadingsOfAScriptWithin(t *testing.T) {
	p := compile(t, CommandRules{Rules: []CommandRule{
		granting("a", Allow, "a|[[|bash", Grant{Timeout: 5e9}), granting("b", Allow, "b", Grant{Timeout: 1e9}),
	}})
	for script, want := range map[string]Decision{
		"bash -c 'sh -c \"((a))\"'": Deny, "bash -c 'sh -c \"a\"'": Allow, "dash -c 'a $(b)'": Allow, "dash -c 'a &> /dev/null x'": Deny,
	} {
		if v := p.Judge(script, ""); v.Decision != want {
			t.Errorf("%q is %s: %s", script, v.Decision, v.Reason)
		}
	}
	if v := p.Judge("dash -c 'a $(b)'", ""); v.Grant.Timeout != 1e9 {
		t.Errorf("%+v", v.Grant)
	}
}

// A script is judged in the grammar of its shell, or of a stricter one, and never
// of another.
func TestJudgeIn(t *testing.T) {
	for _, test := range []struct {
		rules, shell string
		script       string
		want         Decision
	}{
		{"", "sh", "cat $'x'", Deny}, {"", "bash", "cat $'x'", Allow}, {"", "auto", "cat $'x'", Deny}, {"", "", "cat $'x'", Deny},
		{ShellPOSIX, "sh", "cat $'x'", Deny}, {ShellPOSIX, "bash", "cat $'x'", Deny},
		{ShellBash, "bash", "cat $'x'", Allow}, {ShellBash, "sh", "ls", Deny}, {ShellBash, "auto", "ls", Deny}, {ShellBash, "", "ls", Deny},
		{"", "sh", "ls", Allow}, {"", "bash", "ls", Allow}, {ShellPOSIX, "bash", "ls", Allow},
		{"", "bash", "sh -c \"cat $'x'\"; ls", Deny}, // the inner shell is sh again
	} {
		p := bundled(t, "readonly", test.rules)
		if v := p.JudgeIn(test.shell, test.script, ""); v.Decision != test.want {
			t.Errorf("policy.shell %q, in %q: %s is %+v", test.rules, test.shell, test.script, v)
		}
		if test.rules == "" && p.rules.Shell != "" {
			t.Fatal("the policy changed")
		}
	}
}
