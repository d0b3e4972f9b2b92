package e2e

import (
	"archive/tar"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// bashTree is shellTree with this host's bash and its libraries.
func bashTree(t *testing.T) *tree {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	tree := shellTree(t)
	put := func(name, file string) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		tree.add(tar.Header{Name: strings.TrimPrefix(name, "/"), Mode: 0o755}, text)
	}
	put("/usr/bin/bash", bash)
	for _, word := range strings.Fields(tool(t, "ldd", bash)) {
		if filepath.IsAbs(word) {
			put(word, word)
		}
	}
	return tree
}

// The command runs in the requested shell, cold, with a terminal and in a session, and
// scripts use its syntax.
func TestShells(t *testing.T) {
	t.Parallel()
	needEngine(t)
	image := imageOf(t, bashTree(t), v1.Config{})
	const which = `a=(x y); echo "${a[1]}-$0-${BASH_VERSION:+bash}"`
	for _, shell := range []string{"bash", "auto"} {
		if a := ask(t, "--image", image, "--shell", shell, which); a.Stdout != "y-bash-bash\n" || a.ExitCode != 0 || !strings.Contains(string(a.json), `"shell":"bash"`) {
			t.Errorf("%s: %s", shell, a.json)
		}
		if a := ask(t, "--image", image, "--shell", shell, "-t", which); !strings.Contains(a.Stdout, "y-bash-bash\r\n") {
			t.Errorf("%s: %s", shell, a.json)
		}
	}
	if a := ask(t, "--image", image, which); a.ExitCode == 0 || !strings.Contains(string(a.json), `"shell":"sh"`) {
		t.Errorf("%s", a.json)
	}
	if a := ask(t, "--image", image, "bash -lc '"+which+"'"); a.Stdout != "y-bash-bash\n" {
		t.Errorf("%s", a.json)
	}
	if a := ask(t, "--image", image, "--shell", "bash", "-e", "PATH=/nowhere", which); a.Cause != "invalid_command" || !strings.Contains(a.Message, "bash is not on the command's PATH") {
		t.Errorf("%s", a.json)
	}
	// A gate becomes it: only one can have a secret.
	secret := configured(t, "secrets: [{name: S, from: env}]", "policy: {default: deny, rules: [{name: all, commands: [\"*\", test], decision: allow, allow: [runs], secrets: [S]}]}", "shell: auto")
	if a := askAs(t, within("S=hidden-value"), "--config", secret, "--image", image, `[[ $S == hidden* ]] && printenv S; echo "$0"`); !strings.Contains(a.Stdout, "bash\n") {
		t.Errorf("%s", a.json)
	}
	session := "shells-" + filepath.Base(t.TempDir())
	t.Cleanup(func() { removeSession(session) })
	for _, shell := range []string{"bash", "sh", "auto"} {
		if out := tool(t, binary, "run", "--image", image, "--session", session, "--shell", shell, `echo "$0"`); out != strings.ReplaceAll(shell, "auto", "bash") {
			t.Errorf("%s: %s", shell, out)
		}
	}
}

// An image without bash is reported before anything is created and after a script that
// names it.
func TestNoBash(t *testing.T) {
	t.Parallel()
	needEngine(t)
	if a := ask(t, "--shell", "bash", "true"); a.Cause != "invalid_command" || a.ExitCode != -2 || !strings.Contains(a.Message, `image "belljar/base" has no bash`) {
		t.Errorf("%s", a.json)
	}
	if a := ask(t, "--shell", "auto", "echo $0"); a.Stdout != "sh\n" {
		t.Errorf("%s", a.json)
	}
	for _, more := range [][]string{{}, {"-t"}} {
		if a := ask(t, append(more, "bash -lc 'echo hi'")...); a.ExitCode != 127 || a.Cause != "exited" || !strings.Contains(a.Message, `image "belljar/base" has no bash`) {
			t.Errorf("%s", a.json)
		}
	}
	// The policy knows it, in every shell.
	strict := configured(t, "shell: bash", "policy: {default: deny, set: readonly, shell: bash}")
	if a := ask(t, "--config", strict, "--shell", "sh", "ls"); a.Cause != "invalid_command" || !strings.Contains(string(a.json), "add shell: bash") {
		t.Errorf("%s", a.json)
	}
}

// Programs neither draw, page nor ask without a person, unless they are told to.
func TestQuietEnvironment(t *testing.T) {
	t.Parallel()
	needEngine(t)
	const show = `echo "$TERM $PAGER $GIT_PAGER $MANPAGER $SYSTEMD_PAGER $GH_PAGER $GIT_TERMINAL_PROMPT"`
	for want, args := range map[string][]string{
		"dumb cat cat cat cat cat 0":    {show},
		"vt100 less cat cat cat cat 1":  {"-e", "TERM=vt100", "-e", "PAGER=less", "-e", "GIT_TERMINAL_PROMPT=1", show},
		"linux cat most cat cat cat 0":  {"--config", configured(t, "env: {set: [TERM=linux, GIT_PAGER=most]}"), show},
		"vt220 cat cat cat cat cat 1\r": {"-t", show},
	} {
		if a := askAs(t, within("TERM=vt220"), args...); a.Stdout != want+"\n" {
			t.Errorf("%q: %s", args, a.json)
		}
	}
}
