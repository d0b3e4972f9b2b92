package policy

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"belljar/sandbox"
)

func granting(name string, decision Decision, commands string, g Grant) CommandRule {
	r := rule(name, decision, commands)
	r.Grant = g
	return r
}

// Of all rules that a script uses the smallest limit counts, field by field.
func TestGrantsAreTheTightest(t *testing.T) {
	p := compile(t, CommandRules{Rules: []CommandRule{
		granting("a", Allow, "a", Grant{Timeout: time.Hour, IdleTimeout: time.Second, Mounts: sandbox.ReadOnlyMounts, Limits: sandbox.Limits{Memory: 7 << 20, CPUs: 2, Pids: 5, Tmp: 1 << 20, Disk: 3 << 20}}),
		granting("b", Ask, "b", Grant{Timeout: time.Minute, IdleTimeout: time.Hour, Network: "none", Limits: sandbox.Limits{Memory: 8 << 20, CPUs: 0.5, Output: 1 << 20, Files: 64, Disk: 2 << 20}}),
		granting("c", Allow, "c", Grant{Mounts: sandbox.NoMounts, Limits: sandbox.Limits{Pids: 4, Output: 1 << 10, Tmp: 1 << 30, Files: 32}}),
		rule("d", Allow, "d"),
		granting("no", Deny, "no", Grant{Timeout: time.Second}),
		granting("timeout", Allow, "timeout", Grant{Timeout: 2 * time.Second}),
	}})
	for script, want := range map[string]Grant{
		"d": {}, "cd x": {}, "no; a": {}, "a; x": {}, // a denied script gets nothing
		"a":            {Timeout: time.Hour, IdleTimeout: time.Second, Mounts: sandbox.ReadOnlyMounts, Limits: sandbox.Limits{Memory: 7 << 20, CPUs: 2, Pids: 5, Tmp: 1 << 20, Disk: 3 << 20}},
		"a | d":        {Timeout: time.Hour, IdleTimeout: time.Second, Mounts: sandbox.ReadOnlyMounts, Limits: sandbox.Limits{Memory: 7 << 20, CPUs: 2, Pids: 5, Tmp: 1 << 20, Disk: 3 << 20}},
		"timeout 5 d":  {Timeout: 2 * time.Second},
		"sh -c 'c; d'": {Mounts: sandbox.NoMounts, Limits: sandbox.Limits{Pids: 4, Output: 1 << 10, Tmp: 1 << 30, Files: 32}},
		"a $(b) || c": {
			Timeout: time.Minute, IdleTimeout: time.Second, Network: "none", Mounts: sandbox.NoMounts,
			Limits: sandbox.Limits{Memory: 7 << 20, CPUs: 0.5, Pids: 4, Output: 1 << 10, Tmp: 1 << 20, Files: 32, Disk: 2 << 20},
		},
	} {
		if v := p.Judge(script, ""); !cmp.Equal(v.Grant, want) {
			t.Errorf("%q (%s: %s): %s", script, v.Decision, v.Reason, cmp.Diff(want, v.Grant))
		}
	}
}

// Where it is not known which rule matches, all that may match count.
func TestGrantsOfRulesThatMayMatch(t *testing.T) {
	p := compile(t, CommandRules{Default: Allow, Rules: []CommandRule{
		granting("install", Allow, "tool install", Grant{Timeout: time.Minute, Secrets: []string{"A", "B"}}),
		granting("tool", Allow, "tool", Grant{Network: "none", Secrets: []string{"B", "C"}}),
		granting("curl", Allow, "curl", Grant{Limits: sandbox.Limits{Memory: 6 << 20}}),
	}})
	for script, want := range map[string]Grant{
		"tool install":  {Timeout: time.Minute, Secrets: []string{"A", "B"}},
		"tool test":     {Network: "none", Secrets: []string{"B", "C"}},
		"tool \"$x\"":   {Timeout: time.Minute, Network: "none", Secrets: []string{"B"}},
		"/usr/bin/curl": {Limits: sandbox.Limits{Memory: 6 << 20}}, // may be the rule's curl
		"$x":            {Timeout: time.Minute, Network: "none", Limits: sandbox.Limits{Memory: 6 << 20}},
		"eval \"$x\"":   {Timeout: time.Minute, Network: "none", Limits: sandbox.Limits{Memory: 6 << 20}},
		"ls":            {},
	} {
		if v := p.Judge(script, ""); v.Decision != Allow || !cmp.Equal(v.Grant, want) {
			t.Errorf("%q (%s: %s): %s", script, v.Decision, v.Reason, cmp.Diff(want, v.Grant))
		}
	}
}

