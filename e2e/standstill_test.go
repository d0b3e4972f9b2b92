package e2e

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestStandstill: a belljar that was stopped for a while does not know the state
// of its command. It asks the engine before it reports a timeout.
func TestStandstill(t *testing.T) {
	needEngine(t)
	t.Parallel()
	for name, test := range map[string]struct {
		args  []string
		stood time.Duration
		code  int
		cause string
		says  string
		by    string // evidence.killed_by
	}{
		"it had ended before its time was up":     {[]string{"--timeout", "6s", "echo begun; sleep 1; echo done; exit 7"}, 9 * time.Second, 7, "exited", "begun\ndone\n", ""},
		"it had ended, and something held stdout": {[]string{"--timeout", "6s", "echo begun; sleep 1000 & sleep 1; echo done; exit 7"}, 9 * time.Second, 7, "exited", "begun\ndone\n", ""},
		"it ended after its time was up":          {[]string{"--timeout", "10s", "echo begun; sleep 15; echo done; exit 7"}, 22 * time.Second, 124, "wall_timeout", "begun\ndone\n", ""},
		"it runs on after its time is up":         {[]string{"--timeout", "4s", "echo begun; echo partial; sleep 1000"}, 7 * time.Second, 124, "wall_timeout", "begun\npartial\n", "belljar"},
		"it was not silent":                       {[]string{"--idle-timeout", "4s", "echo begun; for i in 1 2 3 4 5 6 7 8 9; do echo $i; sleep 1; done; exit 7"}, 8 * time.Second, 7, "exited", "begun\n1\n2\n3\n4\n5\n6\n7\n8\n9\n", ""},
		"it had ended after a silence":            {[]string{"--idle-timeout", "4s", "echo begun; sleep 1; exit 7"}, 7 * time.Second, 7, "exited", "begun\n", ""},
		"it is silent":                            {[]string{"--idle-timeout", "4s", "echo begun; sleep 1000"}, 7 * time.Second, 124, "idle_timeout", "begun\n", "belljar"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			state, use := ownState(t)
			p := begun(t, use, test.args...)
			eventually(t, "belljar has seen that the command began", func() bool {
				files, _ := filepath.Glob(spoolOf(state) + "/*/stdout*")
				for _, file := range files {
					if about, err := os.Stat(file); err == nil && about.Size() > 0 {
						return true
					}
				}
				return false
			})
			p.cmd.Process.Signal(syscall.SIGSTOP)
			time.Sleep(test.stood) // that is the case
			p.cmd.Process.Signal(syscall.SIGCONT)
			a := p.wait(t)
			if a.code != test.code || a.Cause != test.cause || a.Evidence.KilledBy != test.by {
				t.Errorf("%s", a.json)
			}
			a.says(t, test.says)
		})
	}
}
