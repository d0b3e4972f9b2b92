package config

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"belljar/policy"
	"belljar/sandbox"
)

func mustLoad(t *testing.T, text string, o Options) *Config {
	t.Helper()
	c, err := load(t, text, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestDefaults(t *testing.T) {
	dir := t.TempDir()
	c, err := Load(Options{Workdir: dir})
	if err != nil {
		t.Fatal(err)
	}
	// The empty lists are not nil: no one's default goes there.
	want := sandbox.Defaults()
	want.Profile.Tmpfs, want.Profile.Secrets, want.Profile.Summarize.Command = []string{}, []sandbox.Secret{}, []string{}
	want.Profile.Policy = policy.Rules{
		Env:       []string{"CI", "LC_*"},
		Mounts:    []policy.MountRule{{Source: resolve(dir), Target: "/work", Mode: "ro"}},
		Protected: []string{"/var/lib/belljar", resolve("/run/belljar/belljar.sock")},
	}
	got := sandbox.Settings{Profile: c.Profiles["default"], Admission: c.Admission, Spool: c.Spool}
	if d := cmp.Diff(want, got); d != "" || len(c.Profiles) != 1 {
		t.Errorf("%d profiles; sandbox.Defaults, and what is configured: %s", len(c.Profiles), d)
	}
	serve := Serve{Listen: "unix:///run/belljar/belljar.sock", Hosts: []string{}, Origins: []string{}, MaxConnections: 2048, MaxRequests: 1024, MaxBody: 64 << 20, DrainTimeout: 30 * time.Second}
	if d := cmp.Diff(serve, c.Serve); d != "" || c.File != "" {
		t.Errorf("%q: %s", c.File, d)
	}
}

// What is turned off in the file stays off: a Runner would take what is zero for
// the default.
func TestNothing(t *testing.T) {
	c := mustLoad(t, "env: {set: []}\nidle_timeout: 0", Options{Flags: map[string]string{"pool.min": "0", "pool.max": "0", "queue.length": "0"}})
	p := c.Profiles["default"]
	if c.Admission.MaxQueued != sandbox.NoQueue || p.Pool.Max != sandbox.NoPool || p.Env == nil || len(p.Env) > 0 || p.IdleTimeout != sandbox.NoIdleTimeout {
		t.Errorf("%+v, %+v", c.Admission, p)
	}
}

// The shipped file says what holds without it, of every key.
func TestShippedFileIsTheDefaults(t *testing.T) {
	text, err := os.ReadFile("../sandbox.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, fileName), text, 0o600); err != nil {
		t.Fatal(err)
	}
	shipped, err := Load(Options{Workdir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defaults, err := Load(Options{Workdir: dir, Path: emptyFile(t, dir)})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range defaults.Settings() {
		got := shipped.Settings()[i]
		if got.Key != want.Key || got.Value != want.Value {
			t.Errorf("shipped %+v, but the default is %+v", got, want)
		}
		if !strings.HasPrefix(got.Source, "file ") {
			t.Errorf("%s is not in the shipped file", got.Key)
		}
	}
	example := shipped.Settings()[len(keys):]
	if len(example) != 2 || shipped.Profiles["build"].Limits.Memory != 2<<30 || shipped.Profiles["build"].IdleTimeout != 10*time.Minute {
		t.Errorf("the example profile sets %+v", example)
	}
}

func emptyFile(t *testing.T, dir string) string {
	path := filepath.Join(dir, "empty.yaml")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestProfilesInheritKeyByKey(t *testing.T) {
	c := mustLoad(t, `
timeout: 5m
engine: {runtime: runsc}
user: 1000
env: {set: [A=1, B=2], allow: [X]}
limits: {memory: 1GiB, pids: 64}
profiles:
  quick: {timeout: 5s, idle_timeout: 0, limits: {pids: 32}, env: {set: [C=3]}, on_timeout: command}
  empty: {}
  named: {user: "nobody:staff"}
`, Options{Path: fileName})
	top, quick := c.Profiles["default"], c.Profiles["quick"]
	if u := c.Profiles["named"].User; u != (sandbox.User{Name: "nobody:staff"}) {
		t.Errorf("by name: %+v", u)
	}
	if d := cmp.Diff(top, c.Profiles["empty"]); d != "" {
		t.Error(d)
	}
	want := top
	want.Timeout, want.IdleTimeout, want.Limits.Pids, want.Env = 5*time.Second, sandbox.NoIdleTimeout, 32, []string{"C=3"}
	want.OnTimeout = sandbox.EndCommand
	if d := cmp.Diff(want, quick); d != "" {
		t.Error(d)
	}
	if top.Runtime != "runsc" || top.User != (sandbox.User{UID: 1000, GID: 1000}) || top.Limits.Memory != 1<<30 || top.Limits.Files != 1024 {
		t.Errorf("%+v", top)
	}
	if c.Profiles["quick"].OnTimeout != sandbox.EndCommand || c.Profiles["default"].OnTimeout != sandbox.EndContainer {
		t.Error(c.Profiles)
	}
}

func TestOrderOfSources(t *testing.T) {
	c := mustLoad(t, `timeout: 4m
idle_timeout: 4m
limits: {memory: 1GiB}
profiles:
  p:
    timeout: 5m
    idle_timeout: 5m
    limits: {memory: 2GiB, pids: 20}
`, Options{
		Env:   []string{"BELLJAR_TIMEOUT=6m", "BELLJAR_LIMITS_MEMORY=3GiB", "BELLJAR_LIMITS_FILES=", "BELLJAR_ENV_SET=[A=b c]"},
		Flags: map[string]string{"timeout": "7m"},
	})
	for name, p := range c.Profiles {
		if p.Timeout != 7*time.Minute || p.Limits.Memory != 3<<30 || p.Limits.Files != 1024 || !slices.Equal(p.Env, []string{"A=b c"}) {
			t.Errorf("%s: %+v", name, p)
		}
	}
	got := map[string]Setting{}
	for _, s := range c.Settings() {
		got[s.Key] = s
	}
	for _, want := range []Setting{
		{"timeout", "7m", "flag --timeout"},
		{"limits.memory", "3GiB", "env BELLJAR_LIMITS_MEMORY"},
		{"idle_timeout", "4m", "file sandbox.yaml:2"},
		{"limits.pids", "128", "default"},
		{"env.set", `["A=b c"]`, "env BELLJAR_ENV_SET"},
		{"profiles.p.timeout", "7m", "flag --timeout"},
		{"profiles.p.limits.memory", "3GiB", "env BELLJAR_LIMITS_MEMORY"},
		{"profiles.p.idle_timeout", "5m", "file sandbox.yaml:7"},
		{"profiles.p.limits.pids", "20", "file sandbox.yaml:8"},
	} {
		if got[want.Key] != want {
			t.Errorf("got %+v, want %+v", got[want.Key], want)
		}
	}
}

func TestSearch(t *testing.T) {
	dir := t.TempDir()
	write := func(path, image string) string {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("image: "+image), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("work/sandbox.yaml", "workdir")
	write("home/.config/belljar/sandbox.yaml", "home")
	write("xdg/belljar/sandbox.yaml", "xdg")
	named := write("work/named.yaml", "named")
	work, home, xdg := dir+"/work", "HOME="+dir+"/home", "XDG_CONFIG_HOME="+dir+"/xdg"
	for _, test := range []struct {
		name, want string
		options    Options
	}{
		{"flag first", "named", Options{Path: named, Env: []string{"BELLJAR_CONFIG=/nowhere"}, Workdir: work}},
		{"then the variable", "named", Options{Env: []string{"BELLJAR_CONFIG=named.yaml"}, Workdir: work, NoWorkdir: true}},
		{"then the working directory", "workdir", Options{Workdir: work, Env: []string{home, xdg}}},
		{"unless it is left out", "xdg", Options{Workdir: work, NoWorkdir: true, Env: []string{home, xdg}}},
		{"then XDG", "xdg", Options{Workdir: dir, Env: []string{home, xdg}}},
		{"then home", "home", Options{Workdir: dir, Env: []string{home, "XDG_CONFIG_HOME=relative"}}},
		{"then none", "belljar/base", Options{Workdir: dir}},
	} {
		c, err := Load(test.options)
		if err != nil || c.Profiles["default"].Image != test.want {
			t.Errorf("%s: %v, %v", test.name, c, err)
		}
	}
	for _, o := range []Options{{Path: "none.yaml", Workdir: work}, {Env: []string{"BELLJAR_CONFIG=none.yaml"}, Workdir: work}} {
		if _, err := Load(o); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := Load(Options{Path: dir}); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Error(err)
	}
}

// What a file says is relative to the file, and links in it are resolved.
func TestPathsOfMounts(t *testing.T) {
	dir := resolve(t.TempDir())
	if err := os.MkdirAll(dir+"/conf/real", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real", dir+"/conf/link"); err != nil {
		t.Fatal(err)
	}
	path := dir + "/conf/my.yaml"
	if err := os.WriteFile(path, []byte("mounts: {allow: [{source: link}, {source: link/none, mode: rw}, {source: ..}]}\nserve: {token_file: token}"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(Options{Path: path, Workdir: "/", Env: []string{"HOME=" + dir}})
	if err != nil {
		t.Fatal(err)
	}
	rules := c.Profiles["default"].Policy.(policy.Rules)
	want := []policy.MountRule{{Source: dir + "/conf/real", Mode: "ro"}, {Source: dir + "/conf/real/none", Mode: "rw"}, {Source: dir, Mode: "ro"}}
	if d := cmp.Diff(want, rules.Mounts); d != "" {
		t.Error(d)
	}
	if !slices.Equal(rules.Fixed, []string{path}) || c.Serve.TokenFile != dir+"/conf/token" {
		t.Errorf("%+v", rules)
	}
	for _, own := range []string{dir + "/conf/token", dir + "/.config/belljar", "/run/belljar/belljar.sock"} {
		if !slices.Contains(rules.Protected, resolve(own)) {
			t.Errorf("%s is not protected by %q", own, rules.Protected)
		}
	}
}

// A volume is no path: nothing of this host is resolved by its name, and none of its directories can be written to by its rule.
func TestVolumes(t *testing.T) {
	dir := resolve(t.TempDir())
	if err := os.Symlink("/etc", dir+"/cache"); err != nil {
		t.Fatal(err)
	}
	path := dir + "/my.yaml"
	if err := os.WriteFile(path, []byte("mounts: {allow: [{volume: cache, target: /data, mode: rw}, {volume: models.v1}]}"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(Options{Path: path, Workdir: dir})
	if err != nil {
		t.Fatal(err)
	}
	rules := c.Profiles["default"].Policy.(policy.Rules)
	if d := cmp.Diff([]policy.MountRule{{Volume: "cache", Target: "/data", Mode: "rw"}, {Volume: "models.v1", Mode: "ro"}}, rules.Mounts); d != "" {
		t.Error(d)
	}
	if len(rules.Written) > 0 {
		t.Errorf("commands can write to %q", rules.Written)
	}
	if err := rules.CheckMount(sandbox.Mount{Source: "cache", Target: "/data", Writable: true}); err != nil {
		t.Error(err)
	}
	if err := rules.CheckMount(sandbox.Mount{Source: dir + "/cache", Target: "/data"}); sandbox.CauseOf(err) != sandbox.CauseDenied {
		t.Errorf("a directory of that name: %v", err)
	}
}

// In the root directory, as under an init system, ./ would be the whole host.
func TestDefaultMountInTheRootDirectory(t *testing.T) {
	c, err := Load(Options{Workdir: "/", NoWorkdir: true})
	if err != nil {
		t.Fatal(err)
	}
	if rules := c.Profiles["default"].Policy.(policy.Rules); len(rules.Mounts) != 0 {
		t.Errorf("allowed %+v", rules.Mounts)
	}
}

func TestSchemaHoldsEveryKey(t *testing.T) {
	var schema map[string]any
	if err := json.Unmarshal(Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	properties := func(s any) map[string]any { return s.(map[string]any)["properties"].(map[string]any) }
	profile := properties(properties(schema)[profilesKey].(map[string]any)["additionalProperties"])
	for _, k := range keys {
		at, inProfile := any(properties(schema)), any(profile)
		for name := range strings.SplitSeq(k.name, ".") {
			at, inProfile = step(at, name), step(inProfile, name)
		}
		described, ok := at.(map[string]any)
		if !ok || described["description"] != k.doc || described["default"] == nil {
			t.Errorf("%s: %v", k.name, at)
		}
		if (inProfile != nil) != k.command {
			t.Errorf("%s in a profile: %v", k.name, inProfile)
		}
	}
}

// step goes down to a property, of an object's schema or of properties.
func step(at any, name string) any {
	m, _ := at.(map[string]any)
	if inner, ok := m["properties"].(map[string]any); ok {
		m = inner
	}
	return m[name]
}

// A home directory that is not there is not made for the sake of a file in it.
func TestStateDir(t *testing.T) {
	home, root := t.TempDir(), ""
	if os.Getuid() == 0 {
		root = "/var/lib/belljar"
	}
	for want, env := range map[string][]string{
		home + "/.local/state/belljar": {"HOME=" + home},
		"/x/belljar":                   {"HOME=" + home, "XDG_STATE_HOME=/x"},
		"/y/belljar":                   {"HOME=/nonexistent", "XDG_STATE_HOME=/y"},
		root:                           {"HOME=/nonexistent"},
	} {
		c, err := Load(Options{Workdir: home, Env: env})
		if err != nil || c.StateDir != want {
			t.Errorf("%q: %q, error %v; want %q", env, c.StateDir, err, want)
		}
	}
}
