package policy

import (
	"strings"
	"testing"

	"belljar/sandbox"

	"pgregory.net/rapid"
)

func mustNarrow(t interface{ Fatal(...any) }, r Rules, by sandbox.Rules) sandbox.Policy {
	p, err := r.Narrow(by)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestNarrow(t *testing.T) {
	build := bundledRules(t, "build")
	asking := Rules{Commands: compiled(t, CommandRules{Default: Ask, Rules: []CommandRule{{Name: "no-rm", Commands: []string{"rm"}, Decision: Deny}, {Name: "ls", Commands: []string{"ls"}, Decision: Allow}}})}
	for name, test := range map[string]struct {
		base   Rules
		by     sandbox.Rules
		script string
		want   Decision
		rule   string
	}{
		"allowed by both":                    {Rules{}, sandbox.Rules{Allow: []string{"git status"}}, "git status -s", Allow, ""},
		"not among what is allowed":          {Rules{}, sandbox.Rules{Allow: []string{"git status"}}, "git status; git push", Deny, ownRules},
		"denied":                             {Rules{}, sandbox.Rules{Deny: []string{"git push"}}, "git push", Deny, "deny git push"},
		"denied, however deep":               {Rules{}, sandbox.Rules{Deny: []string{"git push"}}, `sh -c 'true && git -C . push'`, Deny, "deny git push"},
		"not denied":                         {Rules{}, sandbox.Rules{Deny: []string{"git push"}}, "git status", Allow, ""},
		"deny wins over allow":               {Rules{}, sandbox.Rules{Allow: []string{"git"}, Deny: []string{"git push"}}, "git push", Deny, "deny git push"},
		"a set":                              {Rules{}, sandbox.Rules{Set: "readonly"}, "ls | head", Allow, ""},
		"outside the set":                    {Rules{}, sandbox.Rules{Set: "readonly"}, "make", Deny, ownRules},
		"a set and more":                     {Rules{}, sandbox.Rules{Set: "readonly", Allow: []string{"make"}}, "make && ls", Allow, ""},
		"the policy denies what they do not": {build, sandbox.Rules{Allow: []string{"curl"}}, "curl x", Deny, ""},
		"a set within a set":                 {build, sandbox.Rules{Set: "readonly"}, "make", Deny, ownRules},
		"the policy asks, they allow":        {asking, sandbox.Rules{Allow: []string{"make"}}, "make", Ask, ""},
		"the policy asks, they deny":         {asking, sandbox.Rules{Allow: []string{"ls"}}, "make", Deny, ownRules},
		"the policy denies by its rule":      {asking, sandbox.Rules{Allow: []string{"rm"}}, "rm x", Deny, "no-rm"},
		"what cannot be known":               {Rules{}, sandbox.Rules{Allow: []string{"ls"}}, `ls; "$X"`, Deny, ownRules},
		"a file that no rule lets write":     {Rules{}, sandbox.Rules{Allow: []string{"echo"}}, "echo x > /work/y", Deny, "allow echo"},
	} {
		v := mustNarrow(t, test.base, test.by).JudgeScript(test.script, "/work", "sh")
		if v.Decision != test.want || v.Rule != test.rule {
			t.Errorf("%s: %v by %q (%s), want %v by %q", name, v.Decision, v.Rule, v.Reason, test.want, test.rule)
		}
	}
}

func bundledRules(t *testing.T, name string) Rules {
	set, ok := Bundled(name)
	if !ok {
		t.Fatal(name)
	}
	return Rules{Commands: compiled(t, set)}
}

func compiled(t *testing.T, r CommandRules) *CommandPolicy {
	p, err := r.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Own rules only restrict: they allow no command and add no grant.
func TestNarrowNeverWidens(t *testing.T) {
	grant := CommandRules{Default: Ask, Rules: []CommandRule{
		{Name: "no-rm", Commands: []string{"rm"}, Decision: Deny},
		{Name: "deploy", Commands: []string{"deploy"}, Decision: Allow, Grant: Grant{Secrets: []string{"S"}, Network: "none"}},
		{Name: "make", Commands: []string{"make"}, Decision: Allow},
	}}
	bases := []Rules{{}, bundledRules(t, "readonly"), bundledRules(t, "build"), {Commands: compiled(t, grant)}}
	words := []string{"ls", "rm", "make", "deploy", "git push", "git status", "cat x", "curl", "$X", "sh -c ls", "echo > f", "env make", "cd /tmp"}
	rapid.Check(t, func(t *rapid.T) {
		base := rapid.SampledFrom(bases).Draw(t, "base")
		pattern := rapid.SliceOfN(rapid.SampledFrom([]string{"ls", "rm", "make", "deploy", "git", "git push", "*", "curl"}), 0, 3)
		by := sandbox.Rules{Allow: pattern.Draw(t, "allow"), Deny: pattern.Draw(t, "deny"), Set: rapid.SampledFrom([]string{"", "readonly", "build", "git-readonly"}).Draw(t, "set")}
		script := strings.Join(rapid.SliceOfN(rapid.SampledFrom(words), 1, 4).Draw(t, "script"), " ; ")
		p := mustNarrow(t, base, by)
		before, after := base.JudgeScript(script, "/work", "sh"), p.JudgeScript(script, "/work", "sh")
		if after.Decision > before.Decision {
			t.Fatalf("%q: %v, without them %v", script, after.Decision, before.Decision)
		}
		if len(after.Grant.Secrets) > len(before.Grant.Secrets) || before.Grant.Network != "" && after.Decision > Deny && after.Grant.Network == "" {
			t.Fatalf("%q: granted %+v, without them %+v", script, after.Grant, before.Grant)
		}
		if (p.Hash() == base.Hash()) != (len(by.Allow)+len(by.Deny)+len(by.Set) == 0) {
			t.Fatal("the same hash")
		}
	})
}

func TestNarrowRefuses(t *testing.T) {
	for want, by := range map[string]sandbox.Rules{
		`rules.set: "nosuch" is not a bundled set (use readonly, git-readonly, build)`: {Set: "nosuch"},
		`* stands for a whole word`:                        {Allow: []string{"git*"}},
		`commands: "" has no program`:                      {Deny: []string{""}},
		`write words without quotes`:                       {Deny: []string{"ls; rm"}},
		`rules.allow: 101 rules with one command are more`: {Allow: make([]string, 101)},
		`rules.deny[0]: longer than 1000 bytes`:            {Deny: []string{strings.Repeat("a", 1001)}},
	} {
		_, err := Rules{}.Narrow(by)
		if err == nil || !strings.Contains(err.Error(), want) || sandbox.CauseOf(err) != sandbox.CauseInvalid {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := (Rules{}).Narrow(sandbox.Rules{Allow: []string{"ls", "ls"}, Deny: []string{"rm", "rm"}}); err != nil {
		t.Error(err)
	}
}
