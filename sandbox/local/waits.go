package local

import (
	"belljar/sandbox"
	"belljar/sandbox/internal/gate"
)

// Waits tells whether the process, by what it says of itself, is a shell that
// waits for a command.
func Waits(p sandbox.Process) bool { return gate.Waits(p) }
