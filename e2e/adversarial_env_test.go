package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/local"
)

// within is a caller's environment: enough to find the engine, and more.
func within(env ...string) func(*exec.Cmd) {
	return func(c *exec.Cmd) {
		c.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "DOCKER_HOST=" + os.Getenv("DOCKER_HOST")}, env...)
		if onOCI() { // it needs a state directory
			c.Env = append(c.Env, "BELLJAR_ENGINE_KIND=oci", "BELLJAR_ENGINE_INIT="+binary, "XDG_STATE_HOME="+os.Getenv("XDG_STATE_HOME"))
		}
		if onPods() { // XDG_STATE_HOME is for the images that it knows
			for _, name := range append(podVariables, "XDG_STATE_HOME") {
				c.Env = append(c.Env, name+"="+os.Getenv(name))
			}
		}
	}
}

// S1: the caller's environment is not passed on.
func environmentIsListed(t *testing.T) {
	a := askAs(t, within("SECRET=s3cret", "AWS_ACCESS_KEY_ID=s3cret", "PAGER=s3cret", "TERM=s3cret", "CI=1"), "env; cat /proc/[0-9]*/environ 2>/dev/null | tr '\\000' '\\n'; true")
	for _, name := range names(a.Stdout) {
		if !slices.Contains([]string{"CI", "HOME", "HOSTNAME", "LANG", "PATH", "PWD", "SHLVL", "OLDPWD", "_",
			"TERM", "PAGER", "GIT_PAGER", "MANPAGER", "SYSTEMD_PAGER", "GH_PAGER", "GIT_TERMINAL_PROMPT"}, name) { // belljar's own values
			t.Errorf("%s is set", name)
		}
	}
	if strings.Contains(string(a.json), "s3cret") || !strings.Contains(a.Stdout, "CI=1") {
		t.Errorf("%s", a.json)
	}
}

// S2: a glob does not allow variables that decide which code runs.
func dangerousVariables(t *testing.T) {
	dangerous := []string{"LD_PRELOAD=/x", "BASH_ENV=/x", "ENV=/x", "IFS=x", "GIT_SSH_COMMAND=x", "PYTHONPATH=/x", "SSH_AUTH_SOCK=/x", "GH_TOKEN=x", "BASH_FUNC_ls%%=() { id; }", "DOCKER_CONFIG=/x"}
	all := configured(t, `env: {allow: ["*"]}`)
	a := askAs(t, within(append(dangerous, "HARMLESS=1")...), "--config", all, "env")
	for _, kv := range dangerous {
		if strings.Contains(a.Stdout, kv) {
			t.Errorf("%s passes", kv)
		}
		name, _, _ := strings.Cut(kv, "=")
		if b := askAs(t, within(kv), "--config", all, "-e", name, "env"); b.code != 126 {
			t.Errorf("-e %s: %s", name, b.json)
		}
	}
	if !strings.Contains(a.Stdout, "HARMLESS=1") || strings.Contains(a.Stdout, os.Getenv("PATH")) {
		t.Errorf("%s", a.Stdout)
	}
	named := configured(t, "env: {allow: [GIT_PAGER]}")
	askAs(t, within("GIT_PAGER=cat"), "--config", named, "echo $GIT_PAGER").says(t, "cat\n")
}

