package policy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"belljar/internal/shelltest"
)

// TestOptionsOfShells: an o anywhere in a word of options takes a word of its own, and
// with -k any word with an equals sign becomes part of the environment.
func TestOptionsOfShells(t *testing.T) {
	for script, want := range map[string]Decision{
		"set -e; ls": Allow, "set -eo pipefail; ls": Allow, "set -oe pipefail; ls": Allow, "set -oo errexit pipefail; ls": Allow, "set -o pipefail -o errexit; ls": Allow, "set +o pipefail -eu; ls": Allow, "set -o; ls": Allow,
		"set -- -k; ls": Allow, "set - -k; ls": Allow, "set a -k; ls": Allow, "set -e -- \"$x\"; ls": Allow, "set + -u; ls": Allow,
		"set -k; ls": Deny, "set -oe keyword; ls": Deny, "set -oo pipefail keyword; ls": Deny, "set -eoxo pipefail allexport; ls": Deny, "set + -k; ls": Deny, "set -o keyword; ls": Deny, "set -o \"$x\"; ls": Deny, "set \"+$x\"; ls": Deny, "set -- a; set -a; ls": Deny, "set -ooo pipefail pipefail keyword; ls": Deny, "set -e -o pipefail -oe keyword; ls": Deny,

		"sh -c ls": Allow, "sh -ec ls": Allow, "bash -lc ls": Allow, "sh -euc ls": Allow, "sh -o pipefail -c ls": Allow, "sh -oc pipefail ls": Allow, "bash -O globstar -c ls": Allow, "bash --norc -c ls": Allow, "bash -c -- ls": Allow, "sh -c - ls": Allow, "sh -c +e ls": Allow, "sh + -c ls": Allow, "sh +x -c 'ls; ls'": Allow, "env sh +x -c 'ls; ls'": Allow,
		"bash -o keyword -c 'ls A=1'": Deny, "bash -oo pipefail keyword -c ls": Deny, "bash -oec keyword ls": Deny, "bash -kc ls": Deny, "bash -ac ls": Deny, "bash -o allexport -c ls": Deny, "bash -o posix -c ls": Deny, "bash -O expand_aliases -c ls": Deny, "bash -Okeyword -c ls": Deny, "bash -opipefail -c ls": Deny, "bash +O extglob -c ls": Deny,
		"bash -norc pipefail ls": Deny, "bash -rcfile x -c ls": Deny, "bash -posix -c ls": Deny, "bash --rcfile x -c ls": Deny, "sh -sc ls": Deny, "sh -ic ls": Deny, "sh +c ls": Deny, "sh \"$x\" -c ls": Deny, "bash -c": Deny, "env bash -o keyword -c ls": Deny, "sh -c - evil": Deny, "sh -c +e evil": Deny, "sh -c -- evil": Deny,

		"getopts ab x -a; ls": Allow, "getopts -- a PATH -a; ls": Deny, "getopts ab PATH; ls": Deny, "getopts \"$x\" a; ls": Deny,
	} {
		for _, shell := range []string{ShellPOSIX, ShellBash} {
			if v := bundled(t, "readonly", shell).JudgeIn(shell, script, "/work"); v.Decision != want {
				t.Errorf("%s: %q is %s: %s", shell, script, v.Decision, v.Reason)
			}
		}
	}
}

// TestOptionsOfRealShells runs what the table above denies: some shell runs ./ls, which
// is what makes the denial worth it.
func TestOptionsOfRealShells(t *testing.T) {
	if shelltest.Commands(t)["bash"] == nil {
		t.Skip("NOT TESTED: this host has no bash")
	}
	for _, script := range []string{
		"set -oe keyword; ls PATH=.", "set -oo pipefail keyword; ls PATH=.", "set -k; ls PATH=.", "bash -o keyword -c 'ls PATH=.'", "bash -oo pipefail keyword -c 'ls PATH=.'", "getopts -- . PATH -.; ls",
	} {
		if ranBy := runsPlanted(t, "ls", script); len(ranBy) == 0 {
			t.Errorf("no shell runs ./ls in %q", script)
		}
		for _, shell := range []string{ShellPOSIX, ShellBash} {
			if v := bundled(t, "readonly", shell).JudgeIn(shell, script, "/work"); v.Decision != Deny {
				t.Errorf("%s: %q is %s: %s", shell, script, v.Decision, v.Reason)
			}
		}
	}
}

// runsPlanted runs the script in a directory with a program of that name, and returns
// the shells in which that ran.
func runsPlanted(t *testing.T, name, script string) (ranBy []string) {
	t.Helper()
	for shell, argv := range shelltest.Commands(t) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n: > ran\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), argv[0], slices.Concat(argv[1:], []string{"-c", script})...)
		cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
		_ = cmd.Run() // in most shells the script fails
		if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
			ranBy = append(ranBy, shell)
		}
	}
	return ranBy
}

