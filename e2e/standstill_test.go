package e2e

import (
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// TestStandstill: a belljar that is stopped for a while does not know what
// became of its command. It asks before it says that the time is up.
func TestStandstill(t *testing.T) {
	needEngine(t)
	for name, test := range map[string]struct {
		args  []string
		stood time.Duration
		code  int
		cause string
		says  string
		by    string // evidence.killed_by
	}{
		"it had ended before its time was up":     {[]string{"--timeout", "6s", "touch ready; sleep 1; echo done; exit 7"}, 9 * time.Second, 7, "exited", "done\n", ""},
		"it had ended, and something held stdout": {[]string{"--timeout", "6s", "touch ready; sleep 1000 & sleep 1; echo done; exit 7"}, 9 * time.Second, 7, "exited", "done\n", ""},
		"it ended after its time was up":          {[]string{"--timeout", "4s", "touch ready; sleep 9; echo done; exit 7"}, 15 * time.Second, 124, "wall_timeout", "done\n", ""},
		"it runs on after its time is up":         {[]string{"--timeout", "4s", "touch ready; echo partial; sleep 1000"}, 7 * time.Second, 124, "wall_timeout", "partial\n", "belljar"},
		"it was not silent":                       {[]string{"--idle-timeout", "4s", "touch ready; for i in 1 2 3 4 5 6 7 8 9; do echo $i; sleep 1; done; exit 7"}, 8 * time.Second, 7, "exited", "1\n2\n3\n4\n5\n6\n7\n8\n9\n", ""},
		"it had ended after a silence":            {[]string{"--idle-timeout", "4s", "touch ready; sleep 1; exit 7"}, 7 * time.Second, 7, "exited", "", ""},
		"it is silent":                            {[]string{"--idle-timeout", "4s", "touch ready; sleep 1000"}, 7 * time.Second, 124, "idle_timeout", "", "belljar"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, config := shared(t, "rw")
			p := begun(t, func(*exec.Cmd) {}, append([]string{"--config", config, "-v", dir + ":/work"}, test.args...)...)
			mark(t, "command started", dir+"/ready")
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