// S3: values are passed unchanged, or refused; never cut.
func exactValues(t *testing.T) {
	for _, value := range []string{"a\nb=c\n", "=", "$(id) `id` '\"\\", " \t", "\u00e9", ""} {
		ask(t, "-e", "X="+value, `printf %s "$X" | od -An -tx1 | tr -d ' \n'`).says(t, fmt.Sprintf("%x", value))
	}
	// The engine's API is JSON: it would silently replace these by U+FFFD.
	refused(t, 125, "UTF-8", "-e", "X=\xff")
	ask(t, `printf %s '`+"\xff"+`' | od -An -tx1 | tr -d ' \n'`).says(t, "ff")
	runner := &local.Local{Profiles: map[string]sandbox.Profile{sandbox.DefaultProfile: {
		MaxTimeout: time.Hour, Timeout: time.Hour, IdleTimeout: time.Hour, Workdir: "/work", User: sandbox.User{UID: 1, GID: 1}, Network: "none",
		Limits: sandbox.Limits{Memory: 1 << 30, CPUs: 1, Pids: 9, Output: 1 << 20, Tmp: 1 << 20, Files: 99},
	}}}
	_, err := runner.Start(t.Context(), sandbox.Command{Script: "true", Env: []string{"X=a\x00b"}})
	if sandbox.CauseOf(err) != sandbox.CauseInvalid || !strings.Contains(err.Error(), "NUL") {
		t.Errorf("NUL: %v", err)
	}
}

// S4: read-only includes submounts: a mount below a mount is another file
// system, with its own flags.
func readOnlyThroughout(t *testing.T) {
	dir, config := shared(t, "ro")
	sub := filepath.Join(dir, "sub")
	if err := os.Mkdir(sub, 0o777); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		if err := syscall.Mount("belljar-test", sub, "tmpfs", 0, "mode=0777,size=1m"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := syscall.Unmount(sub, 0); err != nil {
				t.Error(err)
			}
		})
		if err := os.WriteFile(sub+"/other", []byte("of another file system\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	ask(t, "--config", config, "-v", dir+":/work:ro", "touch /work/x /work/sub/x && echo WROTE; cat /work/sub/other").says(t, ".*(Read-only file system\n.*){2}No such file.*")
	leftFiles(t, dir+"/x", sub+"/x")
	refused(t, 126, "(ro)", "--config", config, "-v", dir+":/work:rw")
}

// S5: a missing mount source is not created.
func missingSource(t *testing.T) {
	dir, config := shared(t, "rw")
	refused(t, 125, "does not exist", "--config", config, "-v", dir+"/missing:/work")
	leftFiles(t, dir+"/*")
}

// S8: a variable's value is passed only to its command.
func secretStaysInside(t *testing.T) {
	const secret = "s3cr3t-0f-S8"
	cmd, stderr := begin(t, "secret", "-e", "TOKEN="+secret)
	id := container(t, cmd.Process.Pid)
	shown := known(t, id)
	cmd.Process.Signal(syscall.SIGTERM)
	cmd.Wait()
	shown += stderr.String()
	for _, args := range [][]string{{"-w", "/nowhere"}, {"--image", "belljar/nowhere"}, {"--network", "nope"}, {"--timeout", "1s"}} {
		a := ask(t, append(args, "-e", "TOKEN="+secret, "sleep 100")...)
		shown += string(a.json)
	}
	if strings.Contains(shown, secret) || !strings.Contains(shown, id) {
		t.Errorf("shown: %s", shown)
	}
}

// S9: a directory's own files do not decide how its commands run; the
// sandbox.yaml of run's working directory is its contract (CVE-2025-61260).
func dotenvIsNotRead(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{".env", ".belljar.yaml", "belljar.yaml", ".sandbox.yaml", "sandbox.yml", "sandbox.json", "config.yaml"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("env: {set: [PLANTED=1]}\nPLANTED=1\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a := askAs(t, func(c *exec.Cmd) { c.Dir = dir }, "env")
	a.ended(t, 0, "")
	if strings.Contains(string(a.json), "PLANTED") {
		t.Errorf("%s", a.json)
	}
}

// S10: viper folds the case of keys; names of variables are not keys.
func mixedCaseNames(t *testing.T) {
	config := configured(t, "env: {set: [MiXed=1, lower=2], allow: [CamelCase]}", "profiles: {build: {env: {set: [OtherCase=4]}}}")
	askAs(t, within("CamelCase=3", "camelcase=no"), "--config", config, "env | grep -i -e mixed -e lower -e camel | sort").says(t, "CamelCase=3\nMiXed=1\nlower=2\n")
}
