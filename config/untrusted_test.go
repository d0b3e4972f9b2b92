package config

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A clone's sandbox.yaml had the script, with AWS_SECRET_ACCESS_KEY of whoever ran
// belljar in it, sent to an engine of its maker's.
func TestUntrustedFileIsBounded(t *testing.T) {
	outside := resolve(t.TempDir())
	for text, key := range map[string]string{
		"engine: {host: \"tcp://evil:2375\"}":                                  "engine.host",
		"engine: {runtime: evil}":                                              "engine.runtime",
		"profiles: {a: {engine: {runtime: evil}}}":                             "profiles.a.engine.runtime",
		"env: {allow: [CI, AWS_SECRET_ACCESS_KEY]}":                            "env.allow[1]",
		"env: {allow: [PATH]}":                                                 "env.allow[0]",
		"env: {allow: [ld_preload]}":                                           "env.allow[0]",
		"env: {allow: [DATABASE_URL]}":                                         "env.allow[0]",
		"env: {allow: [https_proxy]}":                                          "env.allow[0]",
		"profiles: {a: {env: {allow: [GITHUB_TOKEN]}}}":                        "profiles.a.env.allow[0]",
		"profiles: {a: {user: root}}":                                          "profiles.a.user",
		"profiles: {a: {rootfs: writable}}":                                    "profiles.a.rootfs",
		"limits: {disk: 1TiB}":                                                 "limits.disk",
		"network: bridge":                                                      "network",
		"profiles: {a: {network: corp}}":                                       "profiles.a.network",
		"mounts: {allow: [{source: .}, {source: ..}]}":                         "mounts.allow[1].source",
		"mounts: {allow: [{source: " + outside + "}]}":                         "mounts.allow[0].source",
		"mounts: {allow: [{source: link}]}":                                    "mounts.allow[0].source",
		"profiles: {a: {mounts: {allow: [{source: /home, target: /work/x}]}}}": "profiles.a.mounts.allow[0].source",
		"mounts: {allow: [{source: .}, {volume: cache}]}":                      "mounts.allow[1].volume",
		"profiles: {a: {mounts: {allow: [{volume: cache, mode: rw}]}}}":        "profiles.a.mounts.allow[0].volume",
		"max_timeout: 8760h":                                                   "max_timeout",
		"limits: {memory: 1TiB}":                                               "limits.memory",
		"limits: {cpus: 4096}":                                                 "limits.cpus",
		"limits: {pids: 4194304}":                                              "limits.pids",
		"limits: {output: 1TiB}":                                               "limits.output",
		"limits: {tmp: 1TiB}":                                                  "limits.tmp",
		"limits: {files: 1000000}":                                             "limits.files",
		"profiles: {a: {limits: {memory: 1TiB}}}":                              "profiles.a.limits.memory",
		"session: {idle: 8760h}":                                               "session.idle",
		"session: {max: 8760h}":                                                "session.max",
		"pool: {min: 8, max: 1000}":                                            "pool.max",
		"max_running: 10000":                                                   "max_running",
		"queue: {length: 100000}":                                              "queue.length",
		"serve: {listen: \"tcp://0.0.0.0:80\"}":                                "serve.listen",
		"serve: {token_file: ./token}":                                         "serve.token_file",
		"serve: {tls_key: ./key}":                                              "serve.tls_key",
		"serve: {client_ca: ./ca}":                                             "serve.client_ca",
		"serve: {hosts: [evil.example]}":                                       "serve.hosts",
		"serve: {origins: [\"https://evil.example\"]}":                         "serve.origins",
		"serve: {insecure: true}":                                              "serve.insecure",
		"serve: {replicas: {enabled: true}}":                                   "serve.replicas.enabled",
		"serve: {replicas: {address: 10.0.0.7}}":                               "serve.replicas.address",
		"serve: {replicas: {namespace: other}}":                                "serve.replicas.namespace",
		"serve: {replicas: {ca: ./ca}}":                                        "serve.replicas.ca",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, fileName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
			t.Fatal(err)
		}
		_, err := Load(Options{Workdir: dir})
		got := errorText(err)
		if !strings.Contains(got, "sandbox.yaml:1: "+key+": ") || !strings.Contains(got, "found in the working directory") || !strings.Contains(got, "--config or BELLJAR_CONFIG") {
			t.Errorf("%s: %v", text, err)
		}
		if _, err := Load(Options{Workdir: dir, Path: fileName}); err != nil && !strings.Contains(text, "pool") {
			t.Errorf("%s, named: %v", text, err)
		}
	}
}

