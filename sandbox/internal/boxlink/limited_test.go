package boxlink

import (
	"strings"
	"syscall"
	"testing"

	"belljar/sandbox"
)

// A limit is blamed only where it is in force, and the kernel counted that it was reached: a user's own limits, and the
// host's, have the same errors.
func TestLimitErrorBlamesWhatKeptItFromStarting(t *testing.T) {
	limits := sandbox.Limits{Pids: 128, Memory: 1 << 20, Files: 64}
	yes, no := func() bool { return true }, func() bool { return false }
	for name, c := range map[string]struct {
		refused StartError
		bounds  Bounds
		cause   sandbox.Cause
		want    string
	}{
		"the container's processes":        {StartError{Reason: NoProcess, Errno: syscall.EAGAIN}, Bounds{Limits: limits, Refused: yes}, sandbox.CausePidsLimit, "limits.pids, 128, allows"},
		"processes that no one counts":     {StartError{Reason: NoProcess, Errno: syscall.EAGAIN}, Bounds{Limits: limits}, sandbox.CausePidsLimit, "limits.pids, 128, allows"},
		"a user's processes":               {StartError{Reason: NoProcess, Errno: syscall.EAGAIN}, Bounds{Limits: limits, Refused: no}, sandbox.CauseEngine, "this host, or a user of it, has as many processes as it may"},
		"processes without limits":         {StartError{Reason: NoProcess, Errno: syscall.EAGAIN}, Bounds{Limits: limits, None: true, Refused: yes}, sandbox.CauseEngine, "this host, or a user of it, has as many processes as it may"},
		"the container's memory":           {StartError{Reason: NoMemory, Errno: syscall.ENOMEM}, Bounds{Limits: limits}, sandbox.CauseEngine, "limits.memory"},
		"memory without limits":            {StartError{Reason: NoMemory, Errno: syscall.ENOMEM}, Bounds{Limits: limits, None: true}, sandbox.CauseEngine, "this host has no memory left"},
		"memory for files, without limits": {StartError{Reason: Failed, Errno: syscall.ENOMEM}, Bounds{Limits: limits, None: true}, sandbox.CauseEngine, "this host has no memory left"},
		"files":                            {StartError{Reason: Failed, Errno: syscall.EMFILE}, Bounds{Limits: limits, None: true}, sandbox.CauseEngine, "limits.files, 64, allows"},
		"terminals":                        {StartError{Reason: Failed, Errno: syscall.ENOSPC}, Bounds{Limits: limits}, sandbox.CauseEngine, "as many terminals as there may be"},
	} {
		err := LimitError(&c.refused, c.bounds)
		if err == nil || sandbox.CauseOf(err) != c.cause || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v of %q", name, err, sandbox.CauseOf(err))
		}
	}
}
