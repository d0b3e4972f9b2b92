package policy

import (
	"errors"
	"path"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"belljar/sandbox"
)

func TestAllowEnv(t *testing.T) {
	rules := Rules{Env: []string{"CI", "LC_*", "A*B*C", "*", "GH_TOKEN"}}
	narrow := Rules{Env: []string{"CI", "LC_*", "A*B*C", "A*A"}}
	for _, test := range []struct {
		rules Rules
		name  string
		want  bool
	}{
		{narrow, "CI", true},
		{narrow, "CIX", false},
		{narrow, "ci", false},
		{narrow, "LC_ALL", true},
		{narrow, "LC_", true},
		{narrow, "XLC_ALL", false},
		{narrow, "ABC", true},
		{narrow, "A_B_C", true},
		{narrow, "ABCD", false},
		{narrow, "AC", false},
		{narrow, "A", false}, // A*A needs two
		{narrow, "", false},
		{narrow, "LC_A=B", false},
		{narrow, "LC_%%", false},
		{Rules{}, "CI", false},
		{Rules{Env: []string{""}}, "CI", false},

		{rules, "EDITOR", true},
		{rules, "GH_TOKEN", true}, // by name
		{rules, "NPM_TOKEN", false},
		{rules, "npm_token", false},
		{rules, "LD_PRELOAD", false},
		{rules, "PATH", false},
		{rules, "BASH_ENV", false},
		{rules, "ENV", false},
		{rules, "ENVIRONMENT", true},
		{rules, "GIT_SSH_COMMAND", false},
		{rules, "PYTHONPATH", false},
		{rules, "SSH_AUTH_SOCK", false},
		{rules, "AWS_ACCESS_KEY_ID", false},
		{rules, "MY_PASSWORD_FILE", false},
		{rules, "1X", false},
		{rules, "BASH_FUNC_ls%%", false},
	} {
		if got := test.rules.AllowEnv(test.name); got != test.want {
			t.Errorf("AllowEnv(%q) of %q = %v", test.name, test.rules.Env, got)
		}
	}
}

var mountRules = Rules{
	Mounts: []MountRule{
		{Source: "/home/me/a", Target: "/work", Mode: ReadOnly},
		{Source: "/home/me/out", Target: "", Mode: ReadWrite},
		{Source: "/etc", Mode: ReadOnly},
		{Source: "/var", Mode: ReadOnly},
		{Source: "/", Target: "/all", Mode: ReadOnly},
		{Volume: "cache", Target: "/data", Mode: ReadWrite},
		{Volume: "models.v1", Mode: ReadOnly},
		{Source: "/home/me/c", Volume: "both", Mode: ReadWrite},
		{Volume: "/home/me/b", Mode: ReadWrite}, // which no one can name
		{Source: "work", Mode: ReadWrite},
	},
	Protected: []string{"/home/me/.config/belljar"},
	Fixed:     []string{"/home/me/out/conf/sandbox.yaml"},
}