// TestAllThatAsksIsAsked: each part of a command that needs the approval is in the
// verdict, what runs programs first, and so is the text that it may read.
func TestAllThatAsksIsAsked(t *testing.T) {
	var words []string
	for i := range 4 {
		words = append(words, fmt.Sprintf("-e 'w a%d'", i))
	}
	many := "sed -n " + strings.Join(words, " ") + " -e '1e pwn | sh'"
	const doc = "ls\npwn\n"
	for script, wants := range map[string][]string{
		many:                                          {"'w a0'", "'w a1'", "'w a2'", "'w a3'", "'1e pwn | sh'"},
		"sort -o a --compress-program=b -o c":         {"a", "c"},
		many + strings.Repeat(" -e 'w b'", 9):         {many + strings.Repeat(" -e 'w b'", 9)},
		"sh <<E\n" + doc + "E":                        {"sh", doc + "E"},
		"cat <<E | sh\n" + doc + "E":                  {"sh", doc + "E"},
		"{ ls; sh; } <<E\n" + doc + "E":               {"sh", doc + "E"},
		"python3 - <<'E'; ls <<F\n" + doc + "E\nx\nF": {"python3 -", doc + "E"},
	} {
		v := askingReadonly(t, ShellPOSIX).Judge(script, "/work")
		if v.Decision != Ask {
			t.Errorf("%q is %s: %s", script, v.Decision, v.Reason)
		}
		var got []string
		for _, c := range v.Asks() {
			got = append(got, script[c.Span.Start:c.Span.End])
		}
		for _, want := range wants {
			if !slices.Contains(got, want) {
				t.Errorf("%q asks about %q, not about %q", script, got, want)
			}
		}
		if slices.Contains(got, "x\n") {
			t.Errorf("%q asks about what only ls may read: %q", script, got)
		}
	}
	if v := askingReadonly(t, ShellPOSIX).Judge(many, "/work"); !strings.Contains(v.Reason, "runs commands") {
		t.Errorf("the first reason is %q", v.Reason)
	}
}

// TestWhichWordIsTheProgram: an option, a dash or an assignment that a program reads itself
// is never taken for the program that it starts.
func TestWhichWordIsTheProgram(t *testing.T) {
	p := compile(t, CommandRules{Default: Allow, Rules: []CommandRule{rule("no", Deny, "rm")}})
	asks := compile(t, CommandRules{Default: Ask})
	for _, before := range []string{
		"env -", "env - A=1", "env -u A -", "sh -c -", "sh -c +e", "sh +e -c", "sudo A=1", "sudo -n A=1 -u x B=2", "sudo A=1 --", "capsh -- -c", "capsh --drop=all -- -ec", "capsh --",
		"ssh host -p 22", "ssh -- host -v", "nice -", "timeout 5 -", "timeout 5 +x", "xargs -", "exec -", "command -", "env A=1 -i", "sudo -- A=1", "nohup A=1", "genv A=1", "find . -exec -", "runuser root -c", "runuser - root -c", "runuser -l x -c", "script f --", "script -q f", "ssh-agent", "ssh-agent -t 5", "busybox cttyhack", "su bob -- -c", "su - bob -- -ec", "runuser bob -- -c", "env -S", "env -vS",
	} {
		script := before + " 'rm'"
		if strings.HasPrefix(before, "find") {
			script += " ';'"
		}
		if v := p.Judge(script, ""); v.Decision != Deny {
			t.Errorf("%q is %s: %s", script, v.Decision, v.Reason)
		}
		v := asks.Judge(script, "")
		for _, c := range v.Asks() {
			if c.Program == "-" || strings.HasPrefix(c.Program, "+") || strings.HasPrefix(c.Program, "-") || strings.Contains(c.Program, "=") {
				t.Errorf("%q asks about the program %q", script, c.Program)
			}
		}
	}
	for _, script := range []string{"sudo A=1 ls", "env - ls", "capsh -- -c ls", "ssh host -p 22 ls", "sh +e -c ls", "runuser -u x ls", "ssh-agent ls", "systemd-run -p A=b ls"} {
		if v := p.Judge(script, ""); v.Decision != Allow {
			t.Errorf("%q is %s: %s", script, v.Decision, v.Reason)
		}
	}
}

// TestRemovedVariables: what env removes is judged as what unset does.
func TestRemovedVariables(t *testing.T) {
	p := bundled(t, "readonly", ShellPOSIX)
	for script, want := range map[string]Decision{
		"env -i ls": Allow, "env - ls": Allow, "env -u FOO ls": Allow, "env -u GOROOT": Allow, "env -i LC_ALL=C sort f": Allow, "env GIT_PAGER=cat git log": Allow, "env -i git --no-pager log": Allow, "env -i GIT_PAGER=cat git log": Allow,
		"env -u GIT_PAGER git log": Deny, "env -u GIT_PAGER -u PAGER git log": Deny, "env -i git log": Deny, "env - git log": Deny, "env -i sh -c 'git log'": Deny, "env -i timeout 5 git log": Deny, "env --unset=PATH ls": Deny, "env -u \"$x\" ls": Deny, "env -i GIT_PAGER=less git log": Deny, "unset GIT_PAGER; git log": Deny,
		"env -i ls; git log": Allow,
	} {
		if v := p.Judge(script, "/work"); v.Decision != want {
			t.Errorf("%q is %s: %s", script, v.Decision, v.Reason)
		}
	}
}
