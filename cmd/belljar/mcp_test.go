package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"belljar/config"
	"belljar/policy"
	"belljar/sandbox"
)

// The guide shows what --print-config prints.
func TestMCPConfigIsDocumented(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../docs/mcp.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, client := range mcpClients {
		text, err := client.config("/usr/local/bin/belljar", "/home/me/project", []string{"mcp"})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(guide), "\n"+text+"```\n") || !strings.Contains(string(guide), client.file) {
			t.Errorf("docs/mcp.md has no block with\n%s\nor does not name %s", text, client.file)
		}
	}
}

func TestMCPConfig(t *testing.T) {
	t.Parallel()
	f := &mcpFlags{profile: "build", image: "golang", write: true}
	args := f.arguments("/etc/b.yaml")
	if want := []string{"mcp", "--config", "/etc/b.yaml", "--profile", "build", "--image", "golang", "--write"}; !slices.Equal(args, want) {
		t.Errorf("%q, want %q", args, want)
	}
	const odd = "/tmp/a \"b\\\n<&>\x7fé"
	const written = `"/tmp/a \"b\\\n<&>\u007fé"`
	for _, client := range mcpClients {
		text, err := client.config(odd, odd, []string{"mcp"})
		wanted := []string{written, `["mcp", "--dir", ` + written + `]`}
		if client.dir != "" {
			wanted[1] = client.dir
		}
		for _, want := range wanted {
			if err != nil || !strings.Contains(text, want) {
				t.Errorf("%s: %s, error %v, want %s", client.name, text, err, want)
			}
		}
		if _, err := client.config("/tmp/\xff", "/", nil); err == nil || !strings.Contains(err.Error(), "is not valid UTF-8") {
			t.Errorf("%s: error %v", client.name, err)
		}
	}
}

// Each process has a directory, and removes those of processes that were killed.
func TestOwnDir(t *testing.T) {
	t.Parallel()
	parent := filepath.Join(t.TempDir(), "state", "mcp")
	var all sync.WaitGroup
	dirs := make([]*ownDir, 8)
	for i := range dirs {
		all.Go(func() {
			var err error
			if dirs[i], err = makeOwnDir(parent); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
	dirs[0].lock.Close() // as if its process were killed
	last, err := makeOwnDir(parent)
	if err != nil {
		t.Fatal(err)
	}
	for i, d := range append(dirs, last) {
		_, err := os.Stat(d.path)
		if lives := i > 0; (err == nil) != lives {
			t.Errorf("directory %d: %v, want it there: %v", i, err, lives)
		}
		if i > 0 {
			if err := d.remove(); err != nil {
				t.Error(err)
			}
		}
	}
	if left, err := os.ReadDir(parent); err != nil || len(left) != 1 {
		t.Errorf("left %v, error %v", left, err)
	}
}

// loaded is an operator's configuration, "" being none.
func loaded(t *testing.T, home, yaml string) *config.Config {
	t.Helper()
	o := config.Options{NoWorkdir: true, Env: []string{"HOME=" + home, "PATH=/usr/bin"}}
	if yaml != "" {
		o.Path = filepath.Join(t.TempDir(), "sandbox.yaml")
		if err := os.WriteFile(o.Path, []byte("version: 1\n"+yaml), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := config.Load(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestProject(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	dir := filepath.Join(home, "project")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil { // root's test may serve it writable, too
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		yaml, profile      string
		write              bool
		push, make, format policy.Decision
		refused            string
	}{
		"nothing configured": {push: policy.Ask, make: policy.Allow, format: policy.Ask},
		"writable":           {write: true, push: policy.Ask, make: policy.Allow, format: policy.Ask},
		"other keys":         {yaml: "timeout: 5m\nprofiles: {p: {network: none}}", profile: "p", push: policy.Ask, make: policy.Allow, format: policy.Ask},
		"own policy":         {yaml: "policy: {default: deny, rules: [{name: push, commands: [git push], decision: allow}]}", push: policy.Allow},
		"no policy":          {yaml: `env: {set: []}` + "\npolicy: {default: deny}", push: policy.Deny},
		"policy of another profile": {yaml: "profiles: {p: {policy: {default: deny}}, q: {timeout: 1m}}", profile: "q",
			push: policy.Ask, make: policy.Allow, format: policy.Ask},
		"policy of the profile": {yaml: "profiles: {p: {policy: {default: deny}}}", profile: "p"},
		"own mounts":            {yaml: "mounts: {allow: [{source: /srv}]}", refused: "allow it in mounts.allow of your sandbox.yaml"},
		"own mounts that allow": {yaml: "mounts: {allow: [{source: " + home + "}]}", push: policy.Ask, make: policy.Allow, format: policy.Ask},
		"own mounts, read-only": {yaml: "mounts: {allow: [{source: " + home + "}]}", write: true, refused: "mounts.allow[0] (ro)"},
		"no such profile":       {profile: "x", refused: `no profile "x"`},
	} {
		if test.profile == "" {
			test.profile = sandbox.DefaultProfile
		}
		p := project{config: loaded(t, home, test.yaml), profile: test.profile, dir: dir, write: test.write}
		err := p.apply()
		if test.refused != "" {
			if err == nil || !strings.Contains(err.Error(), test.refused) {
				t.Errorf("%s: error %v, want %s", name, err, test.refused)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := p.config.Profiles[test.profile]
		if want := []sandbox.Mount{{Source: dir, Target: "/work", Writable: test.write}}; !slices.Equal(got.Mounts, want) {
			t.Errorf("%s: mounts %+v, want %+v", name, got.Mounts, want)
		}
		if err := got.Policy.CheckMount(got.Mounts[0]); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for script, want := range map[string]policy.Decision{"git push": test.push, "make": test.make, "mkfs x": test.format} {
			if v := got.Policy.JudgeScript(script, "/work", sandbox.ShellSh); v.Decision != want {
				t.Errorf("%s: %s is %v, want %v", name, script, v.Decision, want)
			}
		}
	}
}

// What has more than a project in it is not served.
func TestProjectDirectories(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	state := filepath.Join(home, ".local", "state", "belljar")
	if err := os.MkdirAll(state, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(home, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(home, filepath.Join(home, "link")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"/":                          "is your home directory, or contains it",
		home:                         "is your home directory, or contains it",
		filepath.Dir(home):           "is your home directory, or contains it",
		filepath.Join(home, "link"):  "is your home directory, or contains it",
		state:                        "protected path " + state,
		filepath.Dir(state):          "protected path " + state,
		"/etc":                       "protected path /etc",
		"/proc/self":                 "protected path /proc",
		file:                         "not a directory: name another with --dir",
		filepath.Join(home, "other"): "no such file or directory: name another with --dir",
	} {
		dir, err := directory(name)
		if err == nil {
			err = project{config: loaded(t, home, ""), profile: sandbox.DefaultProfile, dir: dir}.apply()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", name, err, want)
		}
	}
}
