package policy

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// seeds are scripts of all tables: of the longest, which has its own
// test, every tenth.
func seeds(t testing.TB) (scripts []string) {
	t.Helper()
	for _, row := range adversarial {
		scripts = append(scripts, strings.Split(row.scripts, "\x00")...)
	}
	for _, file := range []string{"testdata/agents.txt", "testdata/escapes.txt"} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for line := range strings.Lines(string(data)) {
			if n++; strings.Contains(file, "escapes") && n%10 != 0 {
				continue
			}
			if at := strings.IndexByte(line, '"'); at >= 0 {
				if script, err := strconv.Unquote(strings.TrimSpace(line[at:])); err == nil {
					scripts = append(scripts, script)
				}
			}
		}
	}
	return scripts
}

// FuzzJudge: no input panics, nothing is allowed that no rule names, an additional
// denial never allows more, and the decision is the same for the
// script printed again.
func FuzzJudge(f *testing.F) {
	for _, script := range seeds(f) {
		if len(script) < 1000 {
			f.Add(script)
		}
	}
	var sets []fuzzSet
	var none []*CommandPolicy
	for _, shell := range []string{ShellPOSIX, ShellBash} {
		for _, name := range []string{"readonly", "build"} {
			rules, _ := Bundled(name)
			rules.Shell = shell
			sets = append(sets, newFuzzSet(f, rules))
		}
		denylist := CommandRules{Shell: shell, Default: Allow, Rules: []CommandRule{{Name: "no-id", Commands: []string{"id"}, Decision: Deny}}}
		sets = append(sets, newFuzzSet(f, denylist))
		none = append(none, compile(f, CommandRules{Shell: shell}))
	}
	f.Fuzz(func(t *testing.T, script string) {
		if len(script) > 2000 {
			return
		}
		for _, set := range sets {
			v := set.policy.Judge(script, "")
			checkVerdict(t, script, v)
			set.holdsAround(t, script, v.Decision)
			set.names(t, script, v)
		}
		for _, p := range none {
			if v := p.Judge(script, ""); v.Decision != Deny {
				t.Errorf("%q is %s without a rule", script, v.Decision)
			}
		}
	})
}

// names checks an allowed script against the rules without using the
// judge's code: each command that the parser finds is named by a rule, or
// only starts another, or is a function.
func (set fuzzSet) names(t *testing.T, script string, v Verdict) {
	if v.Decision != Allow || set.policy.rules.Default != Deny {
		return
	}
	if len(v.Commands) == 0 {
		t.Errorf("%q is allowed, and no rule decided", script)
	}
	for _, c := range v.Commands {
		if c.Decision != Allow || c.Rule == "" && !plainStarters[c.Program] && builtins[c.Program] == nil {
			t.Errorf("%q is allowed, and its %q is %s by %q", script, c.Program, c.Decision, c.Rule)
		}
	}
	for _, lang := range set.policy.dialects() {
		file, err := parse(script, lang)
		if plain, _, ok := replaceBash(script); err != nil && ok && lang == syntax.LangPOSIX {
			file, err = parse(plain, lang)
		}
		if err != nil {
			t.Errorf("%q is allowed, and does not parse: %v", script, err)
			return
		}
		functions := map[string]bool{}
		syntax.Walk(file, func(n syntax.Node) bool {
			if f, ok := n.(*syntax.FuncDecl); ok {
				functions[f.Name.Value] = true
			}
			return true
		})
		syntax.Walk(file, func(n syntax.Node) bool {
			if call, ok := n.(*syntax.CallExpr); ok && len(call.Args) > 0 {
				fields, err := expand.Fields(nil, call.Args[0])
				if name := strings.TrimPrefix(strings.TrimPrefix(strings.Join(fields, " "), "/usr"), "/bin/"); err != nil || !set.policy.named[name] && !plainStarters[name] && builtins[name] == nil && !functions[name] {
					t.Errorf("%q is allowed, and no rule names %q (%v)", script, name, err)
				}
			}
			return true
		})
	}
}

// plainStarters are the programs that need no rule, since the program they start does.
var plainStarters = map[string]bool{}

func init() {
	for _, name := range strings.Fields("nohup nice ionice timeout stdbuf setsid time caffeinate unbuffer setarch taskset chrt choom prlimit busybox toybox env xargs flock watch sh dash ash bash rbash") {
		plainStarters[name] = true
	}
}

