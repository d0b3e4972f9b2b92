package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"belljar/policy"
	"belljar/sandbox"
)

// loadNamed loads a file of that text as --config does.
func loadNamed(t *testing.T, text string, o Options) (*Config, error) {
	t.Helper()
	o.Workdir = t.TempDir()
	o.Path = "named.yaml"
	if err := os.WriteFile(filepath.Join(o.Workdir, o.Path), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(o)
}

func TestOutput(t *testing.T) {
	c, err := loadNamed(t, `
view: {mode: merged, bytes: 4KiB, lines: 50, line_chars: 200, charset: Shift_JIS, every: 250ms, scrollback: 300000, scrollback_bytes: 64MiB}
streams: view
encoding: replace
limits: {result: 1MiB}
spool: {total: 2GiB, age: 0, on_error: end}
summarize: {command: [sum, "", -a/b], over: 1MiB, timeout: 1m, replace: true}
profiles:
  quiet: {view: {mode: none, charset: ""}, summarize: {command: []}}
`, Options{Flags: map[string]string{"view.lines": "70"}})
	if err != nil {
		t.Fatal(err)
	}
	top, quiet := c.Profiles["default"], c.Profiles["quiet"]
	want := sandbox.View{Mode: sandbox.ViewMerged, Bytes: 4 << 10, Lines: 70, LineChars: 200, Charset: "Shift_JIS", Scrollback: 300000, ScrollbackBytes: 64 << 20}
	if top.View != want || top.LiveEvery != 250*time.Millisecond {
		t.Errorf("%+v, every %v", top.View, top.LiveEvery)
	}
	want.Mode, want.Charset = sandbox.ViewNone, ""
	if quiet.View != want || quiet.LiveEvery != top.LiveEvery {
		t.Errorf("%+v, every %v", quiet.View, quiet.LiveEvery)
	}
	if top.Streams != sandbox.StreamsView || top.Encoding != sandbox.EncodingReplace || top.Limits.Result != 1<<20 || !top.Summarize.Replace {
		t.Errorf("streams %q, encoding %q, %+v", top.Streams, top.Encoding, top.Limits)
	}
	if !slices.Equal(top.Summarize.Command, []string{"sum", "", "-a/b"}) || top.Summarize.Over != 1<<20 || top.Summarize.Timeout != time.Minute {
		t.Errorf("%+v", top.Summarize)
	}
	if len(quiet.Summarize.Command) != 0 || quiet.Summarize.Over != 1<<20 {
		t.Errorf("%+v", quiet.Summarize)
	}
	if c.Spool != (sandbox.Spooling{Total: 2 << 30, OnError: sandbox.SpoolEnd}) {
		t.Errorf("%+v", c.Spool)
	}
}

func TestBadProgram(t *testing.T) {
	for command, want := range map[string]string{
		"sum":             "named.yaml:1: summarize.command: must be a list, not a string (`belljar config schema` describes it)",
		"[./sum]":         `named.yaml:1: summarize.command[0]: the value is not a program (write its absolute path, or the name of one in PATH)`,
		"[~/sum]":         `named.yaml:1: summarize.command[0]: the value is not a program (write its absolute path, or the name of one in PATH)`,
		`[""]`:            `named.yaml:1: summarize.command[0]: the value is not a program (write its absolute path, or the name of one in PATH)`,
		`[sum, "a\0b"]`:   `named.yaml:1: summarize.command[1]: has a NUL byte (remove it)`,
		"[sum, {a: b}]":   "named.yaml:1: summarize.command[1]: must be a string, not a mapping (`belljar config schema` describes it)",
		"[head, -n, 100]": "named.yaml:1: summarize.command[2]: must be a string, not a number (write it in quotes)",
	} {
		if _, err := loadNamed(t, "summarize: {command: "+command+"}", Options{}); err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", command, err, want)
		}
	}
}

const refused = "concerns this host, so a file found in the working directory cannot set it" +
	" (set it in ~/.config/belljar/sandbox.yaml or /etc/belljar/sandbox.yaml, or trust this file by naming it with --config or BELLJAR_CONFIG)"

