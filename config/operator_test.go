package config

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"belljar/policy"
	"belljar/sandbox"
)

// beside loads an untrusted file next to the operator's, and returns its directory.
func beside(t *testing.T, operators, untrusted string, o Options) (c *Config, file string, err error) {
	t.Helper()
	home := resolve(t.TempDir())
	file = filepath.Join(home, ".config/belljar", fileName)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(operators), 0o600); err != nil {
		t.Fatal(err)
	}
	o.Env = append(o.Env, "HOME="+home)
	c, err = load(t, untrusted, o)
	return c, file, err
}

func sourceOf(c *Config, key string) string {
	i := slices.IndexFunc(c.Settings(), func(s Setting) bool { return s.Key == key })
	if i < 0 {
		return ""
	}
	return c.Settings()[i].Source
}

// An untrusted file reset the operator's keys to their defaults by being there.
func TestUntrustedFileResetsNothing(t *testing.T) {
	of := map[string]string{
		"engine.kind":                       "oci",
		"engine.host":                       "tcp://mine:2375",
		"engine.runtime":                    "runsc",
		"engine.init":                       "/srv/belljar",
		"engine.limits":                     "best-effort",
		"max_running":                       "3",
		"queue.length":                      "3",
		"queue.wait":                        "3m",
		"pool.min":                          "1",
		"pool.max":                          "9",
		"pool.max_age":                      "3m",
		"serve.listen":                      "unix:///run/mine",
		"serve.token_file":                  "/srv/token",
		"serve.tls_cert":                    "/srv/cert",
		"serve.tls_key":                     "/srv/key",
		"serve.client_ca":                   "/srv/ca",
		"serve.hosts":                       "[belljar.internal]",
		"engine.kubernetes.kubeconfig":      "/etc/belljar/kubeconfig",
		"engine.kubernetes.context":         "there",
		"engine.kubernetes.namespace":       "sandboxes",
		"engine.kubernetes.image":           "registry.example.com/belljar:1",
		"engine.kubernetes.pull":            "always",
		"engine.kubernetes.start_timeout":   "1m",
		"engine.kubernetes.node_selector":   `["pool=sandboxes"]`,
		"engine.kubernetes.tolerations":     `["only=sandboxes:NoSchedule"]`,
		"engine.kubernetes.labels":          `["team=a"]`,
		"engine.kubernetes.priority_class":  "low",
		"engine.kubernetes.pull_secrets":    `["key-1"]`,
		"engine.kubernetes.seccomp":         "profiles/belljar.json",
		"engine.kubernetes.user_namespaces": "true",

		"serve.origins":         "[\"https://ci.example.com\"]",
		"serve.insecure":        "true",
		"serve.max_connections": "3",
		"serve.max_requests":    "3",
		"serve.max_body":        "1MiB",
		"serve.drain_timeout":   "1m",

		"serve.replicas.enabled":   "true",
		"serve.replicas.address":   "10.0.0.7",
		"serve.replicas.namespace": "belljar",
		"serve.replicas.ca":        "/srv/replicas",

		"secrets":           "[{name: API_KEY, from: env}]",
		"summarize.command": "[/bin/sum]",
		"spool.total":       "2GiB",
		"spool.age":         "2h",
		"audit.enabled":     "false",
		"audit.file":        "/srv/audit/a.jsonl",
		"audit.script":      "true",
		"audit.max_size":    "1MiB",
		"audit.keep":        "3",
		"audit.on_error":    "continue",
	}
	for _, k := range keys {
		if !k.host {
			continue
		}
		parts := strings.Split(k.name, ".")
		text := of[k.name]
		for i := len(parts) - 1; i > 0; i-- {
			text = "{" + parts[i] + ": " + text + "}"
		}
		text = parts[0] + ": " + text
		for _, untrusted := range []string{"", "image: other\nprofiles: {a: {timeout: 1m}}"} {
			if k.name == "secrets" {
				untrusted = strings.TrimPrefix(untrusted, "image: other\n")
			}
			c, file, err := beside(t, text, untrusted, Options{})
			if err != nil {
				t.Errorf("%s: %v", k.name, err)
			} else if source := sourceOf(c, k.name); source != "file "+file+":1" {
				t.Errorf("%s is of %q beside %q", k.name, source, untrusted)
			}
		}
		// It may say the same, and nothing else, be it the default.
		if _, _, err := beside(t, text, text, Options{}); err != nil {
			t.Errorf("the same %s: %v", k.name, err)
		}
		other := strings.Replace(text, of[k.name], cmp.Or(k.def, `""`), 1)
		if _, _, err := beside(t, text, other, Options{}); errorText(err) != "sandbox.yaml:1: "+k.name+": "+refused {
			t.Errorf("%s: %v", other, err)
		}
	}
	c, _, err := beside(t, "audit: {keep: 3, script: true}\nsummarize: {command: [a]}\nprofiles: {a: {summarize: {command: [b]}}, b: {image: c}}", "profiles: {a: {}, z: {}}", Options{Env: []string{"BELLJAR_AUDIT_KEEP=4"}})
	if err != nil {
		t.Fatal(err)
	}
	if c.Audit.Keep != 4 || !c.Audit.Script || len(c.Profiles) != 3 {
		t.Errorf("%+v", c)
	}
	for profile, want := range map[string]string{"default": "a", "a": "b", "z": "a"} {
		if got := c.Profiles[profile].Summarize.Command; !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %q", profile, got)
		}
	}
	if source := sourceOf(c, "profiles.a.summarize.command"); !strings.HasSuffix(source, ".config/belljar/sandbox.yaml:3") {
		t.Errorf("profile's: %q", source)
	}
}

