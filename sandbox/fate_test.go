package sandbox

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestExited(t *testing.T) {
	limits := Limits{Memory: 1000, Pids: 10, Tmp: 500}
	for _, test := range []struct {
		name     string
		status   int
		evidence Evidence
		want     Status
		cause    Cause
		signal   string
		killedBy string
		message  string
	}{
		{"success", 0, Evidence{}, StatusSuccess, CauseExited, "", "", ""},
		{"survived everything", 0, Evidence{OOMKills: 1, PidsLimitHits: 2, DiskFull: []string{"/tmp"}}, StatusSuccess, CauseExited, "", "", ""},
		{"failure", 1, Evidence{}, StatusError, CauseExited, "", "", ""},
		{"not executable", 126, Evidence{}, StatusError, CauseExited, "", "", ""},
		{"128 is no signal", 128, Evidence{}, StatusError, CauseExited, "", "", ""},
		{"the first signal", 129, Evidence{}, StatusError, CauseSignaled, "SIGHUP", "", "ended with SIGHUP"},
		{"the last signal", 159, Evidence{}, StatusError, CauseSignaled, "SIGSYS", "", "ended with SIGSYS"},
		{"past the last signal", 160, Evidence{}, StatusError, CauseExited, "", "", ""},
		{"255", 255, Evidence{}, StatusError, CauseExited, "", "", ""},
		{"killed", 137, Evidence{}, StatusError, CauseSignaled, "SIGKILL", "", "ended with SIGKILL"},
		{"killed from outside", 137, Evidence{KilledBy: "outside"}, StatusError, CauseSignaled, "SIGKILL", "outside", "killed with its container, from outside"},
		{"killed from outside, and short of memory before", 137, Evidence{OOMKills: 1, KilledBy: "outside"}, StatusError, CauseSignaled, "SIGKILL", "outside", "killed with its container, from outside"},
		{"out of memory", 137, Evidence{OOMKills: 1}, StatusError, CauseOOMKilled, "SIGKILL", "oom", "killed for want of memory: limits.memory is 1000 bytes"},
		{"out of memory, and of pids", 137, Evidence{OOMKills: 1, PidsLimitHits: 1}, StatusError, CauseOOMKilled, "SIGKILL", "oom", "killed for want of memory: limits.memory is 1000 bytes"},
		{"a child was out of memory", 1, Evidence{OOMKills: 1}, StatusError, CauseExited, "", "", ""},
		{"another signal than the kernel's", 143, Evidence{OOMKills: 1}, StatusError, CauseSignaled, "SIGTERM", "", "ended with SIGTERM"},
		{"killed at the pids limit", 137, Evidence{PidsLimitHits: 3}, StatusError, CauseSignaled, "SIGKILL", "", "ended with SIGKILL"},
		{"pids limit", 2, Evidence{PidsLimitHits: 3}, StatusError, CausePidsLimit, "", "", "exit status 2, and 3 forks were refused: limits.pids is 10"},
		{"pids limit before full disk", 2, Evidence{PidsLimitHits: 3, DiskFull: []string{"/tmp"}}, StatusError, CausePidsLimit, "", "", "exit status 2, and 3 forks were refused: limits.pids is 10"},
		{"disk full", 1, Evidence{DiskFull: []string{"/tmp", "/work"}}, StatusError, CauseDiskFull, "", "", "exit status 1, and /tmp, /work is full: limits.tmp is 500 bytes"},
	} {
		r := Result{Evidence: test.evidence}
		r.exited(test.status, limits)
		if r.ExitCode != test.status || r.Status != test.want || r.Cause != test.cause || r.Signal != test.signal || r.Message != test.message || r.Evidence.KilledBy != test.killedBy {
			t.Errorf("%s: %+v", test.name, r)
		}
	}
}

// Where the exit and a reason to end the command are both there, the exit
// happened.
func TestExitWins(t *testing.T) {
	for range 100 { // a select among ready channels is random
		x := &execution{command: Command{Timeout: time.Hour, IdleTimeout: time.Hour}, output: newOutput(Command{}, "")}
		close(x.output.over)
		fired := make(chan time.Time, 1)
		fired <- time.Now()
		x.output.idle = &watchdog{C: fired}
		exited := make(chan exit, 1)
		exited <- exit{status: 3}
		if e, end := x.await(t.Context(), process{running: stillRunning{}, exited: exited}); e.status != 3 || end.cause != "" {
			t.Fatalf("%+v, %+v", e, end)
		}
	}
}

func TestErrorText(t *testing.T) {
	under := errors.New("under")
	for want, err := range map[string]*Error{
		"m":            {Message: "m"},
		"m (h)":        {Message: "m", Hint: "h"},
		"m: under (h)": {Message: "m", Hint: "h", Err: under},
	} {
		if err.Error() != want || errors.Is(err, under) != (err.Err != nil) {
			t.Errorf("%q, want %q", err, want)
		}
	}
	wrapped := fmt.Errorf("outer: %w", &Error{Cause: CauseImage})
	if CauseOf(nil) != "" {
		t.Error("no error has a cause")
	}
	if CauseOf(wrapped) != CauseImage || CauseOf(under) != CauseEngine {
		t.Error(CauseOf(wrapped), CauseOf(under))
	}
}

func TestIDsSortByTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		form := regexp.MustCompile(`^[0-7][0-9A-HJKMNP-TV-Z]{25}$`)
		var ids []string
		for range 1000 {
			id := newID()
			if !form.MatchString(id) || strings.Trim(id, idChars) != "" {
				t.Fatalf("%q is no ULID", id)
			}
			ids = append(ids, id)
			time.Sleep(time.Millisecond)
		}
		if !slices.IsSorted(ids) {
			t.Error("they do not sort by time")
		}
		same := map[string]bool{}
		for range 1000 {
			same[newID()[10:]] = true
		}
		if len(same) != 1000 {
			t.Error("they repeat")
		}
	})
}

// 2000-01-01T00:00:00Z is 946684800000 ms, which the ULID's first ten digits
// spell; the bubble's clock starts there.
func TestIDHoldsTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ms int64
		for _, digit := range newID()[:10] {
			ms = ms<<5 | int64(strings.IndexRune(crockford, digit))
		}
		if ms != time.Now().UnixMilli() {
			t.Errorf("%d, want %d", ms, time.Now().UnixMilli())
		}
	})
}

// stillRunning is a process that does not end.
type stillRunning struct{ Running }

func (stillRunning) Exited() <-chan struct{} { return nil }
