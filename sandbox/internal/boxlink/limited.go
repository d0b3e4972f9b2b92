package boxlink

import (
	"errors"
	"fmt"
	"syscall"

	"belljar/sandbox"
	"belljar/sandbox/internal/failure"
)

// LimitError says which limit kept a process from starting, and nil if none did. A limit that is 0 is not known.
func LimitError(err error, limits sandbox.Limits) error {
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
