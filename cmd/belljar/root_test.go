package main

import (
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// A job that runs `belljar policy tset FILE` must fail: it tested nothing.
func TestMistypedCommands(t *testing.T) {
	var groups func(cmd *cobra.Command) []string
	groups = func(cmd *cobra.Command) (all []string) {
		for _, sub := range cmd.Commands() {
			if sub.HasSubCommands() {
				all = append(all, sub.CommandPath())
			}
			all = append(all, groups(sub)...)
		}
		return all
	}
	all := append(groups(rootCmd()), "belljar help", "belljar help policy")
	if len(all) < 8 {
		t.Errorf("there are more groups than %q", all)
	}
	for _, group := range append(all, "belljar") {
		for _, word := range []string{"tset", "\x1b"} {
			if err := execute(group, word); err == nil || !strings.HasPrefix(err.Error(), "unknown command ") {
				t.Errorf("%s %q: %v", group, word, err)
			}
		}
		if err := execute(group); err != nil {
			t.Errorf("%s: %v", group, err)
		}
	}
	if err := execute("belljar help policy test"); err != nil {
		t.Error(err)
	}
}

func execute(path string, words ...string) error {
	root := rootCmd()
	root.SetArgs(append(strings.Fields(path)[1:], words...))
	root.SetOut(io.Discard)
	root.SetErr(io.Discard)
	return root.Execute()
}
