package local

import (
	"context"
	"fmt"
	"slices"
	"time"

	"belljar/sandbox"
)

// killTimeout is how long a command's processes may take to end, with
// EndCommand; ending the container always works.
const killTimeout = 5 * time.Second

// kill kills the command's processes until two complete lists in a row show
// none.
func (p *sessionPlace) kill(ctx context.Context, c *cleanup) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTimeout)
	defer cancel()
	for quiet := 0; quiet < 2; {
		list, err := p.Processes(ctx)
		if err != nil && isClosed(p.box.Lost()) {
			return err
		}
		own, unknown := p.Own(list)
		if unknown != nil {
			return unknown
		}
		if len(own) > 0 {
			if err := p.box.Signal(ctx, own, "SIGKILL"); err != nil && ctx.Err() == nil {
				return err
			}
			c.killed = addKilled(c.killed, own)
		}
		if quiet++; err != nil || len(own) > 0 {
			quiet = 0
		}
		if ctx.Err() != nil {
			return fmt.Errorf("some were still running after %s", sandbox.FormatDuration(killTimeout))
		}
		if err == nil {
			c.listed, c.processes = true, list
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
		}
	}
	return nil
}

// Own implements place. Its error names no process: it is recorded, and their arguments
// may hold secrets.
func (p *sessionPlace) Own(list []sandbox.Process) (own []sandbox.Process, err error) {
	for _, process := range list {
		switch process.CommandID {
		case p.command.ID:
			own = append(own, process)
		case "":
			return nil, fmt.Errorf("it is unknown which command started process %d", process.PID)
		}
	}
	return own, nil
}

// maxKilled bounds the killed processes in a result.
const maxKilled = 256

// addKilled adds processes that were killed, each once.
func addKilled(killed, list []sandbox.Process) []sandbox.Process {
	for _, p := range list {
		same := func(k sandbox.Process) bool {
			return k.PID == p.PID && k.HostPID == p.HostPID && k.StartTicks == p.StartTicks
		}
		if len(killed) < maxKilled && !slices.ContainsFunc(killed, same) {
			killed = append(killed, p)
		}
	}
	return killed
}
