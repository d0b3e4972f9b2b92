package policy

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestEscapes: nothing that runs another program or writes is readonly, neither
// plain nor in the places where agents hide it.
func TestEscapes(t *testing.T) {
	data, err := os.ReadFile("testdata/escapes.txt")
	if err != nil {
		t.Fatal(err)
	}
	sets := []*CommandPolicy{bundled(t, "readonly", ShellPOSIX), bundled(t, "readonly", ShellBash), bundled(t, "git-readonly", ShellPOSIX)}
	programs, count := map[string]bool{}, 0
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		_, quoted, _ := strings.Cut(strings.TrimSpace(line), " ")
		script, err := strconv.Unquote(quoted)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		count++
		programs[strings.Fields(script)[0]] = true
		for _, p := range sets {
			for _, s := range []string{script, "cd x && " + script, "ls; (" + script + "\n)"} {
				v := p.Judge(s, "")
				if v.Decision != Deny {
					t.Errorf("%q is %s: %s", s, v.Decision, v.Reason)
				}
				checkVerdict(t, s, v)
			}
		}
	}
	if len(programs) < 470 || count < 600 {
		t.Errorf("%d invocations of %d programs: fewer than expected", count, len(programs))
	}
	t.Logf("%d invocations of %d programs", count, len(programs))
}

// TestClusters: after a letter that takes no value, the rest of the word is
// letters too, even if the long option of the same meaning takes a value.
func TestClusters(t *testing.T) {
	p := compile(t, CommandRules{Rules: []CommandRule{{Name: "start", Decision: Allow, Commands: strings.Fields("ls strace sudo unshare tar")}}})
	for _, script := range []string{
		"strace -qo ls id", "strace -To ls id", "strace -rE ls id", "unshare -mR ls id", "unshare -nw ls id", "sudo -Eu ls id", "sudo -Eg ls id",
		"tar -tsI id -f a", "tar -tf a -T ls", "tar -tf \"$ls\"",
	} {
		if v := p.Judge(script, ""); v.Decision != Deny {
			t.Errorf("%q is %s: %s", script, v.Decision, v.Reason)
		}
	}
	for _, script := range []string{"strace -qf ls", "unshare -mn ls", "sudo -En ls", "tar -tzf a", "tar -tf ./a:b", "tar -tf \"./$x\""} {
		if v := p.Judge(script, ""); v.Decision != Allow {
			t.Errorf("%q is %s: %s", script, v.Decision, v.Reason)
		}
	}
}
