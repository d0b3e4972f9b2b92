package config

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"belljar/policy"
	"belljar/sandbox"
)

func rulesOf(t *testing.T, c *Config, profile string) policy.Rules {
	t.Helper()
	rules, ok := c.Profiles[profile].Policy.(policy.Rules)
	if !ok {
		t.Fatalf("no profile %q", profile)
	}
	return rules
}

func TestPolicy(t *testing.T) {
	const noPush = "{name: no-push, commands: [git push, git log], args: [\"*\"], deny: [--force], decision: deny, reason: ask me}"
	for _, test := range []struct{ file, script, decision, rule string }{
		{"", "rm -rf / \x01", "allow", ""}, // not judged
		{"policy: {default: allow, set: \"\", rules: []}", "rm \x01", "allow", ""},
		{"policy: {default: deny}", "ls", "deny", ""},
		{"policy: {default: ask}", "ls", "ask", ""},
		{"policy: {rules: [" + noPush + "]}", "git push origin", "deny", "no-push"},
		{"policy: {rules: [" + noPush + "]}", "git pull", "allow", ""},
		{"policy: {default: deny, set: readonly}", "git log", "allow", "git-reads"},
		{"policy: {default: deny, set: readonly, rules: [" + noPush + "]}", "git log -3", "deny", "no-push"},
		{"policy: {default: deny, set: build}", "GOOS=linux go build ./... > out", "allow", "build-tools"},
		{"policy: {default: deny, rules: [{name: e, commands: [echo], decision: allow, allow_unknown: true, writes: [/work/**], env: [A]}]}", `A=1 echo "$X" > /work/x`, "allow", "e"},
		{"policy: {default: deny, rules: [{name: e, commands: [echo], decision: allow, writes: [/work/**]}]}", "echo > /etc/x", "deny", ""},
		{"policy: {default: deny, rules: [{name: e, commands: [mk], decision: ask, allow: [runs]}]}", "mk x", "ask", "e"},
		{"policy: {default: deny, set: readonly}", "cat $'x'", "deny", ""},
		{"shell: bash\npolicy: {default: deny, set: readonly, shell: bash}", "cat $'x'", "allow", "read-files"},
		{"shell: bash\npolicy: {default: deny, set: readonly}", "cat $'x'", "allow", "read-files"},
		{"shell: bash\npolicy: {default: deny, set: readonly, shell: posix}", "cat $'x'", "deny", ""},
		{"shell: auto\npolicy: {default: deny, set: readonly}", "cat $'x'", "deny", ""}, // until it is known
	} {
		c := mustLoad(t, test.file, Options{})
		v := rulesOf(t, c, "default").JudgeScript(test.script, "", c.Profiles["default"].Shell)
		if v.Decision.String() != test.decision || v.Rule != test.rule && test.decision != "deny" {
			t.Errorf("%s\n%s: %v by %q: %s", test.file, test.script, v.Decision, v.Rule, v.Reason)
		}
	}
}

func TestPolicyOfProfiles(t *testing.T) {
	c := mustLoad(t, `
policy: {default: deny, set: git-readonly}
profiles:
  same: {timeout: 1m}
  more: {policy: {set: readonly}}
  free: {policy: {default: allow, set: ""}}
`, Options{})
	for profile, want := range map[string]policy.Decision{"default": policy.Deny, "same": policy.Deny, "more": policy.Allow, "free": policy.Allow} {
		if v := rulesOf(t, c, profile).JudgeScript("cat x", "", "sh"); v.Decision != want {
			t.Errorf("%s: %+v", profile, v)
		}
	}
	if rulesOf(t, c, "free").Commands != nil {
		t.Error("a profile that allows all is judged")
	}
}

