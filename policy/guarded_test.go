package policy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestGuardedFiles: no glob lets a script write what decides which programs the next
// command runs, unless it names that.
func TestGuardedFiles(t *testing.T) {
	p := compile(t, CommandRules{Writes: []string{"**", "/work/**", "/tmp/**"}, Rules: []CommandRule{rule("r", Allow, "echo|cp|mv|ln|mkdir|touch|tee|install|gzip|gunzip|cat|git diff")}})
	for script, want := range map[string]Decision{
		"echo > /tmp/x": Allow, "echo > config": Allow, "echo > .config/app/x": Allow, "mkdir .config": Allow, "cp a .config": Allow, "echo > .npmrc": Allow, "echo > .editorconfig": Allow, "echo > .github/x": Allow, "echo > HEADER": Allow, "mkdir -p components/Head": Allow, "echo > HEAD/x": Allow, "cp -r a b": Allow, "echo > .profile.md": Allow, "echo > local/lib/x": Allow, "echo > a.gitignore": Allow, "echo > .gitignore": Allow, "echo > .gitattributes": Allow, "mv git x": Allow, "ln -s ../a b": Allow, "ln -s /etc/a": Allow,
		"echo > /tmp/.gitconfig": Deny, "echo > .GitConfig": Deny, "echo > /tmp/.config/git/config": Deny, "mkdir -p /tmp/.config/git": Deny, "echo > ~/.gitconfig": Deny, "cp -r a/.config /tmp": Deny, "cp -a a /tmp/.config": Deny, "mv a /tmp/.config": Deny, "mv a/git /tmp/.config/": Deny, "ln -s a /tmp/.config": Deny, "cp a/.gitconfig /tmp": Deny, "cp -t /tmp a/.gitconfig": Deny, "ln -s a/.gitconfig": Deny, "cd /tmp; ln -s a/.gitconfig": Deny, "tee /tmp/.profile": Deny, "touch .bashrc": Deny, "install x .zshenv": Deny, "install a/.bash_profile /tmp": Deny, "echo > /tmp/.ssh/config": Deny,
		"echo > src/HEAD": Deny, "mv a src/HEAD": Deny, "cp a/HEAD src": Deny, "ln -s a/HEAD": Deny, "echo > fixture.git/config": Deny, "cd fixture.git; echo > config": Deny, "mkdir a.git": Deny,
		"cp -r .git/. out": Deny, "cp -r .git/* out": Deny, "cp .git/H* out": Deny, "ln -s ../.git/hooks out/h": Deny, "ln .git/config out/c": Deny, "cp a/x.git/config out": Allow, "ln -s /tmp/.config/git out/g": Deny,
		"gunzip a.gz": Allow, "gunzip .gitconfig.gz": Deny, "gzip -d src/HEAD_z": Deny, "gunzip -S x .gitconfigx": Deny, "cp -b -S ig a .gitconf": Deny, "mv --suffix=ig -b a .gitconf": Deny, "cp -b a b": Allow,
		"echo > /tmp/.config/go/env": Deny, "echo > /tmp/go/pkg/mod/golang.org/toolchain@v0.0.1-go1.99.linux-amd64/bin/go": Deny, "echo > /tmp/.local/lib/python3.12/site-packages/x.pth": Deny, "mv a /tmp/.local": Deny, "echo > /tmp/.config/bat/config": Deny, "echo > /tmp/.popt": Deny,
		"HOME=/work git diff": Deny, "XDG_CONFIG_HOME=/work git diff": Deny,
	} {
		v := p.Judge(script, "/work")
		if v.Decision != want {
			t.Errorf("%q is %s: %s", script, v.Decision, v.Reason)
		}
	}
	if v := p.Judge("echo > .gitconfig", "/work"); !strings.Contains(v.Reason, "can decide what programs run") {
		t.Errorf("the reason is %q", v.Reason)
	}
	named := compile(t, CommandRules{Env: []string{"*"}, Writes: []string{"**", "/tmp/.gitconfig", "x.git/**", "src/HEAD"}, Rules: []CommandRule{rule("r", Allow, "echo|cp|git diff")}})
	for script, want := range map[string]Decision{
		"echo > /tmp/.gitconfig": Allow, "cp a /tmp/.gitconfig": Deny, "echo > x.git/config": Allow, "echo > x.git/.git/config": Deny, "echo > src/HEAD": Allow, "echo > HEAD": Deny, // cp's last operand may be a directory
		"FOO=1 git diff": Allow, "HOME=/work git diff": Deny, "XDG_CONFIG_HOME=/work git diff": Deny,
	} {
		if v := named.Judge(script, "/work"); v.Decision != want {
			t.Errorf("%q is %s: %s", script, v.Decision, v.Reason)
		}
	}
	if v := bundled(t, "build", ShellPOSIX).Judge("HOME=/tmp/x npm test", "/work"); v.Decision != Allow {
		t.Errorf("a build with a home of its own is %s: %s", v.Decision, v.Reason)
	}
}

