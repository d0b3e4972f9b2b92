package policy

import (
	"strings"
	"testing"
)

// Each word behind an option that is not known may begin a command, and so may each of the
// words behind that one: a few hundred bytes took more steps than any host has time for.
func TestJudgingIsBounded(t *testing.T) {
	noMake := compile(t, CommandRules{Default: Ask, Rules: []CommandRule{{Name: "no-make", Commands: []string{"make"}, Deny: []string{"-x"}, Decision: Ask}}})
	for _, p := range []*CommandPolicy{bundled(t, "readonly", ShellPOSIX), bundled(t, "build", ShellBash), noMake} {
		for _, script := range []string{
			strings.Repeat("nice -Z ", 60) + "ls",
			strings.Repeat("ccache -Z ", 60) + "ls",
			"hyperfine " + strings.Repeat("hyperfine ", 60),
			strings.Repeat("runuser -u x -Z ", 60) + "ls",
			strings.Repeat("nice -Z timeout 5 ", 60) + "ls",
			"nice -Z " + strings.Repeat("make ", 20_000),
			strings.Repeat("capsh -- -Z ", 60) + "ls",
			"env " + strings.Repeat("A=1 ", 10_000) + "nice -Z " + strings.Repeat("'a b' ", 10_000),
		} {
			if v := p.Judge(script, ""); v.Decision == Allow || v.Decision == Deny && v.Reason == "" {
				t.Errorf("%.30q is %s: %s", script, v.Decision, v.Reason)
			}
		}
	}
	// What is long but read once is judged.
	for script, want := range map[string]Decision{
		"sudo " + strings.Repeat("LANG=C ", 15_000) + "ls":                                   Deny, // sudo is not in the set
		"sudo " + strings.Repeat("LANG=C -n ", 10_000) + "ls":                                Deny,
		"ssh h " + strings.Repeat("-- ", 30_000) + "ls":                                      Deny,
		"curl " + strings.Repeat("-s ", 100_000) + "-T f " + strings.Repeat("a.b ", 100_000): Deny,
		"gzip " + strings.Repeat("-k ", 100_000) + strings.Repeat("a.b ", 100_000):           Deny,
		"env " + strings.Repeat("LANG=C ", 15_000) + "ls":                                    Allow,
		"env nice timeout 5 ls " + strings.Repeat("aaaaaaa ", 230_000):                       Allow,
	} {
		if v := bundled(t, "readonly", ShellPOSIX).Judge(script, ""); v.Decision != want || v.Reason == tooLarge {
			t.Errorf("%.30q is %s: %s", script, v.Decision, v.Reason)
		}
	}
	// What both dialects ask about is asked once.
	var b strings.Builder
	for i := range 6000 {
		b.WriteString("prog" + strings.Repeat("x", i%9) + "\n")
	}
	if v := noMake.Judge(b.String(), ""); v.Decision != Ask || len(v.Commands) != 6000 {
		t.Errorf("%s of %d commands: %s", v.Decision, len(v.Commands), v.Reason)
	}
}
