package e2e

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"belljar/sandbox"
)

// cleans is a script that removes its lock when it is ended, as git does.
const cleans = `trap 'rm -f /work/lock; echo cleaned; exit 7' TERM; touch /work/lock; echo working; while :; do sleep 1; done`

// A command that is ended can clean up, if it is given time for it, and what it writes
// then is kept. What does not end then is killed.
func TestStopGrace(t *testing.T) {
	needEngine(t)
	t.Parallel()
	for name, test := range map[string]struct {
		flags  []string
		script string
		stdout string
		by     string
		locked bool
	}{
		"handles it":          {[]string{"--stop-grace", "30s"}, cleans, "working\ncleaned\n", "SIGTERM", false},
		"handles it, idle":    {[]string{"--stop-grace", "30s", "--timeout", "1m", "--idle-timeout", "5s"}, `trap 'rm -f /work/lock; echo cleaned; exit' TERM; touch /work/lock; echo working; sleep 1000`, "working\ncleaned\n", "SIGTERM", false},
		"in a terminal":       {[]string{"--stop-grace", "30s", "-t"}, "exec 2>/dev/null; " + cleans, "working\r\ncleaned\r\n", "SIGTERM", false},
		"a child handles it":  {[]string{"--stop-grace", "30s"}, `sh -c "$CLEANS"; echo not reached`, "working\ncleaned\n", "SIGTERM", false},
		"a child is slow":     {[]string{"--stop-grace", "30s"}, `sh -c 'trap "echo cleaning; sleep 1; echo cleaned; exit" TERM; echo working; while :; do sleep 0.1; done'; echo not reached`, "working\ncleaning\ncleaned\n", "SIGTERM", false},
		"no time for it":      {nil, cleans, "working\n", "SIGKILL", true},
		"ignores it":          {[]string{"--stop-grace", "1s"}, `trap '' TERM; touch /work/lock; echo working; while :; do sleep 1; done`, "working\n", "SIGKILL", true},
		"forks at it":         {[]string{"--stop-grace", "20s"}, `trap 'sleep 1000 & exit' TERM; touch /work/lock; echo working; while :; do sleep 0.1; done`, "working\n", "SIGKILL", true},
		"forks away from it":  {[]string{"--stop-grace", "20s"}, `trap 'setsid sleep 1000 >/dev/null 2>&1 & exit' TERM; touch /work/lock; echo working; while :; do sleep 0.1; done`, "working\n", "SIGKILL", true},
		"is stopped":          {[]string{"--stop-grace", "1s"}, `touch /work/lock; echo working; kill -STOP $$; echo not reached`, "working\n", "SIGKILL", true},
		"has no lock at all":  {[]string{"--stop-grace", "30s"}, `echo working; exec sleep 1000`, "working\n", "SIGTERM", false},
		"writes without end":  {[]string{"--stop-grace", "1s", "--max-output", "1KiB", "--on-output-limit", "end", "--timeout", "1m"}, `trap '' TERM; touch /work/lock; yes`, strings.Repeat("y\n", 512), "SIGKILL", true},
		"a zombie is no life": {[]string{"--stop-grace", "30s"}, `(sleep 0.1 &); touch /work/lock; echo working; exec sleep 1000`, "working\n", "SIGTERM", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, config := shared(t, "rw")
			args := append([]string{"--timeout", "5s", "-e", "CLEANS=" + cleans}, test.flags...)
			if !onPods() { // which see none of its directories
				args = append(args, "--config", config, "-v", dir+":/work")
			}
			a := ask(t, append(args, test.script)...)
			unseen := onPods() && name == "writes without end" && a.Evidence.ListError != "" // the list came behind too much output
			if a.Status != "timeout" && a.Cause != "output_limit" || a.ExitCode != sandbox.ExitEnded || a.Stdout != test.stdout || a.Evidence.StoppedBy != test.by || a.Evidence.KilledBy != "belljar" || len(a.Lingering) == 0 && !unseen {
				t.Errorf("%s", a.json)
			}
			if strings.HasPrefix(name, "forks") && !strings.Contains(string(a.json), `"command":"sleep 1000"`) {
				t.Errorf("what came up after SIGTERM is not listed: %s", a.json)
			}
			if _, err := os.Stat(dir + "/lock"); !onPods() && (err == nil) != test.locked {
				t.Errorf("the lock: %v", err)
			}
		})
	}
}

// A command that is ended alone has two seconds for it in its session, and neighbours
// get no signal.
func TestStopGraceInASession(t *testing.T) {
	t.Parallel()
	name, use := newSession(t)
	dir, config := shared(t, "rw")
	session := []string{"--config", config, "-v", dir + ":/work", "--session", name, "--parallel"}
	neighbour := begun(t, use, append(session, `trap 'echo got TERM' TERM; touch neighbour; until [ -e go ]; do sleep 0.1; done; echo end`)...)
	mark(t, "neighbour started", dir+"/neighbour")
	for script, want := range map[string]struct{ by, stdout string }{
		cleans: {"SIGTERM", "working\ncleaned\n"},
		`trap '' TERM; echo working; while :; do sleep 0.3; done`:           {"SIGKILL", "working\n"},
		`trap 'sleep 1000 & exit' TERM; echo working; sleep 1000 & wait`:    {"SIGKILL", "working\n"},
		`echo working; kill -STOP $$`:                                       {"SIGKILL", "working\n"},
		`setsid sleep 1000 >/dev/null 2>&1 & echo working; exec sleep 1000`: {"SIGTERM", "working\n"},
	} {
		flags := []string{"--on-timeout", "command", "--timeout", "5s"}
		if want.by == "SIGTERM" { // the usual two seconds are for the others
			flags = append(flags, "--stop-grace", "30s")
		}
		a := asks(t, use, append(slices.Concat(session, flags), script)...)
		if a.Cause != "wall_timeout" || a.Stdout != want.stdout || a.Evidence.StoppedBy != want.by || strings.Contains(string(a.json), "session_lost") || len(a.Evidence.Killed) == 0 {
			t.Errorf("%s: %s", script, a.json)
		}
	}
	if _, err := os.Stat(dir + "/lock"); err == nil {
		t.Error("the lock is still there")
	}
	if err := os.WriteFile(dir+"/go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if a := neighbour.wait(t); a.Stdout != "end\n" || a.code != 0 {
		t.Errorf("the neighbour: %s", a.json)
	}
}

// The first Ctrl-C lets the command clean up, and the second does not wait for that.
func TestInterruptsAndStopGrace(t *testing.T) {
	needEngine(t)
	t.Parallel()
	for script, second := range map[string]bool{
		cleans: false,
		`trap 'touch /work/term' TERM; touch /work/lock; while :; do sleep 0.1; done`: true,
	} {
		dir, config := shared(t, "rw")
		p := begun(t, func(*exec.Cmd) {}, "--config", config, "-v", dir+":/work", "--stop-grace", "1m", script)
		mark(t, "command started", dir+"/lock")
		p.cmd.Process.Signal(syscall.SIGINT)
		by := "SIGTERM"
		if second {
			by = "SIGKILL"
			mark(t, "SIGTERM came", dir+"/term")
			p.cmd.Process.Signal(syscall.SIGINT)
		}
		if a := p.wait(t); a.Cause != "canceled" || a.code != exitCanceled || a.Evidence.StoppedBy != by {
			t.Errorf("%s", a.json)
		}
	}
}
