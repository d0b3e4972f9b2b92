package local

import (
	"belljar/sandbox"
	"belljar/sandbox/internal/gate"
)

// IsWaiting tells whether the process, by what it says of itself, is a shell that
// waits for a command.
func IsWaiting(p sandbox.Process) bool { return gate.IsWaiting(p) }