// TestGuardedFilesAreRead runs what the policy relies on: with such a file, git and sh run
// what it says, and without it they do not.
func TestGuardedFilesAreRead(t *testing.T) {
	for _, test := range []struct{ program, plant, then string }{
		{"git", `printf '[diff]\n\texternal = "touch ran; #"\n' > .gitconfig`, "git diff --no-index /dev/null f"},
		{"git", `mkdir -p .config/git; printf '[diff]\n\texternal = "touch ran; #"\n' > .config/git/config`, "git diff --no-index /dev/null f"},
		{"git", `mkdir -p b/objects b/refs; printf '[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = ..\n\tfsmonitor = "touch '"$PWD"'/ran; false"\n' > b/config; echo ref: refs/heads/main > b/HEAD; cd b`, "git status"},
		{"dash", "echo 'touch ran' > .profile", "dash -lc :"},
		{"bash", "echo 'touch ran' > .bash_profile", "bash -lc :"},
	} {
		if _, err := exec.LookPath(test.program); err != nil {
			t.Logf("NOT TESTED: this host has no %s", test.program)
			continue
		}
		for _, script := range []string{test.then, test.plant + "\n" + test.then} {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "f"), []byte("x\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
			cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1"}
			out, _ := cmd.CombinedOutput() // some end with an error
			_, err := os.Stat(filepath.Join(dir, "ran"))
			if ran, planted := err == nil, script != test.then; ran != planted {
				t.Errorf("%q: ran %t\n%s", script, ran, out)
			}
		}
	}
}

// TestWhereFilesAreWritten: a path rule holds for what is written without an operand that
// names it, and behind each way into another directory.
func TestWhereFilesAreWritten(t *testing.T) {
	for script, want := range map[string]Decision{
		"command cd out && echo > x": Allow, "command -v cd; echo > out/x": Allow, "command -V cd; echo > out/x": Allow,
		"command -- cd .git/hooks; echo > out/x": Deny, "command -p cd /; echo > out/x": Deny, "command -- command cd .git; echo > out/x": Deny, "command \"$x\" .git; echo > out/x": Deny,
		"for i in 1 2; do echo > out/x; done": Allow, "for i in 1 2; do echo > out/x; trap 'ls' DEBUG; done": Deny, "for i in 1 2; do echo > out/x; trap 'cd .git/hooks' DEBUG; done": Deny, "while ls; do echo > out/x; command -- cd a; done": Deny, "for i in 1 2; do echo > out/x; trap 'cd a' EXIT; done": Deny,
		"patch -p1 -i x.diff": Deny, "patch < x.diff": Deny, "patch out/f x.diff": Deny, "patch -o out/f a x.diff": Deny, "patch --dry-run -p1 -i x.diff": Allow,
		"gzip out/f": Allow, "gunzip out/f.gz": Allow, "gunzip -N out/f.gz": Deny, "gzip -dN out/f.gz": Deny, "gzip -cdN f.gz": Allow,
		"cd out && ln -s ../a": Allow, "ln -s out/a": Deny, "ln -s a out/b": Allow,
		"curl -o out/f x.org": Allow, "curl -sw '%{http_code}' x.org": Allow, "curl -T f https://x.org": Allow, "curl -T f x.org": Allow, "curl -T f localhost:8080/a": Allow, "curl -T f \"http://x.org/$a\"": Allow,
		"curl -T f file:///etc/x": Deny, "curl -T f FILE:/etc/x": Deny, "curl -T f --url file:///etc/x": Deny, "curl -T f '{file,http}:///x'": Deny, "curl -T f 'f[i-i]le:///x'": Deny, "curl -w '%output{/etc/x}a' x.org": Deny, "curl -w @f x.org": Deny, "curl -w \"$x\" x.org": Deny, "curl -o 'out/#1' 'x.org/{../x}'": Deny, "curl --output-dir out -o f x.org": Deny, "curl --url @f": Deny,
		"ffmpeg -i a out/b.mp4": Allow, "ffmpeg -i a file:/etc/b.mp4": Deny, "ffmpeg -i a out/%d.png": Deny,
		"strace -o out/f ls": Allow, "strace -o '|pwn' ls": Deny, "strace -o '!pwn' ls": Deny, "strace -o '|ls' ls": Allow, "strace -o f ls": Deny,
	} {
		for _, shell := range []string{ShellPOSIX, ShellBash} {
			p := compile(t, CommandRules{Shell: shell, Writes: []string{"out/**"}, Rules: []CommandRule{rule("r", Allow, "echo|ls|patch|gzip|gunzip|ln|curl|ffmpeg|strace")}})
			if v := p.Judge(script, "/work"); v.Decision != want {
				t.Errorf("%s: %q is %s: %s", shell, script, v.Decision, v.Reason)
			}
		}
	}
}

// TestProgramsWriteThere runs what the tables rely on: each makes a file or runs a program that
// no operand, read in the usual way, names.
func TestProgramsWriteThere(t *testing.T) {
	const plant = "printf '#!/bin/sh\\n: > ran\\n' > x; chmod +x x; echo > f; mkdir d\n"
	for script, program := range map[string]string{
		"busybox find . -maxdepth 0 -exec echo {}x + -exec ./x ';'":             "busybox",
		"printf -- '--- a/ran\\n+++ b/ran\\n@@ -0,0 +1 @@\\n+x\\n' | patch -p1": "patch",
		"curl -sT f file://$PWD/ran":                                            "curl",
		"echo > ran; gzip -N ran; mv ran.gz a.gz; gunzip -N a.gz":               "gzip",
		"echo > d/ran; ln -s d/ran":                                             "ln",
		"echo > ra; cp -b -S n f ra":                                            "cp",
		"env - ./x":                                                             "env",
		"sh -c - ./x":                                                           "sh",
		"sh -c +e ./x":                                                          "sh",
		"bash -c 'command -- cd d; : > ../ran'":                                 "bash",
	} {
		if _, err := exec.LookPath(program); err != nil {
			t.Logf("NOT TESTED: this host has no %s", program)
			continue
		}
		dir := t.TempDir()
		cmd := exec.CommandContext(t.Context(), "sh", "-c", plant+script)
		cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
		out, _ := cmd.CombinedOutput() // some end with an error
		if _, err := os.Lstat(filepath.Join(dir, "ran")); err != nil {
			t.Errorf("%q wrote nothing\n%s", script, out)
		}
	}
}
