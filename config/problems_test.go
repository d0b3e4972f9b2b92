package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// load loads a file of that text from a folder of its own.
func load(t *testing.T, text string, o Options) (*Config, error) {
	t.Helper()
	o.Workdir = t.TempDir()
	if err := os.WriteFile(filepath.Join(o.Workdir, fileName), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(o)
}

// noRoot is the hint about root.
const noRoot = "use a UID above 0, such as 65534:65534, because root in a container can more easily become root on the host; if you need root to install packages, build an image: belljar images build debian --packages, or use a profile with user: root"

func TestBadFiles(t *testing.T) {
	for _, test := range []struct{ name, file, want string }{
		{"unknown key", "tiemout: 3s", "1: tiemout: unknown key (did you mean timeout?)"},
		{"unknown key below a group", "limits:\n  pid: 4", "2: limits.pid: unknown key (did you mean limits.pids?)"},
		{"key of a group at the top", "memory: 1g", "1: memory: unknown key (did you mean limits.memory?)"},
		{"unknown key like no other", "foo: blue", "1: foo: unknown key (`belljar config schema` lists the keys)"},
		{"key in another case", "Timeout: 30s", "1: Timeout: unknown key (did you mean timeout?)"},
		{"key with a dot", "limits.memory: 1g", `1: "limits.memory": a key cannot contain a dot (write the group, and below it the key)`},
		{"key that is shown quoted", `"a\e[31m": 1`, "1: \"…\": unknown key (`belljar config schema` lists the keys)"},
		{"merge key", "<<: {timeout: 3s}", "1: \"<<\": unknown key (`belljar config schema` lists the keys)"},
		{"duplicate key", "timeout: 3s\n\ntimeout: 4s", "3: timeout: duplicate key, first on line 1 (remove one of them)"},
		{"duplicate key below", "limits: {pids: 4, pids: 5}", "1: limits.pids: duplicate key, first on line 1 (remove one of them)"},

		{"bare number of seconds", "timeout: 30", "1: timeout: 30 has no unit (write 30s)"},
		{"bare number in quotes", `timeout: "1.5"`, "1: timeout: 1.5 has no unit (write 1.5s)"},
		{"bare number of bytes", "limits: {memory: 512}", "1: limits.memory: 512 has no unit (write 512MiB)"},
		{"bare number of many bytes", "limits: {memory: 536870912}", "1: limits.memory: 536870912 has no unit (write 536870912B)"},
		{"unit of another kind", "timeout: 30MiB", `1: timeout: "30MiB" is not a duration (write 30s, 10m or 1h30m)`},
		{"size in seconds", "limits: {tmp: 30s}", `1: limits.tmp: "30s" is not a size (write 512MiB or 2GiB)`},
		{"size out of this world", "limits: {tmp: 99999999999TiB}", "1: limits.tmp: 99999999999TiB is too large (at most 1024TiB)"},
		{"negative time", "timeout: -5s", "1: timeout: -5s is too short (at least 1s)"},
		{"short idle time", "idle_timeout: 1ms", "1: idle_timeout: 1ms is too short (at least 1s, or 0 for none)"},
		{"zero timeout", "timeout: 0s", "1: timeout: 0s is too short (at least 1s)"},

		{"list for a string", "image: [a]", "1: image: must be a string, not a list (`belljar config schema` describes it)"},
		{"number for a string", "image: 5", "1: image: must be a string, not a number (write one such as belljar/base)"},
		{"string for a number", `limits: {pids: "128"}`, "1: limits.pids: must be a number, not a string (write one such as 128)"},
		{"string for a list", "env: {allow: CI}", "1: env.allow: must be a list, not a string (`belljar config schema` describes it)"},
		{"string for a group", "limits: 5g", "1: limits: must be a mapping, not a string (`belljar config schema` describes it)"},
		{"no value", "timeout:", "1: timeout: has no value (give it a value, or remove the key)"},
		{"list at the top", "- a", "1: must be a mapping, not a list (`belljar config schema` describes it)"},
		{"another tag", "timeout: !me 3s", `1: timeout: must be a string, not a value with a tag (write one such as 10m)`},

		{"policy's language", "policy: {default: deny, shell: bash}", "1: policy.shell: scripts run in sh, and sh may be another shell than bash (add shell: bash, or leave out policy.shell)"},
		{"shell", "shell: zsh", "1: shell: the value is not valid (write one of sh, bash, auto)"},
		{"version", "version: 2", "1: version: 2 is out of range (write 1)"},
		{"pull policy", "pull: allways", `1: pull: the value is not valid (write one of always, missing, never)`},
		{"least memory", "limits: {memory: 5MiB}", "1: limits.memory: 5MiB is too small (at least 6MiB)"},
		{"least pids", "limits: {pids: 3}", "1: limits.pids: 3 is out of range (from 4 to 4194304)"},
		{"no processor", "limits: {cpus: 0}", "1: limits.cpus: 0 is out of range (from 0.01 to 4096)"},
		{"processors, not a number", "limits: {cpus: .nan}", `1: limits.cpus: ".nan" is not a number (write a number such as 1 or 0.5)`},
		{"root", "user: 0:5", `1: user: the value is root (` + noRoot + `)`},
		{"tmpfs", "tmpfs: [/var/tmp, \"/etc/x\", var]", "1: tmpfs[1]: the value cannot be a tmpfs (choose one such as /var/tmp)\n1: tmpfs[2]: the value cannot be a tmpfs (write only a path in the container, such as /var/tmp; limits.tmp is its size)"},
		{"root for all", "user: root", `1: user: root is only for a profile other than default (write it below profiles.NAME in the configuration file, and choose it with --profile NAME)`},
		{"root for all others", "user: root\nprofiles: {a: {}, b: {user: 1000}}", `1: user: root is only for a profile other than default (write it below profiles.NAME in the configuration file, and choose it with --profile NAME)`},
		{"writable for all", "rootfs: writable", `1: rootfs: writable is only for a profile other than default (write it below profiles.NAME in the configuration file, and choose it with --profile NAME)`},
		{"root by name", "user: root:staff", `1: user: the value is root (` + noRoot + `)`},
		{"no user", "user: a b", `1: user: the value is neither UID:GID nor names (write UID:GID in numbers, such as 65534:65534, or names of the image, such as nobody or nobody:staff)`},
		{"user of too many parts", "user: a:b:c", `1: user: the value is neither UID:GID nor names (write UID:GID in numbers, such as 65534:65534, or names of the image, such as nobody or nobody:staff)`},
		{"relative workdir", "workdir: work", `1: workdir: the value is not absolute (write a path in the container, such as /work)`},
		{"workdir of the kernel", "workdir: /work/../proc/self/fd/8", `1: workdir: the value is in a file system of the kernel (choose a directory such as /work)`},
		{"host network", "network: host", `1: network: the value shares the namespace of the host or of a container (use none, bridge or a network of the engine)`},
		{"container's network", "network: container:x", `1: network: the value shares the namespace of the host or of a container (use none, bridge or a network of the engine)`},
		{"variable without a value", "env:\n  set: [A=1, B]", `2: env.set[1]: the value is not NAME=value (write NAME=value, where NAME is letters, digits and _)`},
		{"variable with a NUL", `env: {set: ["A=\0"]}`, `1: env.set[0]: the value is not NAME=value (write NAME=value, where NAME is letters, digits and _)`},
		{"variables as a mapping", "env: {set: {A: 1}}", "1: env.set: must be a list, not a mapping (`belljar config schema` describes it)"},
		{"server's name with a port", "serve: {hosts: [belljar.internal, '::1', 'fe80:1', 'x:80']}", "1: serve.hosts[2]: the value is not a host (write a name or an address, without a port)\n1: serve.hosts[3]: the value is not a host (write a name or an address, without a port)"},
		{"origin with a path", "serve: {origins: ['https://ci.example.com:8443', 'https://ci.example.com/']}", "1: serve.origins[1]: the value is not an origin (write one such as https://ci.example.com, in lower case and without a path)"},
		{"any origin", "serve: {origins: ['*']}", "1: serve.origins[0]: the value is not an origin (write one such as https://ci.example.com, in lower case and without a path)"},
		{"drain time", "serve: {drain_timeout: 30}", "1: serve.drain_timeout: 30 has no unit (write 30s)"},
		{"no address", "serve: {replicas: {address: 10.0.0.300}}", `1: serve.replicas.address: "10.0.0.300" is not an IP address (write one such as 10.0.0.7, without a port)`},
		{"address of a name", "serve: {replicas: {address: belljar.belljar.svc}}", `1: serve.replicas.address: the value is not an IP address (write one such as 10.0.0.7, without a port)`},
		{"address of all", "serve: {replicas: {address: '::'}}", `1: serve.replicas.address: the value is not the address of one machine (write one such as 10.0.0.7, without a port)`},
		{"address of all, mapped", "serve: {replicas: {address: '::ffff:0.0.0.0'}}", `1: serve.replicas.address: the value is not the address of one machine (write one such as 10.0.0.7, without a port)`},
		{"address of several", "serve: {replicas: {address: 224.0.0.1}}", `1: serve.replicas.address: "224.0.0.1" is not the address of one machine (write one such as 10.0.0.7, without a port)`},
		{"address of a link", "serve: {replicas: {address: 'fe80::1'}}", `1: serve.replicas.address: the value is not the address of one machine (write one such as 10.0.0.7, without a port)`},
		{"socket's address", "serve: {listen: unix://run/x}", `1: serve.listen: the value is not a socket's address (write unix:// and an absolute path)`},

		{"home", "mounts: {allow: [{source: ~/x}]}", `1: mounts.allow[0].source: the value begins with ~, which belljar does not expand (write the whole path)`},
		{"everything", "mounts: {allow: [{source: /}]}", `1: mounts.allow[0]: the source / allows the whole host (name the directories that commands need)`},
		{"mount without a source", "mounts: {allow: [{mode: ro}]}", "1: mounts.allow[0]: the source is missing (write {source: ./, target: /work, mode: ro}, or {volume: NAME, target: /data, mode: ro})"},
		{"mount of both", "mounts: {allow: [{source: ., volume: a}]}", "1: mounts.allow[0]: a rule has either a source or a volume (write a rule for each)"},
		{"mount of a pattern", "mounts: {allow: [{volume: 'cache-*'}]}", "1: mounts.allow[0].volume: the value is not the name of a volume (write the whole name of a PersistentVolumeClaim, such as cache)"},
		{"mount of a volume that is a path", "mounts: {allow: [{volume: ../a}, {volume: /a}, {volume: ''}, {volume: a..b}]}",
			strings.Join([]string{volumeProblem(0), volumeProblem(1), volumeProblem(2), volumeProblem(3)}, "\n")},
		{"mount of an unknown mode", "mounts: {allow: [{source: ., mode: w}]}", `1: mounts.allow[0].mode: the value is not a mode (write ro or rw)`},
		{"mount with an unknown key", "mounts: {allow: [{source: ., readonly: true}]}", "1: mounts.allow[0].readonly: unknown key (a mount has source, volume, target and mode)"},

		{"list without an end", "env: {allow: [" + strings.Repeat("A,", 101) + "]}", "1: env.allow: 101 items are too many (at most 100)"},
		{"default profile", "profiles: {default: {}}", "1: profiles.default: the default profile is the top level (set its keys at the top level)"},
		{"profile's name", "profiles:\n  Build: {}", "2: profiles.Build: this is not a valid profile name (use a-z, 0-9, - and _)"},
		{"profile's name with a dot", "profiles: {a.b: {}}", `1: profiles."a.b": this is not a valid profile name (use a-z, 0-9, - and _)`},
		{"profile with a global key", "profiles: {a: {queue: {length: 3}}}", "1: profiles.a.queue: a profile cannot set this key (set it at the top level)"},
		{"profile's value", "profiles:\n  a:\n    limits:\n      tmp: 1", "4: profiles.a.limits.tmp: 1 has no unit (write 1MiB)"},

		{"view's mode", "view: {mode: both}", `1: view.mode: the value is not valid (write one of none, separate, merged)`},
		{"view without a unit", "view:\n  bytes: 100000", "2: view.bytes: 100000 has no unit (write 100000B)"},
		{"view of a book", "view: {bytes: 1GiB}", "1: view.bytes: 1GiB is too large (at most 64MiB)"},
		{"view of no line", "view: {lines: 0}", "1: view.lines: 0 is out of range (from 1 to 1000000)"},
		{"view of a word a line", "view: {line_chars: 5}", "1: view.line_chars: 5 is out of range (from 16 to 1000000)"},
		{"charset", "view: {charset: latin-9000}", `1: view.charset: the value is not a known charset (write an IANA name, such as iso-8859-1 or shift_jis)`},
		{"charset that is refused everywhere", "view: {charset: iso-2022-kr}", `1: view.charset: the value is not a known charset (write an IANA name, such as iso-8859-1 or shift_jis)`},
		{"live views in a hurry", "view: {every: 99ms}", "1: view.every: 99ms is too short (at least 100ms)"},
		{"live views by a number", "view: {every: 1}", "1: view.every: 1 has no unit (write 1s)"},
		{"key of a view", "view: {line_char: 5}", "1: view.line_char: unknown key (did you mean view.line_chars?)"},
		{"spool of nothing", "spool: {total: 1KiB}", "1: spool.total: 1KiB is too small (at least 1MiB)"},
		{"spool of everything", "spool: {total: 17TiB}", "1: spool.total: 17TiB is too large (at most 16TiB)"},
		{"spool for ever", "spool: {age: 721h}", "1: spool.age: 721h is too long (at most 720h)"},
		{"spool for a moment", "spool: {age: 5ms}", "1: spool.age: 5ms is too short (at least 1s, or 0 for none)"},
		{"spool's failure", "spool: {on_error: stop}", `1: spool.on_error: the value is not valid (write one of continue, end)`},
		{"spool of a profile", "profiles: {a: {spool: {age: 0}}}", "1: profiles.a.spool: a profile cannot set this key (set it at the top level)"},
		{"summaries of all", "summarize: {over: 100B}", "1: summarize.over: 100B is too small (at least 1KiB)"},
		{"patience", "summarize: {timeout: 11m}", "1: summarize.timeout: 11m is too long (at most 10m)"},

		{"timeout over the most", "timeout: 2h", "1: timeout: timeout 2h is more than max_timeout 1h (raise the limit or lower the value)"},
		{"most under the default", "timeout: 3s\nidle_timeout: 0\nmax_timeout: 2s", "3: max_timeout: timeout 3s is more than max_timeout 2s (raise the limit or lower the value)"},
		{"profile over the most", "profiles:\n  a:\n    timeout: 2h", "3: profiles.a.timeout: profiles.a.timeout 2h is more than max_timeout 1h (raise the limit or lower the value)"},
		{"pool", "pool: {min: 9}", "1: pool.min: pool.min 9 is more than pool.max 8 (raise the limit or lower the value)"},

		{"second document", "timeout: 3s\n---\ntimeout: 4s", "2: a second YAML document (keep one document in the file)"},
		{"alias", "image: &a x\nworkdir: *a", "2: YAML aliases are not supported (write the value out)"},
		{"syntax", "timeout: 3s\nimage: [", "2: did not find expected node content (check the indentation, colons and quotes there)"},

		{"all at once, by line", "user: root:root\nlimits: {memory: 1}\ntiemout: 3s",
			`1: user: the value is root (` + noRoot + `)
2: limits.memory: 1 has no unit (write 1MiB)
3: tiemout: unknown key (did you mean timeout?)`},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := load(t, test.file, Options{Path: fileName})
			want := "sandbox.yaml:" + strings.ReplaceAll(test.want, "\n", "\nsandbox.yaml:")
			if err == nil {
				t.Fatalf("no error, want %s", want)
			}
			if d := cmp.Diff(want, err.Error()); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestBadEnvironmentAndFlags(t *testing.T) {
	_, err := load(t, "", Options{
		Env:   []string{"BELLJAR_TIMEOUT=30", "BELLJAR_ENV_ALLOW=CI", "BELLJAR_HOST=x", "BELLJAR_VERSION=9", "BELLJAR_TIMOUT=5s", "BELLJAR_LIMITS_MEMROY=1GiB", "BELLJAR_FOO=1", "BELLJAR_EMPTY=", "BELLJAR_PORT_80_TCP=x", "BELLJAR_SERVICE_HOST=x", "XBELLJAR_X=1"},
		Flags: map[string]string{"limits.pids": "many", "nothing": "1"},
	})
	want := `--pids-limit: limits.pids: "many" is not a number (write a whole number, at least 4)
BELLJAR_ENV_ALLOW: env.allow: must be a list, not a string (` + "`belljar config schema`" + ` describes it)
BELLJAR_FOO: this variable sets no key of sandbox.yaml (unset it; ` + "`belljar config schema`" + ` lists the keys, and for example BELLJAR_LIMITS_MEMORY sets limits.memory)
BELLJAR_LIMITS_MEMROY: this variable sets no key of sandbox.yaml (did you mean BELLJAR_LIMITS_MEMORY?)
BELLJAR_TIMEOUT: timeout: 30 has no unit (write 30s)
BELLJAR_TIMOUT: this variable sets no key of sandbox.yaml (did you mean BELLJAR_TIMEOUT?)
flag: nothing: no key has that name`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

// A secret's variable may have any name.
func TestSecretsVariable(t *testing.T) {
	file := "version: 1\nsecrets: [{name: TOKEN, from: env, variable: BELLJAR_TOKEN}]\n"
	path := filepath.Join(t.TempDir(), "own.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(Options{Path: path, Workdir: t.TempDir(), Env: []string{"BELLJAR_TOKEN=x"}}); err != nil {
		t.Error(err)
	}
	if _, err := Load(Options{Path: path, Workdir: t.TempDir(), Env: []string{"BELLJAR_TOKENS=x"}}); err == nil {
		t.Error("another is taken")
	}
}

func TestLongFile(t *testing.T) {
	_, err := load(t, strings.Repeat("#", maxFile+1), Options{})
	if err == nil || !strings.Contains(err.Error(), "sandbox.yaml: larger than 1 MiB") {
		t.Error(err)
	}
}

// A folder that commands may write cannot lead a rule elsewhere by a link.
func TestSourceThatLeadsOutOfAWritableFolder(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "out"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/usr", filepath.Join(dir, "out", "link")); err != nil {
		t.Fatal(err)
	}
	text := "profiles: {a: {mounts: {allow: [{source: " + dir + "/out, mode: rw}]}}}\nmounts: {allow: [{source: " + dir + "/out/link}]}"
	_, err := load(t, text, Options{Path: fileName})
	problems, ok := errors.AsType[Problems](err)
	if !ok || len(problems) != 1 || !strings.Contains(err.Error(), "sandbox.yaml:2: mounts.allow: source ") || !strings.Contains(err.Error(), `is a link to "/usr"`) {
		t.Error(err)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add("version: 1\nprofiles: {a: {limits: {memory: 1g}}}")
	f.Add("a: &a [*a]")
	f.Add("? {a: b}\n: c")
	f.Add("policy: {rules: [{a: .nan}, {1: 2}, {? [x] : y}, {<<: {a: 1}}]}")
	f.Add("mounts: {allow: [{source: \"\\0\"}, [], 1]}")
	if shipped, err := os.ReadFile("../sandbox.yaml"); err == nil {
		f.Add(string(shipped))
	}
	dir := f.TempDir()
	path := filepath.Join(dir, fileName)
	f.Fuzz(func(t *testing.T, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := Load(Options{Workdir: dir, Flags: map[string]string{"policy.rules": text}})
		if (c == nil) == (err == nil) {
			t.Fatalf("%v and %v", c, err)
		}
		if problems, ok := errors.AsType[Problems](err); ok {
			for _, p := range problems {
				if p.Place == "" || p.Message == "" || strings.ContainsAny(p.Error(), "\x00\x1b\n") {
					t.Errorf("bad problem %q", p.Error())
				}
			}
		}
	})
}

// A file with a hundred thousand unknown keys does not print as many lines.
func TestManyProblems(t *testing.T) {
	text := "version: 1\n"
	for i := range 1000 {
		text += fmt.Sprintf("key%d: 1\n", i)
	}
	_, err := load(t, text, Options{})
	if err == nil {
		t.Fatal("no error")
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 51 || !strings.Contains(lines[0], "key0") || lines[50] != "and 950 more problems: fix these first" {
		t.Errorf("%d lines, the last: %s", len(lines), lines[len(lines)-1])
	}
}

func volumeProblem(i int) string {
	return fmt.Sprintf("1: mounts.allow[%d].volume: the value is not the name of a volume (write the whole name of a PersistentVolumeClaim, such as cache)", i)
}
