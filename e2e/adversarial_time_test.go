package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// T3: a new session (setsid) neither hides nor saves a process.
func detachedDies(t *testing.T) {
	a := ask(t, "--timeout", "6s", "setsid sleep 999 & sleep 999")
	a.ended(t, 124, "wall_timeout")
	sleeps := 0
	for _, p := range a.Lingering {
		if p.Command == "sleep 999" {
			sleeps++
		}
	}
	if sleeps != 2 {
		t.Errorf("listed %+v", a.Lingering)
	}
	a.nothingLives(t)
}

// T4: a process that outlives its shell does not outlive its container.
func backgroundDies(t *testing.T) {
	a := ask(t, "(sleep 999 >/dev/null 2>&1 &); exit 0")
	a.ended(t, 0, "")
	if len(a.Lingering) != 1 {
		t.Errorf("listed %+v", a.Lingering)
	}
	a.nothingLives(t)
}

// T9: no status of a command is changed.
func statusesVerbatim(t *testing.T) {
	for _, status := range []int{0, 1, 2, 124, 125, 126, 127, 143, 255} {
		a := ask(t, fmt.Sprintf("exit %d", status))
		if a.code != status || a.ExitCode != status {
			t.Errorf("exit %d is reported as %d and %d", status, a.code, a.ExitCode)
		}
	}
}

// T11: the caller is gone, so no process may continue the work.
func clientGone(t *testing.T) {
	cmd, _ := begin(t, "client gone")
	id := container(t, cmd.Process.Pid)
	if len(hostProcesses(id)) == 0 {
		t.Error("none of its processes is seen on the host: is the engine elsewhere?")
	}
	cmd.Process.Signal(syscall.SIGKILL)
	cmd.Wait()
	eventually(t, "processes gone", func() bool { return len(hostProcesses(id)) == 0 })
	eventually(t, "container gone", func() bool { return owned(cmd.Process.Pid) == "" })
}

// hostProcesses are this host's PIDs in control groups of that name.
func hostProcesses(name string) []string {
	entries, _ := os.ReadDir("/proc")
	var pids []string
	for _, e := range entries {
		text, _ := os.ReadFile("/proc/" + e.Name() + "/cgroup")
		if strings.Contains(string(text), name) {
			pids = append(pids, e.Name())
		}
	}
	return slices.Clip(pids)
}

// T12: a paused container does not notice the end of its stdin.
func pausedIsKilled(t *testing.T) {
	cmd, stderr := begin(t, "paused")
	pause(t, container(t, cmd.Process.Pid))
	cmd.Process.Signal(syscall.SIGTERM)
	if code := exitCode(t, cmd.Wait()); code != exitCanceled {
		t.Errorf("exit %d, stderr %q", code, stderr)
	}
	if left := owned(cmd.Process.Pid); left != "" {
		t.Errorf("left behind: %s", left)
	}
}
