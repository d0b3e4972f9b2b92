package local

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/internal/failure"
	"belljar/sandbox/internal/gate"
)

// ending is why we ended a command, or that it ended by itself.
type ending struct {
	cause       sandbox.Cause // "" where the command ended by itself
	message     string
	due         time.Time // when its time was up
	exitedFirst bool      // it had ended by itself before that, but after due
	shutdown    bool      // its session stays
}

// partialKept ends the message of a command that we ended.
const partialKept = "; partial output kept"

func wallEnding(limit time.Duration) ending {
	return ending{cause: sandbox.CauseWallTimeout, message: fmt.Sprintf("still running after %s (timeout)%s", sandbox.FormatDuration(limit), partialKept)}
}

func outputEnding(limit int64) ending {
	return ending{cause: sandbox.CauseOutputLimit, message: fmt.Sprintf("more than %s of output (limits.output); the first %[1]s kept", sandbox.FormatSize(limit))}
}

func unkeptEnding(err error) ending {
	return ending{cause: sandbox.CauseOutputLimit, message: fmt.Sprintf("output cannot be stored any more (spool.on_error: end): %v; earlier output kept", err)}
}

// inputEnding is that of a command whose stdin cannot be read to its end.
func inputEnding(err error) ending {
	return ending{cause: sandbox.CauseInvalid, message: "reading the command's stdin: " + failure.OneLine(err.Error()) + partialKept}
}

// cancelEnding is that of a command whose context was canceled. The cause says why, if it
// is not the caller's wish.
func cancelEnding(ctx context.Context) ending {
	why := "canceled by the caller"
	if e, ok := errors.AsType[*sandbox.Error](context.Cause(ctx)); ok {
		why = e.Message
	}
	return ending{cause: sandbox.CauseCanceled, message: why + partialKept, shutdown: errors.Is(context.Cause(ctx), sandbox.ErrShutdown)}
}

// canceledEarly is the same before the command started.
func canceledEarly(ctx context.Context) error {
	why := "canceled before the command started"
	if e, ok := errors.AsType[*sandbox.Error](context.Cause(ctx)); ok {
		why = e.Message + "; the command did not start"
	}
	return &sandbox.Error{Cause: sandbox.CauseCanceled, Message: why}
}

// fail records why the command did not run, or why its end is unknown, if err says so.
func (x *execution) fail(ctx context.Context, err error) {
	r, cause := &x.result, sandbox.CauseOf(err)
	switch began := isClosed(x.output.activity.begun); {
	case err == nil:
	case began && cause == sandbox.CausePidsLimit: // its container's kernel crashed
		r.Status, r.Cause, r.Message, r.ExitCode = sandbox.StatusError, cause, err.Error(), sandbox.ExitEnded
	case ctx.Err() != nil && cause != sandbox.CauseEngineLost:
		err = canceledEarly(ctx)
		r.Fail(err)
	default:
		r.Fail(err)
	}
	if r.Status != sandbox.StatusFatal && r.Status != sandbox.StatusDenied {
		return
	}
	if x.err = err; err == nil {
		x.err = r.Error
	}
}

// endedBy fills r for a command that we ended.
func endedBy(r *sandbox.Result, e ending) {
	r.Cause, r.Message, r.ExitCode = e.cause, e.message, sandbox.ExitEnded
	if !e.exitedFirst {
		r.Evidence.KilledBy = "belljar"
	}
	switch e.cause {
	case sandbox.CauseIdleTimeout, sandbox.CauseWallTimeout:
		r.Status = sandbox.StatusTimeout
	case sandbox.CauseCanceled:
		r.Status = sandbox.StatusCanceled
	case sandbox.CauseInvalid:
		r.Status, r.Error = sandbox.StatusFatal, &sandbox.Error{Cause: e.cause, Message: e.message, Hint: "give it a stdin that can be read to its end"}
		r.Message = r.Error.Error()
	default:
		r.Status = sandbox.StatusError
	}
}

// exitedWith fills r for a command that ended by itself, with the engine's exit status.
// Counters decide only where they explain the status: a killed child process that the
// shell survived is evidence, not the reason for the command's end. For oomPeak see sandbox.Counters.
func exitedWith(r *sandbox.Result, status int, limits sandbox.Limits, oomPeak int64) {
	r.ExitCode, r.Cause, r.Status = status, sandbox.CauseExited, sandbox.StatusError
	if status == 0 {
		r.Status = sandbox.StatusSuccess
		return
	}
	r.Signal = gate.SignalName(status - 128)
	if r.Signal != "" {
		r.Cause = sandbox.CauseSignaled
		r.Message = "ended with " + r.Signal
	}
	switch e := r.Evidence; {
	case r.Signal == "SIGKILL" && e.KilledBy == "outside":
		r.Message = "killed with its container by something other than belljar"
	case r.Signal == "SIGKILL" && e.OOMKills > 0:
		r.Cause = sandbox.CauseOOMKilled
		r.Evidence.KilledBy = "oom"
		r.Message, _ = outOfMemory(*r, limits, oomPeak)
	case r.Signal != "":
	case e.PidsLimitHits > 0:
		r.Cause = sandbox.CausePidsLimit
		limit := fmt.Sprintf("limits.pids is %d", limits.Pids)
		if r.Container.Limits == "no-pids" {
			limit = "podPidsLimit of the node's kubelet"
		}
		r.Message = fmt.Sprintf("exit status %d, %d forks failed (%s)", status, e.PidsLimitHits, limit)
	case len(e.DiskFull) > 0:
		r.Cause = sandbox.CauseDiskFull
		limit, size := "tmp", limits.Tmp
		if slices.Equal(e.DiskFull, []string{"/"}) {
			limit, size = "disk", limits.Disk
		}
		r.Message = fmt.Sprintf("exit status %d, %s is full (limits.%s is %s)", status, strings.Join(e.DiskFull, ", "), limit, sandbox.FormatSize(size))
	}
}

// outOfMemory says whose memory ran out: the kernel counts alike what it kills for the container's limit, and for the memory of
// the host. A container far below its limit did not reach that.
func outOfMemory(r sandbox.Result, limits sandbox.Limits, peak int64) (text string, host bool) {
	limit, machine := sandbox.FormatSize(limits.Memory), "host"
	if r.Container.Engine == "kubernetes" {
		machine = "node"
	}
	switch {
	case peak > 0 && peak < limits.Memory/2:
		return fmt.Sprintf("killed as its %s ran out of memory (it used %s, limits.memory is %s)", machine, sandbox.FormatSize(peak), limit), true
	case peak == 0 && byPod(r): // its status does not tell
		return fmt.Sprintf("out of memory: its own (limits.memory is %s), or its %s's", limit, machine), false
	}
	return fmt.Sprintf("out of memory (limits.memory is %s)", limit), false
}

// byPod reports whether the status of an ended pod is part of the evidence.
func byPod(r sandbox.Result) bool {
	return slices.Contains(strings.Split(r.Evidence.Source, ","), "pod")
}

// statusKilled is the exit status of a process that SIGKILL ended.
const statusKilled = 128 + 9
