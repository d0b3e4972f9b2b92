package local

import (
	"belljar/sandbox"
	"belljar/sandbox/internal/gate"
)

// IsWaiting reports whether the process, judging by its arguments, is a shell that
// waits for a command.
func IsWaiting(p sandbox.Process) bool { return gate.IsWaiting(p) }
