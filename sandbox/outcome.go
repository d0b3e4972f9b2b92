package sandbox

import (
	"fmt"
	"strings"
	"time"
)

// ending is why we ended a command, or that it ended of itself.
type ending struct {
	cause   Cause // "" where the command ended of itself
	message string
	due     time.Time // when its time was up
	itself  bool      // it had ended of itself by then, too late
}

func idleEnding(limit time.Duration) ending {
	return ending{cause: CauseIdleTimeout, message: fmt.Sprintf("no output for %v (idle timeout); partial output kept", limit)}
}

func wallEnding(limit time.Duration) ending {
	return ending{cause: CauseWallTimeout, message: fmt.Sprintf("still running after %v (timeout); partial output kept", limit)}
}

func outputEnding(limit int64) ending {
	return ending{cause: CauseOutputLimit, message: fmt.Sprintf("more than %d bytes of output (limits.output); the first %d kept", limit, limit)}
}

func unkeptEnding(err error) ending {
	return ending{cause: CauseOutputLimit, message: fmt.Sprintf("its output can no longer be kept (spool.on_error: end): %v; what was kept before is there", err)}
}

var cancelEnding = ending{cause: CauseCanceled, message: "canceled by the caller; partial output kept"}

// ended fills r for a command that we ended.
func (r *Result) ended(e ending) {
	r.Cause, r.Message, r.ExitCode = e.cause, e.message, ExitEnded
	if !e.itself {
		r.Evidence.KilledBy = "belljar"
	}
	switch e.cause {
	case CauseIdleTimeout, CauseWallTimeout:
		r.Status = StatusTimeout
	case CauseCanceled:
		r.Status = StatusCanceled
	default:
		r.Status = StatusError
	}
}

// fail fills r for a command that could not run, or whose end is unknown.
func (r *Result) fail(err error) {
	r.Cause, r.Message, r.ExitCode = CauseOf(err), err.Error(), ExitNeverRan
	switch r.Cause {
	case CauseDenied:
		r.Status = StatusDenied
	case CauseCanceled:
		r.Status = StatusCanceled
	case CausePidsLimit: // it ran, and was ended by that
		r.Status, r.ExitCode = StatusError, ExitEnded
	default:
		r.Status = StatusFatal
	}
}

// exited fills r for a command that ended of itself, as the engine tells it.
// What the counters say decides only where it explains the status: a killed
// child that the shell survived is evidence, not the command's fate.
func (r *Result) exited(status int, limits Limits) {
	r.ExitCode, r.Cause, r.Status = status, CauseExited, StatusError
	if status == 0 {
		r.Status = StatusSuccess
		return
	}
	r.Signal = signalName(status - 128)
	if r.Signal != "" {
		r.Cause = CauseSignaled
		r.Message = "ended with " + r.Signal
	}
	switch e := r.Evidence; {
	case r.Signal == "SIGKILL" && e.KilledBy == "outside":
		r.Message = "killed with its container, from outside"
	case r.Signal == "SIGKILL" && e.OOMKills > 0:
		r.Cause = CauseOOMKilled
		r.Evidence.KilledBy = "oom"
		r.Message = fmt.Sprintf("killed for want of memory: limits.memory is %d bytes", limits.Memory)
	case r.Signal != "":
	case e.PidsLimitHits > 0:
		r.Cause = CausePidsLimit
		r.Message = fmt.Sprintf("exit status %d, and %d forks were refused: limits.pids is %d", status, e.PidsLimitHits, limits.Pids)
	case len(e.DiskFull) > 0:
		r.Cause = CauseDiskFull
		r.Message = fmt.Sprintf("exit status %d, and %s is full: limits.tmp is %d bytes", status, strings.Join(e.DiskFull, ", "), limits.Tmp)
	}
}

// statusKilled is the exit status of a process that SIGKILL ended.
const statusKilled = 128 + 9

// signals are Linux's on amd64 and arm64, by number from 1.
var signals = [...]string{"", "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM", "TERM",
	"STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS"}

// signalName is "" for a number that is no signal's. The names are the
// container's, so the host's package syscall does not know them.
func signalName(n int) string {
	if n < 1 || n >= len(signals) {
		return ""
	}
	return "SIG" + signals[n]
}