// fuzzSet is a set, and the same set preceded by denials.
type fuzzSet struct {
	shell    string
	policy   *CommandPolicy
	stricter []*CommandPolicy
}

func newFuzzSet(t testing.TB, rules CommandRules) fuzzSet {
	set := fuzzSet{shell: rules.Shell, policy: compile(t, rules)}
	for _, commands := range [][]string{{"ls"}, {"git log"}, {"cat", "make", "*"}} {
		stricter := rules
		stricter.Rules = append([]CommandRule{{Name: "no", Commands: commands}}, rules.Rules...)
		set.stricter = append(set.stricter, compile(t, stricter))
	}
	return set
}

func (set fuzzSet) holdsAround(t *testing.T, script string, decision Decision) {
	for i, p := range set.stricter {
		if v := p.Judge(script, ""); v.Decision > decision {
			t.Errorf("%q is %s, and with denial %d in front %s", script, decision, i, v.Decision)
		}
	}
	if again, ok := reprint(script, set.shell); ok {
		if v := set.policy.Judge(again, ""); v.Decision != decision {
			t.Errorf("%q is %s, and printed again as %q it is %s: %s", script, decision, again, v.Decision, v.Reason)
		}
	}
}

// reprint prints the script again, if all dialects parse the printed text as they
// parse the script.
func reprint(script, shell string) (string, bool) {
	langs := (&CommandPolicy{rules: CommandRules{Shell: shell}}).dialects()
	again := printed(script, langs[0])
	if again == "" || strings.Contains(script, "\\\n") || strings.Contains(script, "`") || strings.Contains(script, "$[") {
		return "", false // which the printer changes for good reason
	}
	if unreadable(script) != "" {
		return "", false
	}
	for _, lang := range langs {
		if p := printed(script, lang); p != again || printed(again, lang) != again || shape(script, lang) != shape(again, lang) {
			return "", false
		}
	}
	return again, true
}

// shape is the kinds of the script's nodes. The printer separates some:
// ">0>(a)" becomes ">0 >(a)".
func shape(script string, lang syntax.LangVariant) string {
	file, err := parse(script, lang)
	if err != nil {
		return ""
	}
	var b strings.Builder
	syntax.Walk(file, func(n syntax.Node) bool { fmt.Fprintf(&b, "%T ", n); return true })
	return b.String()
}

func printed(script string, lang syntax.LangVariant) string {
	file, err := parse(script, lang)
	if err != nil {
		return ""
	}
	var b strings.Builder
	if err := syntax.NewPrinter().Print(&b, file); err != nil {
		return ""
	}
	return b.String()
}

// FuzzRules: a rule allows only what it names.
func FuzzRules(f *testing.F) {
	f.Add("git status", "git status -s", "-s")
	f.Add("npm run *", "npm run $x", "--")
	f.Add("ls", "l\\s -la", "-l")
	f.Fuzz(func(t *testing.T, command, script, flag string) {
		p, err := CommandRules{Rules: []CommandRule{{Name: "r", Commands: []string{command}, Deny: []string{flag}, Decision: Allow}}}.Compile()
		if err != nil {
			return
		}
		v := p.Judge(script, "")
		if v.Decision == Allow && v.Rule != "r" {
			t.Errorf("rule %q allowed %q as %q", command, script, v.Rule)
		}
		if name := strings.Fields(command)[0]; v.Decision == Allow && name != "*" && !strings.ContainsAny(script, `\'"`+"\n") && !strings.Contains(script, name) {
			t.Errorf("rule %q allowed %q", command, script)
		}
	})
}

func BenchmarkJudge(b *testing.B) {
	p := bundled(b, "build", ShellPOSIX)
	scripts := []string{"ls -la", "cd sub && npm test 2>&1 | tail -50", "git log --oneline -20", "grep -rn 'TODO' --include='*.go' . | head", `find . -name '*.go' -not -path './vendor/*' | wc -l`, `for f in *.go; do gofmt -l "$f"; done`, "go test ./...", "sed -n '1,80p' main.go"}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		if v := p.Judge(scripts[n%len(scripts)], ""); v.Decision != Allow {
			b.Fatal(v)
		}
		n++
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "scripts/s")
}