func TestCheckMount(t *testing.T) {
	for _, test := range []struct{ mount, refusedBy string }{
		{"/home/me/a:/work:ro", ""},
		{"/home/me/a/b:/work/b:ro", ""},
		{"/home/me/out/x:/anywhere:rw", ""},
		{"/home/me/out/x:/anywhere:ro", ""},
		{"/home/me/out:/anywhere:ro", ""}, // the configuration may be seen
		{"/var/lib/me:/work:ro", ""},

		{"/home/me/a:/work:rw", "mounts.allow[0] (ro)"},
		{"/home/me/a:/workshop:ro", "mounts.allow[0] (target /work)"},
		{"/home/me/ab:/work:ro", "mounts.allow[4] (target /all)"},
		{"/home/me/a/../ab:/work:ro", "mounts.allow[4] (target /all)"},

		{"/:/all:ro", `rule "protected path /"`},
		{"/..:/all:ro", `rule "protected path /"`},
		{"/etc:/all:ro", `rule "protected path /etc"`},
		{"/etc/passwd:/x:ro", `rule "protected path /etc"`},
		{"/var:/x:ro", `rule "protected path /var/run"`},
		{"/var/lib:/x:ro", `rule "protected path /var/lib/docker"`},
		{"/run/docker.sock:/all/s:ro", `rule "protected path /run"`},
		{"/home:/all:ro", `rule "protected path /home/me/.config/belljar"`},
		{"/home/me/.config/belljar/token:/all:ro", `rule "protected path /home/me/.config/belljar"`},
		{"/home/me/out:/work:rw", `rule "belljar's configuration /home/me/out/conf/sandbox.yaml"`},
		{"/home/me/out/conf/sandbox.yaml:/work/s:ro", `rule "belljar's configuration /home/me/out/conf/sandbox.yaml"`},

		{"/home/me/out/x:/:ro", `rule "protected target /"`},
		{"/home/me/out/x:/usr/bin:ro", `rule "protected target /usr"`},
		{"/home/me/out/x:/work/../etc:ro", `rule "protected target /etc"`},
		{"cache:/data:rw", ""},
		{"cache:/data/sub:ro", ""},
		{"models.v1:/m:ro", ""},
		{"cache:/other:ro", "mounts.allow[5] (target /data)"},
		{"models.v1:/m:rw", "mounts.allow[6] (ro)"},
		{"caches:/data:ro", "no rule in mounts.allow"},
		{"models:/m:ro", "no rule in mounts.allow"},
		{"both:/m:ro", "no rule in mounts.allow"},
		{"work:/m:ro", "no rule in mounts.allow"},
		{"cache:/etc:ro", `rule "protected target /etc"`},
		{"cache:/:rw", `rule "protected target /"`},
		{"cache/..:/data:ro", `rule "absolute paths only"`},
		{"Cache:/data:ro", `rule "absolute paths only"`},
		{"..:/data:ro", `rule "absolute paths only"`},
		{":/data:ro", `rule "absolute paths only"`},
		{"cache:data:ro", `rule "absolute paths only"`},
		{"/cache:/data:ro", "mounts.allow[4] (target /all)"},
		{"/home/me/b:/data:ro", "mounts.allow[4] (target /all)"},

		{"home/me/a:/work:ro", `rule "absolute paths only"`},
		{"/home/me/a:work:ro", `rule "absolute paths only"`},
	} {
		parts := strings.Split(test.mount, ":")
		err := mountRules.CheckMount(sandbox.Mount{Source: parts[0], Target: parts[1], Writable: parts[2] == "rw"})
		if test.refusedBy == "" {
			if err != nil {
				t.Errorf("%s: %v", test.mount, err)
			}
			continue
		}
		var refused *sandbox.Error
		want := `mount "` + test.mount + `" denied: ` + test.refusedBy
		if !errors.As(err, &refused) || refused.Cause != sandbox.CauseDenied || refused.Message != want || refused.Hint == "" {
			t.Errorf("got %#v, want %s", err, want)
		}
	}
	err := Rules{}.CheckMount(sandbox.Mount{Source: "/home/me", Target: "/work"})
	if err == nil || !strings.Contains(err.Error(), `denied: no rule in mounts.allow`) {
		t.Errorf("zero rules: %v", err)
	}
}

func TestZeroMountRuleAllowsNothing(t *testing.T) {
	rules := Rules{Mounts: []MountRule{{}}}
	for _, source := range []string{"/home/me", "cache", ""} {
		if rules.CheckMount(sandbox.Mount{Source: source, Target: "/work"}) == nil {
			t.Errorf("%q is allowed", source)
		}
	}
}

