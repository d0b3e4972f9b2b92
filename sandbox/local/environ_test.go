package local

import (
	"slices"
	"strings"
	"testing"

	"belljar/sandbox"
)

func TestTerminalEnviron(t *testing.T) {
	tty := &sandbox.TerminalSize{}
	for name, test := range map[string]struct {
		command sandbox.Command
		profile sandbox.Profile
		want    []string
	}{
		"no terminal":       {sandbox.Command{Inherit: []string{"TERM=vt100"}}, sandbox.Profile{}, nil},
		"the caller's":      {sandbox.Command{TTY: tty, Inherit: []string{"TERM=screen.xterm-256color+x"}}, sandbox.Profile{}, []string{"GIT_TERMINAL_PROMPT=1", "PAGER=cat", "TERM=screen.xterm-256color+x"}},
		"the caller's none": {sandbox.Command{TTY: tty}, sandbox.Profile{}, []string{"GIT_TERMINAL_PROMPT=1", "PAGER=cat", "TERM=xterm-256color"}},
		"the profile's":     {sandbox.Command{TTY: tty}, sandbox.Profile{Env: []string{"PAGER=more", "TERM=dumb"}}, []string{"GIT_TERMINAL_PROMPT=1", "PAGER=more", "TERM=dumb"}},
		"asked for":         {sandbox.Command{TTY: tty, Env: []string{"PAGER=less", "TERM=", "GIT_TERMINAL_PROMPT=0"}}, sandbox.Profile{Env: []string{"PAGER=more"}}, []string{"GIT_TERMINAL_PROMPT=0", "PAGER=less", "TERM="}},
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