func TestAskTimeout(t *testing.T) {
	c := mustLoad(t, "policy: {ask_timeout: 90s}\nprofiles: {p: {policy: {ask_timeout: 1s}}}", Options{})
	if d, p := c.Profiles["default"].AskTimeout, c.Profiles["p"].AskTimeout; d != 90*time.Second || p != time.Second {
		t.Error(d, p)
	}
	for file, want := range map[string]string{
		"policy: {ask_timeout: 999ms}": "policy.ask_timeout: 999ms is too short (at least 1s)",
		"policy: {ask_timeout: 5}":     "policy.ask_timeout: 5 has no unit (write 5s)",
	} {
		if _, err := load(t, file, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestBadPolicy(t *testing.T) {
	for rules, want := range map[string]string{
		"a":     "must be a list, not a string (`belljar config schema` describes it)",
		"[a]":   "[0]: must be a mapping, not a string (`belljar config schema` describes it)",
		"[{}]":  "[0]: the name is missing (write {name: no-push, commands: [git push], decision: deny})",
		"[{x}]": "[0].x: unknown key (a rule has name, commands, args, deny, decision, reason, allow_unknown, allow, writes, env, grant and secrets)",
		"[{name: a, commands: [b], decision: deny, grants: {}}]":                                "[0].grants: unknown key (did you mean grant? a rule has name, commands, args, deny, decision, reason, allow_unknown, allow, writes, env, grant and secrets)",
		"[{name: a, commands: [b], decision: allow, grant: [1m]}]":                              "[0].grant: must be a mapping, not a list (`belljar config schema` describes it)",
		"[{name: a, commands: [b], decision: allow, grant: {timeot: 1m}}]":                      "[0].grant.timeot: unknown key (did you mean timeout?)",
		"[{name: a, commands: [b], decision: allow, grant: {limits.pids: 5}}]":                  "[0].grant.\"limits.pids\": unknown key (did you mean limits.pids?)",
		"[{name: a, commands: [b], decision: allow, grant: {timeout: 30}}]":                     "[0].grant.timeout: 30 has no unit (write 30s)",
		"[{name: a, commands: [b], decision: allow, grant: {idle_timeout: 0}}]":                 "[0].grant.idle_timeout: 0 is too short (at least 1s)",
		"[{name: a, commands: [b], decision: allow, grant: {timeout: 1ms}}]":                    "[0].grant.timeout: 1ms is too short (at least 1s)",
		"[{name: a, commands: [b], decision: allow, grant: {limits: {memory: 1MiB}}}]":          "[0].grant.limits.memory: 1MiB is too small (at least 6MiB)",
		"[{name: a, commands: [b], decision: allow, grant: {limits: {pids: a}}}]":               "[0].grant.limits.pids: must be a number, not a string (write one such as 32)",
		"[{name: a, commands: [b], decision: allow, grant: {limits: {pids: 5, pids: 6}}}]":      "[0].grant.limits.pids: duplicate key, first on line 1 (remove one of them)",
		"[{name: a, commands: [b], decision: allow, grant: {network: bridge}}]":                 `[0].grant.network: the value is not valid (write one of none)`,
		"[{name: a, commands: [b], decision: allow, grant: {mounts: rw}}]":                      `[0].grant.mounts: the value is not valid (write one of ro, none)`,
		"[{name: a, commands: [b], decision: allow, grant: {secrets: [A]}}]":                    "[0].grant.secrets: unknown key (`belljar config schema` lists the keys)",
		"[{name: a, commands: [b], decision: allow, secrets: A}]":                               "[0].secrets: must be a list, not a string (`belljar config schema` describes it)",
		"[{name: a, commands: [b], decision: allow, secrets: [A-B]}]":                           `[0].secrets: "A-B": write a variable's name, such as API_KEY`,
		"[{name: a, commands: [b]}]":                                                            "[0]: the decision is missing (write {name: no-push, commands: [git push], decision: deny})",
		"[{name: a, commands: [b], decision: no}]":                                              `[0].decision: the value is not a decision (write allow, ask or deny)`,
		"[{name: a, commands: b, decision: deny}]":                                              "[0].commands: must be a list, not a string (`belljar config schema` describes it)",
		"[{name: a, commands: [5], decision: deny}]":                                            "[0].commands[0]: must be a string, not a number (write it in quotes)",
		"[{name: a, commands: [], decision: deny}]":                                             "[0].commands: name at least one",
		"[{name: a, commands: [l*], decision: deny}]":                                           `[0].commands: "l*": * stands for a whole word`,
		"[{name: a, name: b, commands: [c], decision: deny}]":                                   "[0].name: duplicate key, first on line 1 (remove one of them)",
		"[{name: '', commands: [c], decision: deny}]":                                           "[0].name: is empty (write a name; messages use it)",
		"[{name: '%d', commands: [c], deny: [o], decision: deny}]":                              `[0].deny: "o": write an option such as -o or --output`,
		"[{name: a, commands: [c], decision: allow, allow: [x]}]":                               `[0].allow: "x": write runs, writes or reads`,
		"[{name: a, commands: [c], decision: allow, writes: [..]}]":                             `[0].writes: "..": write a path without .., such as /work/**`,
		"[{name: a, commands: [c], decision: allow, env: [1A]}]":                                `[0].env: "1A": write a variable's name, or a glob such as LC_*`,
		"[{name: a, commands: [c], decision: allow, reason: \"a\\nb\"}]":                        "[0].reason: write one line",
		"[{name: a, commands: [c], decision: allow, allow_unknown: \"true\"}]":                  "[0].allow_unknown: must be true or false, not a string (write it without quotes)",
		"[{name: a, commands: [c], decision: allow}, {name: a, commands: [d], decision: deny}]": `[1].name: "a" is the name of the rule on line 1 (give each rule a name of its own)`,
		"[{name: read-files, commands: [c], decision: allow}], set: readonly, default: deny":    `: rules[0] has the name "read-files" of a rule in policy.set readonly (give it another name)`,
	} {
		_, err := load(t, "policy: {rules: "+rules+"}", Options{})
		want = "sandbox.yaml:1: policy.rules" + map[bool]string{true: ": "}[want[0] == 'm'] + want
		if err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", rules, err, want)
		}
	}
}

func TestSetNeedsADefault(t *testing.T) {
	_, err := load(t, "policy:\n  set: readonly", Options{})
	if err == nil || err.Error() != "sandbox.yaml:2: policy.set: readonly lists what is allowed, but policy.default allows everything else (set policy.default to deny or ask)" {
		t.Error(err)
	}
	if _, err := load(t, "policy: {set: all}", Options{}); err == nil || !strings.Contains(err.Error(), `the value is not valid (write one of readonly, git-readonly, build)`) {
		t.Error(err)
	}
}

func TestRulesGrant(t *testing.T) {
	c, err := loadNamed(t, `
secrets: [{name: API_KEY, from: env}, {name: OTHER, from: env}]
policy:
  default: deny
  rules:
    - name: build
      commands: [make]
      decision: allow
      secrets: [API_KEY, OTHER]
      grant:
        timeout: 1m
        idle_timeout: 30s
        limits: {memory: 256MiB, cpus: 0.5, pids: 32, output: 1MiB, tmp: 16MiB, files: 64}
        network: none
        mounts: ro
    - {name: deploy, commands: [deploy], decision: ask, grant: {timeout: 1h, mounts: none}, secrets: [API_KEY]}
`, Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := policy.Grant{
		Timeout: time.Minute, IdleTimeout: 30 * time.Second, Network: "none", Mounts: sandbox.ReadOnlyMounts,
		Limits:  sandbox.Limits{Memory: 256 << 20, CPUs: 0.5, Pids: 32, Output: 1 << 20, Tmp: 16 << 20, Files: 64},
		Secrets: []string{"API_KEY", "OTHER"},
	}
	if v := rulesOf(t, c, "default").JudgeScript("make", "", "sh"); !cmp.Equal(v.Grant, want) {
		t.Error(cmp.Diff(want, v.Grant))
	}
	want.Mounts, want.Secrets = sandbox.NoMounts, []string{"API_KEY"}
	if v := rulesOf(t, c, "default").JudgeScript("make && deploy", "", "sh"); !cmp.Equal(v.Grant, want) {
		t.Error(cmp.Diff(want, v.Grant))
	}
}

func TestRulesGiveSecretsThatThereAre(t *testing.T) {
	for text, want := range map[string]string{
		"{policy: {rules: [{name: a, commands: [b], decision: allow, secrets: [A]}]}}":                                                                `policy.rules: rules[0] grants secret "A", which does not exist (define it under secrets, or remove it from the rule)`,
		"{secrets: [{name: A, from: env}], policy: {rules: [{name: a, commands: [b], decision: allow, secrets: [A]}]}}":                               "",
		"{secrets: [{name: A, from: env}], policy: {rules: [{name: a, commands: [b], decision: allow, secrets: [A]}]}, profiles: {x: {secrets: []}}}": `grants secret "A"`,
	} {
		_, err := loadNamed(t, text, Options{})
		if got := errorText(err); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %s", text, got)
		}
	}
}

// Shown is what was written, and it can be read again.
func TestRulesAreShownAsWritten(t *testing.T) {
	const rules = `[{"name":"a","grant":{"limits":{"memory":"7m","cpus":0.5},"timeout":"1m"},"secrets":["A"],"commands":["b c"],"decision":"ask","allow":["runs"],"allow_unknown":true,"reason":"a \"<\""}]`
	c, err := loadNamed(t, "{secrets: [{name: A, from: env}], policy: {rules: "+rules+"}}", Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range c.Settings() {
		if s.Key == "policy.rules" && s.Value != rules {
			t.Error(s.Value)
		}
	}
}