// A project says what it needs.
func TestUntrustedFileIsUseful(t *testing.T) {
	c := mustLoad(t, `
image: golang:1.26
pull: always
timeout: 30m
idle_timeout: 10m
max_timeout: 2h
user: 1000
workdir: /work/src
env: {set: [GOFLAGS=-mod=mod], allow: [CI, "GO*", TZ]}
mounts: {allow: [{source: ., target: /work/src, mode: rw}, {source: ./testdata, target: /data}]}
limits: {memory: 4GiB, cpus: 4, pids: 1024, output: 64MiB, tmp: 1GiB, files: 4096}
network: none
policy: {default: deny, set: build}
view: {mode: merged}
session: {idle: 1h, max: 12h}
profiles: {quick: {timeout: 1m, limits: {pids: 64}}}
`, Options{})
	if p := c.Profiles["quick"]; p.Image != "golang:1.26" || p.Limits.Memory != 4<<30 || p.Limits.Pids != 64 || p.Policy.AllowEnv("GOOGLE_API_KEY") || !p.Policy.AllowEnv("GOFLAGS") {
		t.Errorf("%+v", p)
	}
}

// Of an operator's environment and network, an untrusted file has none, though it
// says nothing of them: the image is its own.
func TestUntrustedImageGetsNoNetwork(t *testing.T) {
	c, _, err := beside(t, "network: bridge\nenv: {allow: [NPM_TOKEN]}", "image: evil", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if p := c.Profiles["default"]; p.Network != "none" || p.Policy.AllowEnv("NPM_TOKEN") {
		t.Errorf("%+v", p)
	}
}

// A link to /etc/shadow had its lines shown in errors, and a FIFO held belljar.
func TestUntrustedFileIsAFileOfItsDirectory(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "shadow")
	if err := os.WriteFile(outside, []byte("root:$6$verysecret:1:0:9:7:::\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		make func(file string) error
		want string
	}{
		"link out":   {func(file string) error { return os.Symlink(outside, file) }, "sandbox.yaml: is a link to a file outside the working directory"},
		"link by ..": {func(file string) error { return os.Symlink("../x/../../../../../../../../../etc/passwd", file) }, "sandbox.yaml: is a link to a file outside the working directory"},
		"link of links": {func(file string) error {
			os.Symlink("/etc", filepath.Dir(file)+"/d")
			return os.Symlink("d/passwd", file)
		}, "sandbox.yaml: is a link to a file outside the working directory"},
		"link to itself": {func(file string) error { return os.Symlink(fileName, file) }, "sandbox.yaml: is a link to a file outside the working directory"},
		"device":         {func(file string) error { return os.Symlink("/dev/zero", file) }, "sandbox.yaml: is a link to a file outside the working directory"},
		"FIFO":           {func(file string) error { return syscall.Mkfifo(file, 0o600) }, "sandbox.yaml: not a regular file"},
		"directory":      {func(file string) error { return os.Mkdir(file, 0o700) }, "sandbox.yaml: not a regular file"},
		"link within": {func(file string) error {
			os.WriteFile(filepath.Dir(file)+"/mine.yaml", []byte("timeout: 3s"), 0o600)
			return os.Symlink("./mine.yaml", file)
		}, ""},
	} {
		dir := t.TempDir()
		if err := test.make(filepath.Join(dir, fileName)); err != nil {
			t.Fatal(err)
		}
		_, err := Load(Options{Workdir: dir})
		if got := errorText(err); !strings.HasPrefix(got, test.want) || test.want == "" && got != "" || strings.Contains(got, "verysecret") {
			t.Errorf("%s: %v", name, err)
		}
	}
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(Options{Path: fifo}); errorText(err) != fifo+": not a regular file (name a file)" {
		t.Error(err)
	}
}

// A value that does not parse may be a secret in the wrong place; messages end in
// logs. So did /etc/shadow's lines.
func TestErrorsTellNoValues(t *testing.T) {
	const secret = "vErysecret,9:/Q"
	texts := []string{
		secret, "'" + secret, "*" + "vErysecret", "!vErysecret x", "&vErysecret", "%vErysecret", "profiles: " + secret, "profiles: {a: " + secret + "}",
		"root:$6$vErysecret:19000:0:99999:7:::\ndaemon:*:19000:0:99999:7:::\n", "timeout: \"vErysecret", "timeout: [vErysecret", "timeout: 3s\n\tvErysecret: 1",
		"mounts: {allow: [{source: ~/vErysecret}]}", "mounts: {allow: [{source: ., target: vErysecret}]}", "mounts: {allow: [{source: ., mode: vErysecret}]}",
		"secrets: [{name: A, from: vErysecret}]", "secrets: [{name: A, from: env, variable: v-vErysecret}]", "secrets: [{name: A, from: file, file: vErysecret}]",
		"secrets: [{name: vErysecret/Q, from: env}]", "policy: {rules: [{name: a, commands: [b], decision: vErysecret}]}",
	}
	for _, k := range keys {
		group, name, nested := strings.Cut(k.name, ".")
		for _, value := range []string{"'" + secret + "'", "['" + secret + "']", "[[vErysecret]]", "!vErysecret 3", "vErysecret: 3"} {
			if nested {
				value = "{" + name + ": " + value + "}"
			}
			texts = append(texts, group+": "+value)
		}
	}
	for _, text := range texts {
		for _, path := range []string{"", fileName} {
			if _, err := load(t, text, Options{Path: path}); strings.Contains(errorText(err), "vErysecret") {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
}
