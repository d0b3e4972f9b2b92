package local

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/internal/gate"
)

func TestExited(t *testing.T) {
	limits := sandbox.Limits{Memory: 1000, Pids: 10, Tmp: 500}
	for _, test := range []struct {
		name     string
		status   int
		evidence sandbox.Evidence
		want     sandbox.Status
		cause    sandbox.Cause
		signal   string
		killedBy string
		message  string
	}{
		{"success", 0, sandbox.Evidence{}, sandbox.StatusSuccess, sandbox.CauseExited, "", "", ""},
		{"survived everything", 0, sandbox.Evidence{OOMKills: 1, PidsLimitHits: 2, DiskFull: []string{"/tmp"}}, sandbox.StatusSuccess, sandbox.CauseExited, "", "", ""},
		{"failure", 1, sandbox.Evidence{}, sandbox.StatusError, sandbox.CauseExited, "", "", ""},
		{"not executable", 126, sandbox.Evidence{}, sandbox.StatusError, sandbox.CauseExited, "", "", ""},
		{"128 is no signal", 128, sandbox.Evidence{}, sandbox.StatusError, sandbox.CauseExited, "", "", ""},
		{"the first signal", 129, sandbox.Evidence{}, sandbox.StatusError, sandbox.CauseSignaled, "SIGHUP", "", "ended with SIGHUP"},
		{"the last signal", 159, sandbox.Evidence{}, sandbox.StatusError, sandbox.CauseSignaled, "SIGSYS", "", "ended with SIGSYS"},
		{"past the last signal", 160, sandbox.Evidence{}, sandbox.StatusError, sandbox.CauseExited, "", "", ""},
		{"255", 255, sandbox.Evidence{}, sandbox.StatusError, sandbox.CauseExited, "", "", ""},
		{"killed", 137, sandbox.Evidence{}, sandbox.StatusError, sandbox.CauseSignaled, "SIGKILL", "", "ended with SIGKILL"},
		{"killed from outside", 137, sandbox.Evidence{KilledBy: "outside"}, sandbox.StatusError, sandbox.CauseSignaled, "SIGKILL", "outside", "killed with its container by something other than belljar"},
		{"killed from outside, and short of memory before", 137, sandbox.Evidence{OOMKills: 1, KilledBy: "outside"}, sandbox.StatusError, sandbox.CauseSignaled, "SIGKILL", "outside", "killed with its container by something other than belljar"},
		{"out of memory", 137, sandbox.Evidence{OOMKills: 1}, sandbox.StatusError, sandbox.CauseOOMKilled, "SIGKILL", "oom", "out of memory (limits.memory is 1000 bytes)"},
		{"out of memory, and of pids", 137, sandbox.Evidence{OOMKills: 1, PidsLimitHits: 1}, sandbox.StatusError, sandbox.CauseOOMKilled, "SIGKILL", "oom", "out of memory (limits.memory is 1000 bytes)"},
		{"a child was out of memory", 1, sandbox.Evidence{OOMKills: 1}, sandbox.StatusError, sandbox.CauseExited, "", "", ""},
		{"another signal than the kernel's", 143, sandbox.Evidence{OOMKills: 1}, sandbox.StatusError, sandbox.CauseSignaled, "SIGTERM", "", "ended with SIGTERM"},
		{"killed at the pids limit", 137, sandbox.Evidence{PidsLimitHits: 3}, sandbox.StatusError, sandbox.CauseSignaled, "SIGKILL", "", "ended with SIGKILL"},
		{"pids limit", 2, sandbox.Evidence{PidsLimitHits: 3}, sandbox.StatusError, sandbox.CausePidsLimit, "", "", "exit status 2, 3 forks failed (limits.pids is 10)"},
		{"pids limit before full disk", 2, sandbox.Evidence{PidsLimitHits: 3, DiskFull: []string{"/tmp"}}, sandbox.StatusError, sandbox.CausePidsLimit, "", "", "exit status 2, 3 forks failed (limits.pids is 10)"},
		{"disk full", 1, sandbox.Evidence{DiskFull: []string{"/tmp", "/work"}}, sandbox.StatusError, sandbox.CauseDiskFull, "", "", "exit status 1, /tmp, /work is full (limits.tmp is 500 bytes)"},
	} {
		r := sandbox.Result{Evidence: test.evidence}
		exitedWith(&r, test.status, limits, 0)
		if r.ExitCode != test.status || r.Status != test.want || r.Cause != test.cause || r.Signal != test.signal || r.Message != test.message || r.Evidence.KilledBy != test.killedBy {
			t.Errorf("%s: %+v", test.name, r)
		}
	}
}