// A script has one environment, so all its commands must be allowed a secret.
func TestSecretsAreGivenByAllRules(t *testing.T) {
	p := compile(t, CommandRules{Default: Allow, Writes: []string{"/tmp/**"}, Rules: []CommandRule{
		granting("deploy", Allow, "deploy", Grant{Secrets: []string{"KEY", "API"}}),
		granting("push", Ask, "push", Grant{Secrets: []string{"API"}}),
		granting("reads", Allow, "cat|cd|timeout|test", Grant{}),
	}})
	for script, want := range map[string]string{
		"deploy": "API KEY", "push": "API", "deploy && push": "API", "deploy; deploy x": "API KEY",
		"cd sub && test -f x && deploy": "API KEY", "timeout 5 deploy": "API KEY", "f() { deploy; }; f": "API KEY", "x=1; deploy": "API KEY",
		"sh -c 'cd x; deploy'": "API KEY", "eval deploy": "API KEY", "deploy > /tmp/x": "API KEY",
		"cat x": "", "deploy | cat": "", "deploy $(cat x)": "", "deploy; ls": "", "cd x": "", ":": "", "deploy; $x": "", "$x; deploy": "", "ls; deploy": "",
		"export -p >/tmp/x; deploy": "", "set >/tmp/x; deploy": "", "exec >/tmp/x; set; deploy": "", "exec 2>>/tmp/x; cd \"$KEY\"; deploy": "",
		"{ export -p; deploy; } >/tmp/x": "", "deploy 2>/dev/null; export -p": "API KEY", "set >&2; deploy": "API KEY", "{ deploy; } >/dev/null": "API KEY",
		"/usr/bin/deploy": "", "[ $x ] && deploy": "",
	} {
		if v := p.Judge(script, ""); v.Decision == Deny || strings.Join(v.Grant.Secrets, " ") != want {
			t.Errorf("%q (%s: %s) is given %q, want %q", script, v.Decision, v.Reason, v.Grant.Secrets, want)
		} else if both := len(v.Grant.Secrets) + len(v.Withheld); v.Decision != Deny && strings.Contains(script, "deploy") && !strings.Contains(script, "/deploy") && both != 2 {
			t.Errorf("%q is given %q, and withheld %q", script, v.Grant.Secrets, v.Withheld)
		}
	}
}

func TestGrantJSON(t *testing.T) {
	g := Grant{Timeout: 90 * time.Second, IdleTimeout: 1500 * time.Millisecond, Limits: sandbox.Limits{Memory: 1 << 30, CPUs: 0.5, Pids: 9}, Network: "none", Mounts: "ro", Secrets: []string{"A"}}
	text, err := json.Marshal(g)
	const want = `{"timeout_ms":90000,"idle_timeout_ms":1500,"limits":{"memory":1073741824,"cpus":0.5,"pids":9},"network":"none","mounts":"ro","secrets":["A"]}`
	if err != nil || string(text) != want {
		t.Errorf("%v: %s", err, text)
	}
	if text, err := json.Marshal(Grant{}); err != nil || string(text) != "{}" {
		t.Errorf("%v: %s", err, text)
	}
	if text, err := json.Marshal(Verdict{}); err != nil || strings.Contains(string(text), "grant") {
		t.Errorf("%v: %s", err, text)
	}
}

func TestGrantsAreChecked(t *testing.T) {
	for want, g := range map[string]Grant{
		"grant.timeout: 1ms is too short: write 1s or more":                     {Timeout: time.Millisecond},
		"grant.timeout: -1s is too short: write 1s or more":                     {Timeout: -time.Second},
		"grant.idle_timeout: 999ms is too short: write 1s or more":              {IdleTimeout: 999 * time.Millisecond},
		"grant.limits.memory: 5 bytes is below the minimum of 6 MiB":            {Limits: sandbox.Limits{Memory: 5}},
		"grant.limits.cpus: -1 is below the minimum of 0.01":                    {Limits: sandbox.Limits{CPUs: -1}},
		"grant.limits.pids: 3 is below the minimum of 4":                        {Limits: sandbox.Limits{Pids: 3}},
		"grant.limits.output: 1 byte is below the minimum of 1 KiB":             {Limits: sandbox.Limits{Output: 1}},
		"grant.limits.tmp: 1 byte is below the minimum of 64 KiB":               {Limits: sandbox.Limits{Tmp: 1}},
		"grant.limits.files: 31 is below the minimum of 32":                     {Limits: sandbox.Limits{Files: 31}},
		`grant.network: "host": a rule can only remove the network: write none`: {Network: "host"},
		`grant.mounts: "rw": write ro or none`:                                  {Mounts: "rw"},
		`secrets: "": write a variable's name, such as API_KEY`:                 {Secrets: []string{""}},
		`secrets: "A B": write a variable's name, such as API_KEY`:              {Secrets: []string{"A", "A B"}},
		`secrets: "A" is listed twice`:                                          {Secrets: []string{"A", "B", "A"}},
	} {
		_, err := CommandRules{Rules: []CommandRule{granting("r", Allow, "x", g)}}.Compile()
		if err == nil || !strings.Contains(err.Error(), `rule "r": `+want) {
			t.Errorf("%+v: %v, want %s", g, err, want)
		}
	}
	compile(t, CommandRules{Rules: []CommandRule{granting("r", Allow, "x", Grant{
		Timeout: time.Second, IdleTimeout: time.Second, Limits: sandbox.Limits{Memory: 6 << 20, CPUs: 0.01, Pids: 4, Output: 1 << 10, Tmp: 64 << 10, Files: 32},
		Network: "none", Mounts: "none", Secrets: []string{"A", "b_2"},
	})}})
}
