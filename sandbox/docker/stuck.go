package docker

import (
	"fmt"
	"sync"
	"time"

	"belljar/sandbox"
)

// stuckAfter is how long a process may take to start before it is looked at why.
const stuckAfter = time.Second

// A process that another one left running in a session can stop every one of its
// user, as `kill -STOP -1` does, and so also what the runtime starts a command
// with. The engine waits for that for ever, and holds a lock on the container
// meanwhile: nothing can be asked of it, and it cannot be killed.

// unstick kills what starts r where it was stopped, until the function that it
// returns is called.
func (r *running) unstick() (stop func()) {
	var all sync.WaitGroup
	done := make(chan struct{})
	all.Go(func() {
		for {
			select {
			case <-time.After(stuckAfter):
				if r.box.inspector.killStopped() {
					r.stuck.Store(true)
				}
			case <-done:
				return
			}
		}
	})
	return func() {
		close(done)
		all.Wait()
	}
}

func stuckError(spec sandbox.Spec) error {
	return engineError(nil, "the command could not start: a process that runs in the container stops each one that starts, as kill -STOP -1 does").
		hint(fmt.Sprintf("end it with its session: belljar session rm %s", spec.Session))
}