func TestWritable(t *testing.T) {
	for dir, want := range map[string]bool{
		"/home/me/out": true, "/home/me/out/x": true, "/home/me/outer": false, "/home/me/a": false, "/home/me": false,
		"cache": false, ".": false, "/": false, // a volume is in no directory
	} {
		if got := mountRules.Writable(dir); got != want {
			t.Errorf("Writable(%q) = %v", dir, got)
		}
	}
}

// An allowed mount is below the source and the target of a rule, and contains no
// host path: checked here by components, independent of the tested comparison.
func TestAllowedMountsAreCovered(t *testing.T) {
	paths := rapid.Custom(func(t *rapid.T) string {
		parts := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "ab", "b", "etc", "var", "run", "..", ".", "", "A"}), 0, 5).Draw(t, "parts")
		return "/" + strings.Join(parts, "/")
	})
	modes := rapid.SampledFrom([]string{"", ReadOnly, ReadWrite})
	rapid.Check(t, func(t *rapid.T) {
		var rules Rules
		for range rapid.IntRange(0, 3).Draw(t, "rules") {
			rules.Mounts = append(rules.Mounts, MountRule{Source: paths.Draw(t, "source"), Target: paths.Draw(t, "target"), Mode: modes.Draw(t, "mode")})
		}
		m := sandbox.Mount{Source: paths.Draw(t, "s"), Target: paths.Draw(t, "t"), Writable: rapid.Bool().Draw(t, "w")}
		if rules.CheckMount(m) != nil {
			return
		}
		for _, host := range []string{"/etc", "/run", "/var/run"} {
			if below(host, m.Source) || below(m.Source, host) {
				t.Fatalf("allowed %+v, which touches %s", m, host)
			}
		}
		for _, rule := range rules.Mounts {
			if below(rule.Source, m.Source) && below(rule.Target, m.Target) && (!m.Writable || rule.Mode == ReadWrite) {
				return
			}
		}
		t.Fatalf("allowed %+v by none of %+v", m, rules.Mounts)
	})
}

func below(dir, p string) bool {
	for p = path.Clean(p); ; p = path.Dir(p) {
		if p == path.Clean(dir) {
			return true
		}
		if p == "/" {
			return false
		}
	}
}

func FuzzAllowEnv(f *testing.F) {
	f.Add("LC_*", "LC_ALL")
	f.Add("*", "PATH")
	f.Add("a**b", "ab")
	f.Fuzz(func(t *testing.T, glob, name string) {
		allowed := Rules{Env: []string{glob}}.AllowEnv(name)
		if allowed && glob != name && !strings.Contains(glob, "*") {
			t.Errorf("%q let %q through", glob, name)
		}
		if allowed && strings.ContainsAny(name, "=\x00%") {
			t.Errorf("%q passed", name)
		}
	})
}

// A name that looks like an allowed one is shown with its unusual characters.
func TestLookAlikes(t *testing.T) {
	p := bundled(t, "readonly", ShellPOSIX)
	for script, want := range map[string]string{
		"\u0435cho a":        "no rule matches \"\u0435cho\" (\"\\u0435cho\"), and the default is deny",
		"ls; \uff4c\uff53 a": "no rule matches \"\uff4c\uff53\" (\"\\uff4c\\uff53\"), and the default is deny",
		"git st\u0430tus":    "no rule matches \"git\" \"st\u0430tus\" (\"st\\u0430tus\"), and the default is deny",
		"sort --\u0430bc f":  "\"sort\" option \"--\u0430bc\" (\"--\\u0430bc\"), which rule \"read-files\" does not allow (add allow_unknown)",
		"cat a > d\u043enn":  "a redirection writes \"d\u043enn\" (\"d\\u043enn\"), which no path rule allows",
		"echo \u0435cho":     "it only reads and prints",
		"prog donn\u00e9es":  "no rule matches \"prog\", and the default is deny",
		"prog":               "no rule matches \"prog\", and the default is deny",
	} {
		if v := p.Judge(script, ""); v.Reason != want {
			t.Errorf("%q: %s", script, v.Reason)
		}
	}
}
