package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"belljar/policy"
)

// askPolicy runs belljar policy, and returns its stdout and exit status.
func askPolicy(t *testing.T, args ...string) (string, int, error) {
	t.Helper()
	var out strings.Builder
	cmd := rootCmd()
	cmd.SetArgs(append([]string{"policy"}, args...))
	cmd.SetOut(&out)
	err := cmd.ExecuteContext(t.Context())
	if exit, ok := errors.AsType[exitError](err); ok {
		return out.String(), int(exit), nil
	}
	if err != nil {
		return out.String(), exitFor(err), err
	}
	return out.String(), 0, nil
}

const policyFile = `
secrets: [{name: API, from: env}, {name: KEY, from: env}]
policy: {rules: [{name: no-rm, commands: [rm], decision: deny, reason: it removes}, {name: push, commands: [git push], decision: ask}]}
profiles:
  strict: {policy: {default: deny, rules: []}}
  placed: {policy: {default: deny, rules: [{name: in-sub, commands: [touch], decision: allow, writes: [/work/sub/**]}]}}
  granting:
    policy:
      rules:
        - {name: make, commands: [make], decision: allow, secrets: [KEY, API], grant: {timeout: 90s, limits: {memory: 256MiB, cpus: 0.5}, network: none, mounts: ro}}
        - {name: deploy, commands: [deploy], decision: ask, secrets: [API], grant: {idle_timeout: 5s, limits: {pids: 9, output: 1KiB, tmp: 1MiB, files: 99}, mounts: none}}
`

