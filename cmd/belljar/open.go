package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"runtime/debug"

	"belljar"
	accounts "belljar/internal/names"
	"belljar/sandbox"
)

// opened is the Runner that a command runs on.
type opened struct {
	runner
	isHere func(image string) bool // nil where that is not known
	close  func()
}

// open opens the Runner, and does what depends on its settings.
func (f *runFlags) open(ctx context.Context, g *globals, command *sandbox.Command, show *printer) (*opened, error) {
	if g.sidecar() != "" {
		return f.openSidecar(g, command, show)
	}
	keys, err := f.takeUser(command)
	if err != nil {
		return nil, err
	}
	c, err := g.loadConfig(keys)
	if err != nil {
		return nil, err
	}
	if isReport(f.format) {
		show.report.prepare(command, c, f.profile)
	}
	if p, ok := c.Profiles[f.profile]; ok && f.format == "text" && (!show.terminal || f.template != "") && !f.detach {
		p.Summarize = sandbox.Summarize{} // no one would see the summary
		c.Profiles[f.profile] = p
	}
	if f.detach {
		if err := keepsResults(c); err != nil {
			return nil, err
		}
	}
	limits := c.Profiles[f.profile].Limits
	boundMemory(min(limits.Output, limits.Result))
	if err := f.useProfile(command, c.Profiles[f.profile]); err != nil {
		return nil, err
	}
	host, err := connect(ctx, c)
	if err != nil {
		return nil, err
	}
	runner := belljar.New(host, c)
	runner.Approver, runner.Control = f.approver(show), true
	swept := sweep(ctx, host.Engine, runner, show)
	return &opened{
		runner: runner,
		isHere: func(image string) bool {
			_, err := host.Images.Resolve(ctx, image, sandbox.PullNever)
			return err == nil
		},
		close: func() {
			swept()
			runner.Close()
			host.Close()
		},
	}, nil
}

// takeUser makes the flag's user the command's own, and returns the other keys: who may be root, and so who may use a
// session of root, is up to the profile as its file has it.
func (f *runFlags) takeUser(command *sandbox.Command) (keys map[string]string, err error) {
	user, given := f.keys["user"]
	if !given {
		return f.keys, nil
	}
	if command.User, err = accounts.ParseUser(user); err != nil {
		return nil, usageError{err}
	}
	keys = maps.Clone(f.keys)
	delete(keys, "user")
	return keys, nil
}

// sweep removes what crashes left, while the command runs; the function it returns
// ends it.
func sweep(ctx context.Context, engine belljar.Engine, runner runner, show *printer) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan int, 1)
	go func() {
		removed, _ := engine.Sweep(ctx) // doctor reports failures
		runner.Expire(ctx)
		done <- removed
	}()
	return func() {
		cancel()
		if removed := <-done; removed > 0 && show.terminal {
			show.say(fmt.Sprintf("removed containers that an earlier belljar left behind: %d", removed))
		}
	}
}

// boundMemory limits our memory to about the output that a result holds, and
// saves garbage collection below that: a flood of output makes garbage as fast as
// it comes. GOMEMLIMIT has priority.
func boundMemory(output int64) {
	const rest = 16 << 20 // for events, and everything else
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(rest + output + output/4)
		debug.SetGCPercent(400)
	}
}
