package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"belljar/policy"
	"belljar/sandbox"
)

func TestSecrets(t *testing.T) {
	c, err := loadNamed(t, `
secrets:
  - {name: API_KEY, from: env}
  - {name: TOKEN, from: env, variable: CI_TOKEN}
  - {name: DB, from: file, file: /run/secrets/db}
  - {name: VAULT, from: command, command: [vault, read, "-field=value", kv/app]}
profiles:
  same: {}
  none: {secrets: []}
  other: {secrets: [{name: ONE, from: env}]}
`, Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := []sandbox.Secret{
		{Name: "API_KEY", From: sandbox.SecretEnv}, {Name: "TOKEN", From: sandbox.SecretEnv, Variable: "CI_TOKEN"},
		{Name: "DB", From: sandbox.SecretFile, File: "/run/secrets/db"},
		{Name: "VAULT", From: sandbox.SecretCommand, Command: []string{"vault", "read", "-field=value", "kv/app"}},
	}
	for profile, want := range map[string][]sandbox.Secret{"default": want, "same": want, "none": {}, "other": {{Name: "ONE", From: sandbox.SecretEnv}}} {
		if d := cmp.Diff(want, c.Profiles[profile].Secrets); d != "" {
			t.Errorf("%s: %s", profile, d)
		}
	}
	i := slices.IndexFunc(c.Settings(), func(s Setting) bool { return s.Key == "secrets" })
	shown, err := loadNamed(t, "secrets: "+c.Settings()[i].Value, Options{})
	if err != nil || !cmp.Equal(want, shown.Profiles["default"].Secrets) {
		t.Errorf("shown as %s: %v", c.Settings()[i].Value, err)
	}
}

func TestBadSecrets(t *testing.T) {
	const (
		at      = "named.yaml:1: secrets[0]"
		missing = " is missing (write {name: API_KEY, from: env}, {name: API_KEY, from: file, file: /path} or {name: API_KEY, from: command, command: [PROGRAM, ARG]})"
	)
	for secret, want := range map[string]string{
		"API_KEY":                                       at + ": must be a mapping, not a string (`belljar config schema` describes it)",
		"{from: env}":                                   at + ": the name" + missing,
		"{name: A}":                                     at + ": the from" + missing,
		"{name: A, from: file}":                         at + ": the file" + missing,
		"{name: A, from: command}":                      at + ": the command" + missing,
		"{name: A, from: vault}":                        at + `.from: the value is not a source (write env, file, command)`,
		"{name: A, from: [env]}":                        at + ".from: must be a string, not a list (`belljar config schema` describes it)",
		"{name: a-b, from: env}":                        at + `.name: the value cannot be a secret's name (use letters, digits and _, but not a name that shells set or use themselves, such as UID or BASH_ENV)`,
		"{name: BASH_ENV, from: env}":                   at + `.name: the value cannot be a secret's name (use letters, digits and _, but not a name that shells set or use themselves, such as UID or BASH_ENV)`,
		"{name: A, from: env, variable: a=b}":           at + `.variable: the value is not a variable's name (write its name alone)`,
		"{name: A, from: env, file: /a}":                at + ".file: goes with from: file (remove it)",
		"{name: A, from: file, file: /a, command: [a]}": at + ".command: goes with from: command (remove it)",
		"{name: A, from: file, file: a}":                at + `.file: the value is not absolute (write its whole path)`,
		"{name: A, from: file, file: ~/a}":              at + `.file: the value is not absolute (write its whole path)`,
		"{name: A, from: command, command: []}":         at + ".command: is empty (write [PROGRAM, ARG])",
		"{name: A, from: command, command: a}":          at + ".command: must be a list, not a string (`belljar config schema` describes it)",
		"{name: A, from: command, command: [./a, b]}":   at + `.command[0]: the value is not a program (write its absolute path, or the name of one in PATH)`,
		"{name: A, from: env, value: b}":                at + ".value: unknown key (a secret has name, from, variable, file and command)",
		"{name: A, from: env}, {name: A, from: env}":    `named.yaml:1: secrets[1].name: "A" is also the secret on line 1 (remove one of them)`,
		"{name: LANG, from: env}":                       "env.set: sets LANG for every command, but it is one of secrets (remove it there, or give the secret another name)",
	} {
		if _, err := loadNamed(t, "secrets: ["+secret+"]", Options{}); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s:\n got %v\nwant %s", secret, err, want)
		}
	}
}

// A file that lies in the working directory may be anyone's: it has no say in
// what of the host's reaches a command.
func TestUntrustedFilesDefineNoSecrets(t *testing.T) {
	for text, want := range map[string]string{
		"secrets: [{name: A, from: env, variable: AWS_SECRET_ACCESS_KEY}]": "sandbox.yaml:1: secrets: " + refused,
		"profiles: {a: {secrets: [{name: A, from: env}]}}":                 "sandbox.yaml:1: profiles.a.secrets: " + refused,
		"secrets: []": "",
	} {
		_, err := load(t, text, Options{})
		if got := errorText(err); got != want {
			t.Errorf("%s:\n got %s\nwant %s", text, got, want)
		}
	}
	const rules = "policy: {rules: [{name: a, commands: [b], decision: allow, secrets: [A]}]}"
	own := Options{Env: []string{"BELLJAR_SECRETS=[{name: A, from: env}]"}}
	if _, err := load(t, rules, own); err == nil || !strings.Contains(err.Error(), "sandbox.yaml:1: policy.rules: rules[0] grants secrets, which a file found in the working directory cannot do") {
		t.Errorf("gives away: %v", err)
	}
	if _, err := loadNamed(t, rules, own); err != nil {
		t.Errorf("named: %v", err)
	}
}

// No command may mount a secret's file, or change what fetches one.
func TestSecretsAreProtected(t *testing.T) {
	dir := resolve(t.TempDir())
	for _, name := range []string{"keys/db", "real/key", "bin/fetch"} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("real/key", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	c, err := loadNamed(t, `
secrets:
  - {name: DB, from: file, file: `+dir+`/keys/../keys/db}
profiles:
  a: {secrets: [{name: A, from: file, file: `+dir+`/link}, {name: B, from: command, command: [fetch, `+dir+`/keys/db]}]}
mounts: {allow: [{source: `+dir+`, mode: rw}]}
`, Options{Env: []string{"PATH=" + dir + "/bin"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range c.Profiles {
		rules := p.Policy.(policy.Rules)
		for source, want := range map[string]bool{"": false, "/keys": false, "/keys/db": false, "/link": false, "/real": false, "/bin": false, "/other": true} {
			m := sandbox.Mount{Source: dir + source, Target: "/work", Writable: true}
			if err := rules.CheckMount(m); (err == nil) != want {
				t.Errorf("profile %s, %q: %v", name, source, err)
			}
		}
		if err := rules.CheckMount(sandbox.Mount{Source: dir + "/bin", Target: "/work"}); err != nil {
			t.Errorf("to read programs: %v", err)
		}
	}
}