func inPolicyFile(t *testing.T) {
	t.Helper()
	own := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", own)
	t.Chdir(t.TempDir())
	if err := os.Mkdir(filepath.Join(own, "belljar"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(own, "belljar", "sandbox.yaml"), []byte(policyFile), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A list of denials under a default that allows is advice only, which explain
// says where the default is why something is allowed.
func TestPolicyShowsAdvice(t *testing.T) {
	inPolicyFile(t)
	const advice = "Allowed by the default only: rules that deny are advice, because"
	for script, want := range map[string]bool{"starter rm x": true, "ls": true, "rm x": false, "git push": false} {
		if out, _, err := askPolicy(t, "explain", script); err != nil || strings.Contains(out, advice) != want {
			t.Errorf("%q: %v\n%s", script, err, out)
		}
	}
	if out, _, err := askPolicy(t, "explain", "--set", "readonly", "ls | wc -l"); err != nil || strings.Contains(out, advice) {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestPolicyShowsGrants(t *testing.T) {
	inPolicyFile(t)
	out, _, err := askPolicy(t, "explain", "--profile", "granting", "make; deploy")
	const want = `
runs: deploy, make

at most: timeout 1m30s, idle timeout 5s, memory 256 MiB, cpus 0.5, pids 9, output 1 KiB, tmp 1 MiB, files 99, network none, no mounts
gets secrets: API
does not get, because not every rule for its commands grants it: KEY
`
	if err != nil || !strings.HasSuffix(out, want) {
		t.Errorf("%v\n%s", err, out)
	}
	out, _, err = askPolicy(t, "explain", "--profile", "granting", "make")
	if err != nil || !strings.HasSuffix(out, ", network none, mounts read-only\ngets secrets: API, KEY\n") {
		t.Errorf("%v\n%s", err, out)
	}
	out, _, err = askPolicy(t, "check", "--profile", "granting", "--format", "json", "make")
	if err != nil || !strings.HasSuffix(out, `,"grant":{"timeout_ms":90000,"limits":{"memory":268435456,"cpus":0.5},"network":"none","mounts":"ro","secrets":["API","KEY"]}}`+"\n") {
		t.Errorf("%v\n%s", err, out)
	}
	out, _, err = askPolicy(t, "check", "--profile", "granting", "--format", "json", "ls")
	if err != nil || strings.Contains(out, "grant") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestPolicyCheck(t *testing.T) {
	inPolicyFile(t)
	for _, test := range []struct {
		args   string
		status int
		want   string
	}{
		{"ls; rm a", 126, "deny: rule \"no-rm\" at 1:5: it removes\n"},
		{"git push", 3, "ask: rule \"push\" at 1:1: rule \"push\" says ask\n"},
		{"ls", 0, "allow: default at 1:1: no rule matches \"ls\", and the default is allow\n"},
		{"--profile strict ls", 126, "deny: default at 1:1: no rule matches \"ls\", and the default is deny\n"},
		{"--set build rm x", 0, "allow: rule \"change-files\" at 1:1: it changes files of the workspace\n"},
		{"--set readonly -- rm x", 126, "deny: default at 1:1: no rule matches \"rm\", and the default is deny\n"},
		{"--set all ls", 125, `--set "all" is unknown: use readonly, git-readonly, build (see --help)`},
		{"--set build --profile strict ls", 125, "--set and --profile exclude each other: leave out one (see --help)"},
		{"--profile none ls", 125, `no profile "none" (use one of: default, granting, placed, strict)`},
		{"--format xml ls", 125, `--format "xml" is unknown (use text or json)`},
		{"", 125, "give a script, such as: belljar policy check 'git status' (see --help)"},
	} {
		args := []string{"check"}
		if test.args != "" {
			args = append(args, flagsAnd(test.args)...)
		}
		out, status, err := askPolicy(t, args...)
		if err != nil {
			out = err.Error()
		}
		if status != test.status || out != test.want {
			t.Errorf("%s: exit status %d, %s", test.args, status, out)
		}
	}
}

// flagsAnd takes leading flags with their values off the script.
func flagsAnd(line string) []string {
	var args []string
	for strings.HasPrefix(line, "--") {
		words := strings.SplitN(line, " ", 3)
		if words[0] == "--" {
			args, line = append(args, "--"), strings.Join(words[1:], " ")
			break
		}
		args, line = append(args, words[:2]...), words[2]
	}
	return append(args, line)
}

// What a script may write to depends on where it starts.
func TestPolicyDir(t *testing.T) {
	inPolicyFile(t)
	const allowed = "allow: rule \"in-sub\" at 1:1: rule \"in-sub\" says allow\n"
	const denied = "deny: rule \"in-sub\" at 1:7: \"touch\" writes \"x\", which rule \"in-sub\" does not allow (add a path to its writes, or allow: [writes])\n"
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--profile", "placed", "touch x"}, denied},
		{[]string{"--profile", "placed", "--dir", "sub", "touch x"}, allowed},
		{[]string{"--profile", "placed", "--dir", "/work/sub", "touch x"}, allowed},
		{[]string{"--profile", "placed", "--dir", "/tmp", "touch x"}, denied},
		{[]string{"--dir", "../x", "touch x"}, `--dir "../x" leads out of the working directory: name a directory in it, such as sub (see --help)`},
		{[]string{"--set", "build", "--dir", "sub", "touch x"}, `--dir "sub" is relative, and --set has no working directory: write an absolute path (see --help)`},
	} {
		out, status, err := askPolicy(t, append([]string{"check"}, test.args...)...)
		if err != nil {
			out = err.Error()
		}
		if out != test.want {
			t.Errorf("%q: exit status %d, %s", test.args, status, out)
		}
	}
}

func TestPolicyJSON(t *testing.T) {
	out, status, err := askPolicy(t, "check", "--set", "readonly", "--format", "json", "cd x && rm y")
	var v policy.Verdict
	if err != nil || json.Unmarshal([]byte(out), &v) != nil || status != 126 {
		t.Fatalf("%v, exit status %d, %s", err, status, out)
	}
	if v.Decision != policy.Deny || v.Span.Column != 9 || strings.Contains(out, "grant") || !strings.Contains(out, `"unknown":[]`) {
		t.Error(out)
	}
}

// What a terminal would act on is in no string of the JSON, either.
func TestPolicyJSONIsSafeToLookAt(t *testing.T) {
	out, _, err := askPolicy(t, "check", "--set", "readonly", "--format", "json", "rm\u202e'<&>'\u009b2J")
	if err != nil || strings.ContainsAny(out, "\u202e\u009b") || !strings.HasSuffix(out, "}\n") {
		t.Errorf("%v: %q", err, out)
	}
	out, _, err = askPolicy(t, "check", "--set", "readonly", "--format", "json", "rm\u200d'<&>'")
	if err != nil || strings.Contains(out, "\u200d") || !strings.Contains(out, `rm\u200d<&>`) {
		t.Errorf("%v: %q", err, out)
	}
}

func TestPolicyExplain(t *testing.T) {
	for name, test := range map[string]struct{ script, want string }{
		"tabs and wide characters": {"echo '日本\t' && rm 日本; ls", `deny: default at 1:19: no rule matches "rm", and the default is deny

  echo '日本\t' && rm 日本; ls
                   ^^^^^^^

runs: echo, ls, rm
`},
		"several lines": {"ls\nrm 'a\n\nb' c", `deny: default at 2:1: no rule matches "rm", and the default is deny

  ls
  rm 'a
  ^^^^^

  b' c
  ^^^^

runs: ls, rm
`},
		"escapes": {"ls \x1b[2J", `deny: default at 1:4: the script contains the control character U+001B

  ls \x1b[2J
     ^^^^
`},
		"what turns text around": {"ls \u202e", `deny: default at 1:4: the script contains the control character U+202E

  ls \u202e
     ^^^^^^
`},
		"unknown": {"$X", `deny: default at 1:1: known only when it runs: which program runs

  $X
  ^^

unknown at 1:1: which program runs
`},
	} {
		t.Run(name, func(t *testing.T) {
			out, status, err := askPolicy(t, "explain", "--set", "readonly", test.script)
			if err != nil || status != 0 || strings.ReplaceAll(out, "  \n", "\n") != test.want {
				t.Errorf("%v, exit status %d\n%s", err, status, out)
			}
		})
	}
}
