package e2e

import (
	"os"
	"os/exec"
	"testing"
)

// What works in silence is not idle where that is asked for, and what only waits is.
func TestIdleOn(t *testing.T) {
	needEngine(t)
	t.Parallel()
	const works = `end=$(($(date +%s) + 5)); while [ $(date +%s) -lt $end ]; do :; done`
	for name, test := range map[string]struct {
		flags   []string
		script  string
		code    int
		message string
	}{
		"works, asked for":     {[]string{"--idle-on", "output+cpu"}, works, 0, ""},
		"works, and I/O":       {[]string{"--idle-on", "output+cpu+io"}, works, 0, ""},
		"works, not asked for": {nil, works, exitTimeout, "no output for 2s (idle timeout); partial output kept"},
		"waits":                {[]string{"--idle-on", "output+cpu+io"}, "while :; do sleep 1; done", exitTimeout, "no output, CPU use or I/O for 2s (idle timeout); partial output kept"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := ask(t, append(append([]string{"--idle-timeout", "2s"}, test.flags...), test.script)...)
			if a.code != test.code || a.Message != test.message {
				t.Errorf("%s", a.json)
			}
		})
	}
}

// A command that waits for input is told so, and only if it does.
func TestIdleWhileWaitingForInput(t *testing.T) {
	needEngine(t)
	needRoot(t, "seeing what processes wait for")
	t.Parallel()
	const waits, plain = "; the command waits for input on stdin", ""
	for script, test := range map[string]struct {
		flags []string
		want  string
	}{
		"cat":                     {[]string{"-i"}, waits},
		"sh -c 'cat; true'; true": {[]string{"-i"}, waits},
		"cat | cat":               {[]string{"-i"}, waits},
		"sleep 1000 | cat":        {[]string{"-i"}, plain},
		"read x":                  {[]string{"-i"}, waits},
		"read -t 1000 x":          {[]string{"-i"}, plain},
		"sleep 1000 | read x":     {[]string{"-i"}, plain},
		"sleep 1000":              {[]string{"-i"}, plain},
		"mkfifo /tmp/f; sleep 1000 >/tmp/f & cat </tmp/f": {[]string{"-i"}, plain},
		"cat; sleep 1000": {nil, plain},
		"head -n 1":       {[]string{"-t"}, waits + ": pass it with -i"},
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			stdin, typed, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer stdin.Close()
			defer typed.Close()
			a := begun(t, func(c *exec.Cmd) { c.Stdin = stdin }, append(append([]string{"--idle-timeout", "5s"}, test.flags...), script)...).wait(t)
			if want := "no output for 5s (idle timeout)" + test.want + "; partial output kept"; a.Message != want {
				t.Errorf("message %q, want %q", a.Message, want)
			}
		})
	}
}
