package policy

import (
	"os/exec"
	"strings"
	"testing"

	"belljar/internal/shelltest"
)

// Arithmetic is safe on variables that are always numbers:
// bash evaluates the values of others.
func TestNumbersAreKnown(t *testing.T) {
	p := compile(t, CommandRules{Shell: ShellBash, Env: []string{"x", "y"}, Rules: []CommandRule{rule("r", Allow, "echo|printf|date|wc|nproc|cat|tool")}})
	const sum = "; echo $((x+1))"
	for script, want := range map[string]Decision{
		"x=1": Allow, "x=-1": Allow, "x='12'": Allow, "x=\"12\"": Allow, "x=$((1+2))": Allow, "x=$#": Allow, "x=${#y}": Allow, "x=$(wc -l < f)": Allow, "x=$(cat f | wc -l)": Allow, "x=$(date +%s)": Allow, "x=$(nproc)": Allow,
		"x=a": Deny, "x=$y": Deny, "x=$(cat f)": Deny, "x=$(wc f)": Deny, "x=1a": Deny, "x=1; x=$y": Deny, "x=1; x=2": Allow, "x=1; x+=2": Deny, "x=$'1'": Allow, "true": Deny, "x=$(wc -l; cat f)": Deny, "x=$(y=1 wc -l)": Deny,
		"x=1; ((x++))": Allow, "x=1; ((x+=2))": Allow, "for x in 1 2 3; do :; done": Allow, "for x in {1..9}; do :; done": Allow, "for x in 1 a; do :; done": Deny, "for x; do :; done": Deny, ": ${x:=1}": Allow, ": ${x:=$y}": Deny,
		// Builtins that assign: a variable that they name is no longer a number; if
		// they may name any, none is.
		"x=1; read x": Deny, "x=1; read -r y": Allow, "x=1; read -r y z": Allow, "x=1; read \"$y\"": Deny, "x=1; read": Allow,
		"export x=1": Allow, "export x=a": Deny, "x=1; export x": Allow, "x=1; export y=2 x=$z": Deny, "readonly x=1": Allow, "readonly x=$y": Deny, "local x=1": Allow, "x=1; export -p": Deny, "x=1; \\export y=1": Deny,
		"x=1; declare y=1": Deny, "x=1; typeset -i x": Deny, "x=1; eval y=2": Deny, "x=1; . ./f": Deny, "x=1; let x=2": Allow, "x=1; mapfile x": Deny, "x=1; getopts ab x": Deny, "x=1; getopts ab y": Deny, "x=1; command read x": Deny, "x=1; wait": Deny, "x=1; trap : EXIT": Deny,
		"x=1; printf %s y": Allow, "x=1; printf '%s' y": Allow, "x=1; printf \"%s\" y": Allow, "x=1; printf \"\" y": Allow, "x=1; printf": Allow, "x=1; printf -v x a": Deny, "x=1; printf '-v' x a": Deny, "x=1; printf \"-v\" x a": Deny, "x=1; printf \"$f\" x a": Deny, "x=1; printf $f x": Deny, "x=1; printf \"a$f\" x": Allow,
		"x=1; \"$y\"": Deny, "x=1; r\\ead x": Deny, "x=1; tool x": Allow,
	} {
		if v := p.Judge(script+sum, ""); v.Decision != want {
			t.Errorf("%q is %s: %s", script+sum, v.Decision, v.Reason)
		}
	}
}

// Words without brackets are no subscripts, which test would evaluate.
// export and similar words are commands in POSIX, and clauses in bash.
func TestTextWithoutBrackets(t *testing.T) {
	for _, shell := range []string{ShellPOSIX, ShellBash} {
		p := compile(t, CommandRules{Shell: shell, Env: []string{"x", "y"}, Rules: []CommandRule{rule("r", Allow, "echo|cat")}})
		for script, want := range map[string]Decision{
			"x=a": Allow, "x='a b'": Allow, "x=\"a\"": Allow, "x=": Allow, "x=1": Allow, "for x in a b; do :; done": Allow,
			"x='a[1]'": Deny, "x=\"$y\"": Deny, "x='`a`'": Deny, "x=$'a'": Deny, "x=a; x=$y": Deny, "x=*": Deny, "x={a,b}": Deny, "x=a; read x": Deny, "for x in *; do :; done": Deny,
			"export x=a": Allow, "readonly x=a": Allow, "export x=1": Allow, "export x='a[1]'": Deny, "export x=\"$y\"": Deny, "export x=~": Deny, "x=a; export y=b": Allow, "x=a; export -p": Deny, "x=a; declare y=b": Deny, "x=a; typeset y=b": Deny,
		} {
			if v := p.Judge(script+"; [ $x -a b ] && echo", ""); v.Decision != want {
				t.Errorf("%s: %q is %s: %s", shell, script, v.Decision, v.Reason)
			}
		}
	}
}

// dash has no RANDOM, and takes one from its environment, where the caller may put an option.
func TestNumbersOfBashAreTheCallersInSh(t *testing.T) {
	for shell, want := range map[string]Decision{ShellPOSIX: Deny, ShellBash: Allow} {
		p := bundled(t, "readonly", shell)
		for _, name := range strings.Fields("RANDOM SECONDS LINENO BASHPID") {
			for _, script := range []string{`rg "$@" x`, "find . $@", "sort -- f \"$@\" | sort \"$@\" f"} {
				script = strings.ReplaceAll(script, "@", name)
				if v := p.Judge(script, ""); v.Decision != want {
					t.Errorf("%s: %q is %s: %s", shell, script, v.Decision, v.Reason)
				}
			}
		}
		for script, want := range map[string]Decision{"head -n $RANDOM f": Allow, "RANDOM=1; sort $RANDOM f": Allow, "sort $$ f": Allow, "sort f $#": Allow} {
			if v := p.Judge(script, ""); v.Decision != want {
				t.Errorf("%s: %q is %s: %s", shell, script, v.Decision, v.Reason)
			}
		}
	}
}

// TestNumbersOfBash runs the shells with such an environment.
func TestNumbersOfBash(t *testing.T) {
	for name, argv := range shelltest.Commands(t) {
		for variable := range numberVariables {
			cmd := exec.Command(argv[0], append(argv[1:], "-c", `case $`+variable+` in -*) exit 3;; esac`)...)
			cmd.Env = []string{variable + "=-exec"}
			err := cmd.Run()
			if err != nil && strings.HasPrefix(name, "bash") {
				t.Errorf("%s: %s is taken from the environment: %v", name, variable, err)
			}
			if name == "dash" && variable == "RANDOM" && err == nil {
				t.Errorf("%s does not take %s from the environment: this test shows nothing", name, variable)
			}
		}
	}
}

// An operator makes another text of a number.
func TestNumbersThatAreReplaced(t *testing.T) {
	p := bundled(t, "readonly", ShellBash)
	for _, of := range strings.Fields("? # $ !") {
		for _, script := range []string{"x=${@/0/-exec}; find . $x id ';'", "x=${@/0/-delete}; find . $x", "x=${@/0/'a[$(id)]'}; echo $((x))", "find . ${@/0/-delete}"} {
			script = strings.ReplaceAll(script, "@", of)
			if v := p.Judge(script, ""); v.Decision != Deny {
				t.Errorf("%q is %s: %s", script, v.Decision, v.Reason)
			}
		}
	}
}
