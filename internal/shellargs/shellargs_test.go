package shellargs

import (
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"belljar/internal/shelltest"
	"belljar/sandbox"

	"github.com/google/go-cmp/cmp"
)

// A script in pieces runs as it would in one, wherever they are torn.
func TestOf(t *testing.T) {
	for _, c := range []struct {
		script string
		most   int
		want   int
	}{
		{strings.Repeat("x", sandbox.MaxArgument), sandbox.MaxArgument, 1},
		{strings.Repeat("x", sandbox.MaxArgument+1), sandbox.MaxArgument, 4},
		{strings.Repeat("x", sandbox.MaxScript), sandbox.MaxArgument, 18},
		{strings.Repeat("ü", 8), 3, 10},
		{strings.Repeat("\x80", 16), 4, 6},
	} {
		args := split("sh", c.script, c.most)
		if len(args) != c.want {
			t.Errorf("%d bytes by %d: %d arguments", len(c.script), c.most, len(args))
		}
		if len(args) > 1 && strings.Join(args[2:], "") != c.script {
			t.Errorf("%d bytes by %d: %q", len(c.script), c.most, args)
		}
		for _, arg := range args {
			if len(arg) > sandbox.MaxArgument {
				t.Errorf("an argument of %d bytes", len(arg))
			}
		}
	}
	about := []string{`echo "$0 $# $* $- $PWD $?"; `, "set -e; false; echo not reached\n", "trap 'echo bye' EXIT; exit 7\n", "#\n", "\n\n", "cat\n", "false; ", "set | while read -r l; do :; done; ",
		"f() { echo f $# $1; }; f a b\n", "cat <<'X'\nin a document\nX\n", `echo "${IFS}"; `, "return 3\n", "read -r l; echo \"$l\"\n", "kill -TERM $$\n", "\\\n", "'\n", "$(", ") ", "}\n"}
	shells := shelltest.Shells(t)
	for _, s := range shells {
		if s.Name == sandbox.ShellBash { // and by its own name
			s.Bin = ""
			shells = append(shells, s)
		}
	}
	for _, s := range shells {
		random := rand.New(rand.NewPCG(1, 2))
		for range 150 {
			var script strings.Builder
			for range 1 + random.IntN(5) {
				script.WriteString(about[random.IntN(len(about))])
				b := make([]byte, random.IntN(20))
				for i := range b {
					b[i] = byte(1 + random.IntN(255))
				}
				script.WriteString("printf '%s|' '" + strings.ReplaceAll(string(b), "'", `'\''`) + "'\n")
			}
			text := script.String()
			whole, parts := runIn(t, s, text, len(text)), runIn(t, s, text, 1+random.IntN(len(text)))
			if diff := cmp.Diff(whole, parts); diff != "" {
				t.Errorf("%s runs %q in pieces: %s", s.Name, text, diff)
			}
		}
	}
}

// runIn is what a script says and exits with, in pieces of at most that many bytes.
func runIn(t *testing.T, s shelltest.Shell, script string, most int) []string {
	t.Helper()
	name := sandbox.ShellSh
	if s.Bin == "" {
		name = sandbox.ShellBash
	}
	cmd := exec.CommandContext(t.Context(), s.Path, slices.Concat([]string{"-c"}, split(name, script, most))...)
	cmd.Args[0], cmd.Dir, cmd.Env = name, "/", []string{"PATH=" + s.Bin + ":/usr/bin:/bin"}
	cmd.Stdin = strings.NewReader("some\ninput\n")
	out, err := cmd.Output()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return []string{string(out), cmd.ProcessState.String()}
}