// A file that lies in the working directory may be anyone's: belljar in a
// clone of a repository must not run what the repository says, nor remove what
// commands elsewhere wrote.
func TestWorkingDirectoryIsUntrusted(t *testing.T) {
	for text, want := range map[string]string{
		"summarize: {command: [touch, /tmp/x]}":                         "sandbox.yaml:1: summarize.command: " + refused,
		"\nsummarize:\n  command:\n    - touch":                         "sandbox.yaml:4: summarize.command: " + refused,
		"profiles: {a: {summarize: {command: [touch]}}}":                "sandbox.yaml:1: profiles.a.summarize.command: " + refused,
		"summarize: {command: []}\nprofiles: {a: {summarize: 0}}":       "sandbox.yaml:2: profiles.a.summarize: must be a mapping, not a number (`belljar config schema` describes it)",
		"summarize.command: [touch]":                                    `sandbox.yaml:1: "summarize.command": a key cannot contain a dot (write the group, and below it the key)`,
		"summarize: {command: [], command: [touch]}":                    "sandbox.yaml:1: summarize.command: duplicate key, first on line 1 (remove one of them)",
		"profiles: {default: {summarize: {command: [touch]}}}":          "sandbox.yaml:1: profiles.default: the default profile is the top level (set its keys at the top level)",
		"profiles: {a: {<<: {summarize: {command: [touch]}}}}":          `sandbox.yaml:1: profiles.a."<<": unknown key (` + "`belljar config schema`" + ` lists the keys)`,
		"env: {allow: &a [touch]}\nsummarize: {command: *a}":            "sandbox.yaml:2: YAML aliases are not supported (write the value out)",
		"summarize: {command: touch}":                                   "sandbox.yaml:1: summarize.command: must be a list, not a string (`belljar config schema` describes it)",
		"summarize: {command: [], over: 1MiB, timeout: 1s}\nversion: 1": "",
		"spool: {age: 2h}":                                              "sandbox.yaml:1: spool.age: " + refused,
		"spool: {total: 1MiB}":                                          "sandbox.yaml:1: spool.total: " + refused,
		"spool: {age: 1h, total: 1GiB, on_error: end}":                  "",
	} {
		_, err := load(t, text, Options{})
		if got := errorText(err); got != want {
			t.Errorf("%s:\n got %s\nwant %s", text, got, want)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// What somebody named, or keeps where belljar's configuration belongs, is the
// operator's, and so are variables and flags.
func TestOperatorNamesAProgram(t *testing.T) {
	const text = "summarize: {command: [sum]}"
	dir := t.TempDir()
	own := filepath.Join(dir, "xdg", "belljar")
	if err := os.MkdirAll(own, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{filepath.Join(own, fileName), filepath.Join(dir, "named.yaml")} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	xdg := "XDG_CONFIG_HOME=" + dir + "/xdg"
	for name, o := range map[string]Options{
		"flag":                     {Path: "named.yaml", Workdir: dir},
		"variable that names it":   {Env: []string{"BELLJAR_CONFIG=named.yaml"}, Workdir: dir},
		"XDG":                      {Env: []string{xdg}, Workdir: dir},
		"in the XDG folder itself": {Env: []string{xdg}, Workdir: own},
		"variable":                 {Env: []string{"BELLJAR_SUMMARIZE_COMMAND=[sum]"}, Workdir: dir},
		"value of a flag":          {Flags: map[string]string{"summarize.command": "[sum]"}, Workdir: dir},
	} {
		c, err := Load(o)
		if err != nil || !slices.Equal(c.Profiles["default"].Summarize.Command, []string{"sum"}) {
			t.Errorf("%s: %v, %v", name, c, err)
		}
	}
}

// Programs run in /: what is written without the first slash is as much a file.
func TestRelativeArgumentsAreFixed(t *testing.T) {
	dir := resolve(t.TempDir())
	file := filepath.Join(dir, "fetch.sh")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	relative := strings.TrimPrefix(file, "/")
	for _, text := range []string{
		"summarize: {command: [sh, " + relative + "]}",
		"secrets: [{name: API_KEY, from: command, command: [sh, -e, ../" + relative + "]}]",
		"profiles: {a: {summarize: {command: [sh, ./" + relative + ", none]}}}",
	} {
		c, err := loadNamed(t, text, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if fixed := rulesOf(t, c, "default").Fixed; !slices.Equal(fixed, []string{c.File, file}) {
			t.Errorf("%s: %q", text, fixed)
		}
	}
}

// A mount that commands may write must not hold what runs on the host.
func TestProgramsAreFixed(t *testing.T) {
	dir := resolve(t.TempDir())
	for name, mode := range map[string]os.FileMode{"sum": 0o700, "sum.py": 0o600, "bin/tool": 0o700, "data/sum": 0o600} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	c, err := loadNamed(t, "summarize: {command: [sum, -v, /, "+dir+"/sum.py]}\nprofiles: {a: {summarize: {command: ["+dir+"/bin/tool]}}}",
		Options{Env: []string{"PATH=" + dir + "/data:" + dir}})
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range c.Profiles {
		fixed := p.Policy.(policy.Rules).Fixed
		if want := []string{c.File, dir + "/bin/tool", dir + "/sum", dir + "/sum.py"}; !slices.Equal(fixed, want) {
			t.Errorf("%s: %q, want %q", name, fixed, want)
		}
	}
}
