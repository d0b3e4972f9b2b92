package boxlink

import (
	"errors"
	"fmt"
	"syscall"

	"belljar/sandbox"
	"belljar/sandbox/internal/failure"
)

// Bounds are a container's limits.
type Bounds struct {
	sandbox.Limits                    // one that is 0 is not known
	None           bool               // but for Files, they are not in force
	Refused        func() (pids bool) // whether the kernel just counted a process that Pids kept from starting; nil: that is not counted
}

// spares reports whether it was not Pids that kept a process from starting.
func (b Bounds) spares() bool { return b.None || b.Refused != nil && !b.Refused() }

// LimitError says which limit kept a process from starting, and nil if none did.
func LimitError(err error, limits Bounds) error {
	refused, inside := errors.AsType[*StartError](err)
	if !inside {
		if errors.Is(err, syscall.EMFILE) {
			return failure.New(err, "the command could not start, or was killed at once: this belljar has as many files open as it may").Hint("raise its limit of open files: ulimit -n")
		}
		return nil
	}
	could := func(format string, args ...any) *failure.Builder {
		return failure.New(refused, "the command could not start: "+format, args...)
	}
	const orEnd = ", or end what runs in the session"
	switch errno := refused.Errno; {
	case refused.Reason == NoProcess && limits.spares():
		return could("this host, or a user of it, has as many processes as it may").Hint("end some, or raise the limit (ulimit -u, sysctl kernel.threads-max)")
	case limits.None && (refused.Reason == NoMemory || errno == syscall.ENOMEM):
		return could("this host has no memory left").Hint("end what uses it")
	case refused.Reason == NoProcess:
		return could("as many processes run as %s allows", limit("limits.pids", limits.Pids, fmt.Sprint(limits.Pids))).As(sandbox.CausePidsLimit).Hint("raise limits.pids" + orEnd)
	case refused.Reason == NoMemory:
		return could("the container's memory is full, which %s bounds", limit("limits.memory", limits.Memory, sandbox.FormatSize(limits.Memory))).Hint("raise limits.memory" + orEnd)
	case refused.Reason == TooLong:
		return could("its script and variables are longer than the kernel takes").As(sandbox.CauseInvalid).Hint("put what is long into a file")
	case errno == syscall.EMFILE: // the limit is the init's, too, which holds each command's files while it starts
		return could("the container's init has as many files open as %s allows", limit("limits.files", limits.Files, fmt.Sprint(limits.Files))).Hint("raise limits.files" + orEnd)
	case errno == syscall.ENFILE:
		return could("this host has as many files open as it may").Hint("raise sysctl fs.file-max, or end what has them open")
	case errno == syscall.ENOSPC: // of all that it makes, only a terminal is counted
		return could("there are as many terminals as there may be").Hint("end what has some in the session; or, if other containers have them, raise sysctl kernel.pty.max")
	case errno == syscall.ENOMEM:
		return could("memory ran out, of the container or of its host").Hint("raise limits.memory" + orEnd)
	}
	return nil
}

// limit names a limit, with its value if that is known.
func limit(name string, n int64, value string) string {
	if n == 0 {
		return name
	}
	return name + ", " + value + ","
}
