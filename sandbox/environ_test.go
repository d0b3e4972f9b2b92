package sandbox

import (
	"slices"
	"strings"
	"testing"
)

func TestTerminalEnviron(t *testing.T) {
	tty := &TerminalSize{}
	for name, test := range map[string]struct {
		command Command
		profile Profile
		want    []string
	}{
		"no terminal":       {Command{Inherit: []string{"TERM=vt100"}}, Profile{}, nil},
		"the caller's":      {Command{TTY: tty, Inherit: []string{"TERM=screen.xterm-256color+x"}}, Profile{}, []string{"PAGER=cat", "TERM=screen.xterm-256color+x"}},
		"the caller's none": {Command{TTY: tty}, Profile{}, []string{"PAGER=cat", "TERM=xterm-256color"}},
		"the profile's":     {Command{TTY: tty}, Profile{Env: []string{"PAGER=more", "TERM=dumb"}}, []string{"PAGER=more", "TERM=dumb"}},
		"asked for":         {Command{TTY: tty, Env: []string{"PAGER=less", "TERM="}}, Profile{Env: []string{"PAGER=more"}}, []string{"PAGER=less", "TERM="}},
	} {
		if got, _, err := environ(test.command, test.profile); err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, error %v, want %q", name, got, err, test.want)
		}
	}
	for _, term := range []string{"xterm\x1b]0;x\a", "a b", "../../etc/passwd", "Eterm", strings.Repeat("x", 65), "ü"} {
		if got := terminalName(term); got != "xterm-256color" {
			t.Errorf("%q is passed on as %q", term, got)
		}
	}
}
