package gate

import (
	"context"

	"belljar/sandbox"
)

// Exit is how a process ended, or why that is unknown.
type Exit struct {
	Status int
	Err    error
	Cut    string // see Running.Cut
}

// Wait waits for a process's exit.
func Wait(ctx context.Context, r sandbox.Running) Exit {
	status, err := r.Wait(ctx)
	return Exit{status, err, r.Cut()}
}