// Once a bug: where the kernel killed a command for the memory of its host, belljar said that it reached its own limit.
func TestWhoseMemoryRanOut(t *testing.T) {
	for name, test := range map[string]struct {
		engine, source string
		peak, read     int64
		want           string
	}{
		"its own":                          {"oci", "cgroup", 1000 << 10, 1000 << 10, "out of memory (limits.memory is 1000 KiB)"},
		"just half of it":                  {"oci", "cgroup", 500 << 10, 500 << 10, "out of memory (limits.memory is 1000 KiB)"},
		"the host's":                       {"docker", "cgroup,events", 20 << 10, 20 << 10, "killed as its host ran out of memory (it used 20 KiB, limits.memory is 1000 KiB)"},
		"the node's":                       {"kubernetes", "cgroup", 20 << 10, 20 << 10, "killed as its node ran out of memory (it used 20 KiB, limits.memory is 1000 KiB)"},
		"unknown":                          {"oci", "cgroup", 0, 0, "out of memory (limits.memory is 1000 KiB)"},
		"read before the kernel's kill":    {"oci", "cgroup", 0, 20 << 10, "out of memory (limits.memory is 1000 KiB)"},
		"only Kubernetes said so":          {"kubernetes", "pod", 0, 0, "out of memory: its own (limits.memory is 1000 KiB), or its node's"},
		"it said so after another reading": {"kubernetes", "cgroup,pod", 0, 20 << 10, "out of memory: its own (limits.memory is 1000 KiB), or its node's"},
	} {
		r := sandbox.Result{
			Evidence: sandbox.Evidence{OOMKills: 1, Source: test.source}, Resources: sandbox.Resources{MaxMemoryBytes: test.read},
			Container: sandbox.ContainerInfo{Engine: test.engine},
		}
		exitedWith(&r, 137, sandbox.Limits{Memory: 1000 << 10}, test.peak)
		if r.Cause != sandbox.CauseOOMKilled || r.Evidence.KilledBy != "oom" || r.Message != test.want {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// Over pods, limits.pids is not what kept processes from starting.
func TestPidsLimitOfANode(t *testing.T) {
	r := sandbox.Result{Evidence: sandbox.Evidence{PidsLimitHits: 3}, Container: sandbox.ContainerInfo{Limits: "no-pids"}}
	exitedWith(&r, 2, sandbox.Limits{Pids: 10}, 0)
	if r.Cause != sandbox.CausePidsLimit || r.Message != "exit status 2, 3 forks failed (podPidsLimit of the node's kubelet)" {
		t.Errorf("%+v", r)
	}
}

// What kept a command from starting did not end it.
func TestFailed(t *testing.T) {
	full := &sandbox.Error{Cause: sandbox.CausePidsLimit, Message: "as many processes run as limits.pids allows"}
	for _, test := range []struct {
		name            string
		began, canceled bool
		want            sandbox.Status
		cause           sandbox.Cause
		exitCode        int
	}{
		{"before it began", false, false, sandbox.StatusFatal, sandbox.CausePidsLimit, sandbox.ExitNeverRan},
		{"afterwards", true, false, sandbox.StatusError, sandbox.CausePidsLimit, sandbox.ExitEnded},
		{"before, and it was canceled", false, true, sandbox.StatusCanceled, sandbox.CauseCanceled, sandbox.ExitNeverRan},
		{"afterwards, and it was canceled", true, true, sandbox.StatusError, sandbox.CausePidsLimit, sandbox.ExitEnded},
	} {
		x := &execution{output: newOutput(request{}, "", nil)}
		if test.began {
			close(x.output.activity.begun)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if test.canceled {
			cancel()
		}
		x.fail(ctx, full)
		cancel()
		if r := x.result; r.Status != test.want || r.Cause != test.cause || r.ExitCode != test.exitCode || (x.err != nil) != (test.want == sandbox.StatusFatal) {
			t.Errorf("%s: %s, %s, exit code %d, error %v", test.name, r.Status, r.Cause, r.ExitCode, x.err)
		}
	}
}

// Where the exit and a reason to end the command are both there, the exit
// happened.
func TestExitWins(t *testing.T) {
	for range 100 { // a select among ready channels is random
		r := request{command: sandbox.Command{Timeout: time.Hour, IdleTimeout: time.Hour}}
		x := &execution{request: r, output: newOutput(r, "", nil)}
		close(x.output.recorder.full)
		fired := make(chan time.Time, 1)
		fired <- time.Now()
		x.output.activity.idle = &watchdog{C: fired}
		exited := make(chan gate.Exit, 1)
		exited <- gate.Exit{Status: 3}
		if e, end := x.await(t.Context(), process{running: stillRunning{}, exited: exited}); e.Status != 3 || end.cause != "" {
			t.Fatalf("%+v, %+v", e, end)
		}
	}
}

func TestErrorText(t *testing.T) {
	under := errors.New("under")
	for want, err := range map[string]*sandbox.Error{
		"m":            {Message: "m"},
		"m (h)":        {Message: "m", Hint: "h"},
		"m: under (h)": {Message: "m", Hint: "h", Err: under},
	} {
		if err.Error() != want || errors.Is(err, under) != (err.Err != nil) {
			t.Errorf("%q, want %q", err, want)
		}
	}
	wrapped := fmt.Errorf("outer: %w", &sandbox.Error{Cause: sandbox.CauseImage})
	if sandbox.CauseOf(nil) != "" {
		t.Error("no error has a cause")
	}
	if sandbox.CauseOf(wrapped) != sandbox.CauseImage || sandbox.CauseOf(under) != sandbox.CauseEngine {
		t.Error(sandbox.CauseOf(wrapped), sandbox.CauseOf(under))
	}
}

// stillRunning is a process that does not end.
type stillRunning struct{ sandbox.Running }

func (stillRunning) Exited() <-chan struct{} { return nil }