// The other keys are the untrusted file's alone: the operator's are of other work.
func TestUntrustedFileReplacesTheRest(t *testing.T) {
	c, _, err := beside(t, "image: mine\nlimits: {memory: 1GiB}\nprofiles: {a: {}}", "timeout: 5m", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if p := c.Profiles["default"]; p.Image != "belljar/base" || p.Limits.Memory != 512<<20 || p.Timeout != 5*time.Minute || len(c.Profiles) != 1 {
		t.Errorf("%+v", c.Profiles)
	}
}

func TestOperatorsFileIsReadStrictly(t *testing.T) {
	for operators, want := range map[string]string{
		"tiemout: 3s":                  ":1: tiemout: unknown key (did you mean timeout?)",
		"\naudit: {keep: 0}":           ":2: audit.keep: 0 is out of range (from 1 to 10000)",
		"profiles: {a: {image: [b]}}}": ": did not find expected key (check the indentation, colons and quotes there)",
	} {
		if _, file, err := beside(t, operators, "", Options{}); errorText(err) != file+want {
			t.Errorf("%s: %v", operators, err)
		}
	}
	// Both files' problems are reported together.
	_, file, err := beside(t, "a: 1", "b: 1", Options{})
	if got := errorText(err); !strings.Contains(got, file+":1: a: ") || !strings.Contains(got, "sandbox.yaml:1: b: ") {
		t.Error(got)
	}
	if _, _, err := beside(t, "a: 1", "", Options{Path: fileName}); err != nil {
		t.Errorf("beside a file that was named: %v", err)
	}
}

// The user's file comes before the system's, and only one of them counts.
func TestOperatorsFileOfTheSystem(t *testing.T) {
	systemDir = t.TempDir()
	t.Cleanup(func() { systemDir = "/etc/belljar" })
	file := filepath.Join(systemDir, fileName)
	if err := os.WriteFile(file, []byte("audit: {keep: 3}"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := mustLoad(t, "", Options{})
	if c.Audit.Keep != 3 || !slices.Contains(rulesOf(t, c, "default").Fixed, resolve(file)) {
		t.Errorf("%+v", c)
	}
	if c, _, err := beside(t, "timeout: 1m", "", Options{}); err != nil || c.Audit.Keep != 8 {
		t.Errorf("%+v, %v", c, err)
	}
}

// What the operator's file names stays out of reach: of the profiles, too, that a
// untrusted file has not.
func TestOperatorsFilesAreProtected(t *testing.T) {
	dir := resolve(t.TempDir())
	for _, name := range []string{"log/x", "keys/a", "keys2/b", "token/t", "bin/sum", "bin2/fetch.sh", "conf/real.yaml", "src/x"} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	home := filepath.Join(dir, "home")
	if err := os.MkdirAll(filepath.Join(home, ".config/belljar"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir+"/conf/real.yaml", filepath.Join(home, ".config/belljar", fileName)); err != nil {
		t.Fatal(err)
	}
	relative := strings.TrimPrefix(dir, "/")
	operators := `
audit: {file: ` + dir + `/log/a.jsonl}
serve: {token_file: ` + dir + `/token/t, tls_cert: ` + dir + `/tls/cert, tls_key: ` + dir + `/tls2/key, client_ca: ` + dir + `/tls3/ca}
secrets: [{name: AAA, from: file, file: ` + dir + `/keys/a}]
profiles:
  gone:
    summarize: {command: [` + dir + `/bin/sum]}
    secrets: [{name: BBB, from: file, file: ` + dir + `/keys2/b}, {name: CCC, from: command, command: [sh, ` + relative + `/bin2/fetch.sh]}]
`
	if err := os.WriteFile(dir+"/conf/real.yaml", []byte(operators), 0o600); err != nil {
		t.Fatal(err)
	}
	const untrusted = "mounts: {allow: [{source: ., target: /work, mode: rw}]}\nprofiles: {a: {}}"
	if err := os.WriteFile(filepath.Join(dir, fileName), []byte(untrusted), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(Options{Workdir: dir, Env: []string{"HOME=" + home, "BELLJAR_AUDIT_FILE=/srv/other/a.jsonl"}})
	if err != nil {
		t.Fatal(err)
	}
	for profile, p := range c.Profiles {
		for name, readable := range map[string]bool{"/log": false, "/keys": false, "/keys2": false, "/token": false, "/tls": false, "/tls2": false, "/tls3": false, "/bin": true, "/bin2": true, "/conf": true, "/home": false} {
			m := sandbox.Mount{Source: dir + name, Target: "/work", Writable: true}
			if err := p.Policy.CheckMount(m); sandbox.CauseOf(err) != sandbox.CauseDenied {
				t.Errorf("%s, %s, to write: %v", profile, name, err)
			}
			m.Writable = false
			if err := p.Policy.CheckMount(m); (err == nil) != readable {
				t.Errorf("%s, %s, to read: %v", profile, name, err)
			}
		}
		if err := p.Policy.CheckMount(sandbox.Mount{Source: dir + "/src", Target: "/work", Writable: true}); err != nil {
			t.Errorf("%s: %v", profile, err)
		}
	}
}

func TestUntrustedFileLoosensNoPolicy(t *testing.T) {
	const loose = "policy: {rules: [{name: all, commands: [rm], decision: allow, allow_unknown: true}]}"
	for _, test := range []struct {
		name, operators, untrusted string
		env                        []string
		want                       policy.Decision // on rm, of the default profile and of a
		problem                    string
	}{
		{name: "stays", operators: "policy: {default: deny}", untrusted: "profiles: {a: {}}", want: policy.Deny},
		{name: "is not replaced", operators: "policy: {default: deny}", untrusted: loose, problem: "sandbox.yaml:1: policy.rules: you have a policy of your own"},
		{name: "nor by the default", operators: "policy: {default: deny}", untrusted: "policy: {default: allow}", problem: "sandbox.yaml:1: policy.default: you have a policy"},
		{name: "nor by a stricter one", operators: "policy: {default: ask}", untrusted: "policy: {default: deny}", problem: "sandbox.yaml:1: policy.default: you have a policy"},
		{name: "nor by a profile", operators: "policy: {rules: [{name: r, commands: [rm], decision: deny}]}", untrusted: "profiles: {a: {policy: {rules: []}}}", problem: "sandbox.yaml:1: profiles.a.policy.rules: you have a policy"},
		{name: "nor its patience", operators: "policy: {default: ask}", untrusted: "policy: {ask_timeout: 24h}", problem: "sandbox.yaml:1: policy.ask_timeout: you have a policy"},
		{name: "one of a profile is one, too", operators: "profiles: {z: {policy: {default: deny}}}", untrusted: loose, problem: "sandbox.yaml:1: policy.rules: you have a policy"},
		{name: "the same may be said", operators: "policy: {default: deny}", untrusted: "policy: {default: deny, set: \"\"}\nprofiles: {a: {}}", want: policy.Deny},
		{name: "of a variable", env: []string{"BELLJAR_POLICY_DEFAULT=deny"}, untrusted: loose, problem: ": see BELLJAR_POLICY_DEFAULT (to use this file's policy, name it with --config"},
		{name: "none is not kept", operators: "timeout: 1m\npolicy: {default: allow, ask_timeout: 1m}", untrusted: "policy: {default: deny}\nprofiles: {a: {}}", want: policy.Deny},
	} {
		c, file, err := beside(t, test.operators, test.untrusted, Options{Env: test.env})
		if test.problem != "" {
			if !strings.Contains(errorText(err), test.problem) || test.operators != "" && !strings.Contains(errorText(err), ": see "+file) {
				t.Errorf("%s: %v", test.name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		for _, profile := range []string{"default", "a"} {
			if v := rulesOf(t, c, profile).JudgeScript("rm x", "", "sh"); v.Decision != test.want {
				t.Errorf("%s: %s: %+v", test.name, profile, v)
			}
		}
	}
}

// An image or a network that an untrusted file chooses would get the granted secrets,
// and could replace the programs that the operator's rules name.
func TestUntrustedFileDivertsNothing(t *testing.T) {
	const top = "image: mine\n"
	for what, more := range map[string]string{
		ownSecrets.what:       "secrets: [{name: API_KEY, from: env}]",
		ownPolicyTargets.what: "policy: {default: deny, set: readonly}",
	} {
		operators := top + more
		c, _, err := beside(t, operators, "timeout: 5m\nmounts: {allow: [{source: ., target: /work/x, mode: rw}]}\nprofiles: {a: {limits: {pids: 32}}}", Options{})
		if err != nil {
			t.Fatal(err)
		}
		for profile, p := range c.Profiles {
			if p.Image != "mine" || p.Timeout != 5*time.Minute {
				t.Errorf("%s: %+v", profile, p)
			}
		}
		name, value, _ := strings.Cut(more, ": ")
		variable := "BELLJAR_" + strings.ToUpper(name) + "=" + value
		if name == "policy" {
			variable = "BELLJAR_POLICY_DEFAULT=deny"
		}
		place, _, _ := strings.Cut(variable, "=")
		for untrusted, key := range map[string]string{
			"image: evil":                       "image",
			"image: belljar/base":               "image", // the operator's is another
			"pull: always":                      "pull",
			"network: bridge":                   "network",
			"user: 1000":                        "user",
			"user: nobody":                      "user",
			"workdir: /usr/local/bin":           "workdir",
			"env: {set: [PATH=/work/bin:/bin]}": "env.set",
			"env: {allow: [LD_PRELOAD]}":        "env.allow",
			"mounts: {allow: [{source: .}]}":    "mounts.allow[0].target",
			"mounts: {allow: [{source: ., target: /usr/local/bin}]}": "mounts.allow[0].target",
			"profiles: {a: {image: evil}}":                           "profiles.a.image",
			"profiles: {a: {env: {set: [PATH=/work/bin]}}}":          "profiles.a.env.set",
		} {
			_, file, err := beside(t, operators, untrusted, Options{})
			if text := errorText(err); !strings.HasPrefix(text, "sandbox.yaml:1: "+key+": ") || !strings.Contains(text, what+": see "+file) {
				t.Errorf("%s: %v", untrusted, err)
			}
			_, _, err = beside(t, top, untrusted, Options{Env: []string{variable}})
			if text := errorText(err); !strings.HasPrefix(text, "sandbox.yaml:1: "+key+": ") || !strings.Contains(text, what+": see "+place) {
				t.Errorf("%s, %s: %v", untrusted, variable, err)
			}
			if _, _, err := beside(t, operators, untrusted, Options{Path: fileName}); err != nil {
				t.Errorf("%s, named: %v", untrusted, err)
			}
		}
	}
}
