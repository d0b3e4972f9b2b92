package local_test

import (
	"testing"

	rules "belljar/policy"
	"belljar/sandbox"
)

// commandPolicy is a real one.
func commandPolicy(t *testing.T, set rules.CommandRules) rules.Rules {
	t.Helper()
	p, err := set.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return rules.Rules{Commands: p}
}

// "Always" was applied to other programs of the same name: of another PATH,
// with a preloaded library, by an alias, or in another directory.
func TestAlwaysIsForThatProgram(t *testing.T) {
	byDefault := rules.CommandRules{Default: rules.Ask}
	byRule := rules.CommandRules{Rules: []rules.CommandRule{{Name: "push", Commands: []string{"./gradlew", "git push"}, Decision: rules.Ask}}}
	other := rules.CommandRules{Default: rules.Allow, Rules: byRule.Rules}
	script := func(text string) sandbox.Command { return sandbox.Command{Script: text, Session: "dev"} }
	with := func(text, env string) sandbox.Command {
		return sandbox.Command{Script: text, Session: "dev", Env: []string{env}}
	}
	for name, test := range map[string]struct {
		set   rules.CommandRules
		first string
		next  sandbox.Command
		asked bool // or denied, but never unasked
	}{
		"the same":                        {byDefault, "curl x", script("curl x"), false},
		"with other words":                {byDefault, "curl x", script("curl y"), false},
		"with a variable that is no harm": {byDefault, "curl x", script("LC_ALL=C curl x"), false},
		"PATH":                            {byDefault, "curl x", script("PATH=/work/evil curl x"), true},
		"env PATH":                        {byDefault, "curl x", script("env PATH=/work/evil curl x"), true},
		"PATH for all":                    {byDefault, "curl x", script("export PATH=/work/evil; curl x"), true},
		"hash -p":                         {byDefault, "curl x", script("hash -p /work/evil curl; curl x"), true},
		"an alias":                        {byDefault, "curl x", script("alias curl=/work/evil\ncurl x"), true},
		"a function":                      {byDefault, "curl x", script("curl() { evil; }; curl x"), true},
		"LD_PRELOAD":                      {byDefault, "curl x", script("LD_PRELOAD=/work/e.so curl x"), true},
		"a redirection":                   {byDefault, "curl x", script("curl x >/work/f"), true},
		"GIT_SSH_COMMAND":                 {byDefault, "git push", script("GIT_SSH_COMMAND='sh /work/e' git push"), true},
		"git's alias":                     {byDefault, "git push", script("git -c alias.x='!curl evil' x"), true},
		"git's other command":             {byDefault, "git push", script("git commit"), true},
		"another script":                  {byDefault, "./build.sh", script("cd evil && ./build.sh"), true},
		"a script of the workspace":       {byDefault, "/work/x", script("/work/x"), true}, // which may have changed
		"a script in /tmp":                {byDefault, "/tmp/x.sh", script("/tmp/x.sh"), true},
		"a path that leaves the image's":  {byDefault, "/usr/bin/../../work/x", script("/usr/bin/../../work/x"), true},
		"the image's by its path":         {byDefault, "/usr/bin/curl x", script("/usr/bin/curl y"), false},
		"by -C":                           {byDefault, "curl x", sandbox.Command{Script: "curl x", Session: "dev", Dir: "/tmp"}, true},
		"PATH, by -e":                     {byDefault, "curl x", with("curl x", "PATH=/work/evil"), true},
		"a rule":                          {byRule, "git push", script("git push"), false},
		"a rule, PATH by -e":              {byRule, "git push", with("git push", "PATH=/work/evil"), true},
		"a rule, GIT_SSH_COMMAND by -e":   {byRule, "git push", with("git push", "GIT_SSH_COMMAND=sh -c 'curl evil'"), true},
		"a rule, another script":          {byRule, "./gradlew", sandbox.Command{Script: "./gradlew", Session: "dev", Dir: "/tmp"}, true},
		"allowed otherwise, PATH":         {other, "git push", script("PATH=/work/evil git push"), true},
		"allowed otherwise, PATH for all": {other, "git push", script("export PATH=/work/evil; git push"), true},
		"allowed otherwise, a function":   {other, "git push", script("git() { curl evil; }; git push"), true},
		"allowed otherwise, PATH of what": {other, "PATH=/work/x curl x", script("PATH=/work/evil curl x"), true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, s *stage) {
				l, deny := s.runner(), &approver{answer: sandbox.AnswerDeny}
				l.Approver = &approver{answer: sandbox.AnswerAlways}
				changeProfile(l, func(p *sandbox.Profile) { p.Policy = commandPolicy(t, test.set) })
				succeeds(t, l, script(test.first))
				l.Approver = deny
				if _, err := l.Prepare(t.Context(), test.next); (err != nil) != test.asked {
					t.Errorf("asked %d times: %v", len(deny.question), err)
				}
			})
		})
	}
}

// A rule with fewer limits than the session's container has is refused without a
// question, and the error says why.
func TestNarrowedInASession(t *testing.T) {
	set := rules.CommandRules{Default: rules.Allow}
	for name, decision := range map[string]rules.Decision{"make": rules.Ask, "go": rules.Allow} {
		set.Rules = append(set.Rules, rules.CommandRule{Name: name, Commands: []string{name}, Decision: decision, Grant: sandbox.Grant{Timeout: 9e9, Limits: sandbox.Limits{Memory: 64 << 20}}})
	}
	const want = `policy restricts the command (memory 64 MiB), and session "dev" has more (use another session for such commands, or none)`
	bubble(t, nil, func(t *testing.T, s *stage) {
		l, a := s.runner(), &approver{answer: sandbox.AnswerOnce}
		l.Approver = a
		changeProfile(l, func(p *sandbox.Profile) { p.Policy = commandPolicy(t, set) })
		succeeds(t, l, in("ls"))
		if _, err := l.Prepare(t.Context(), in("make")); err == nil || err.Error() != want || len(a.question) > 0 {
			t.Errorf("asked %d times: %v", len(a.question), err)
		}
		if r := ran(t, l, sandbox.StatusFatal, sandbox.CauseInvalid, in("go")); r.Message != want {
			t.Errorf("%s", r.Message)
		}
		l.RemoveSession(t.Context(), "dev")
		for range 2 {
			succeeds(t, l, in("make"))
		}
		if len(a.question) != 2 {
			t.Errorf("asked %d times", len(a.question))
		}
	})
}
