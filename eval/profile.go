package eval

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"belljar/eval/suite"
	"belljar/sandbox"
)

// rootDisk is how much the containers of a task with a writable root may write there, if it does
// not say so.
const rootDisk = 1 << 30

// publicNetwork is the engine's network that a task with a public one has.
const publicNetwork = "bridge"

// Profile is a profile for untrusted solutions of tasks: without mounts, secrets, network
// and pool, and with enough time.
func Profile(p sandbox.Profile, tasks []suite.Task) sandbox.Profile {
	p.Mounts, p.Secrets, p.Summarize, p.View, p.Network = nil, nil, sandbox.Summarize{}, sandbox.View{Mode: sandbox.ViewNone}, "none"
	p.Tmpfs, p.Pool, p.StopGrace = nil, sandbox.PoolSize{Max: sandbox.NoPool}, sandbox.NoStopGrace
	p.MaxTimeout = max(p.MaxTimeout, stepTimeout)
	for _, t := range each(tasks) {
		p.MaxTimeout = max(p.MaxTimeout, t.Agent.Timeout, t.Grader.Timeout)
		for _, h := range t.Collect {
			p.MaxTimeout = max(p.MaxTimeout, h.Timeout)
		}
	}
	p.Session.Idle, p.Session.Max = max(p.Session.Idle, 2*p.MaxTimeout), max(p.Session.Max, 3*p.MaxTimeout)
	return p
}

// Rooted is a Profile for the tasks that need a root user and a writable root.
func Rooted(p sandbox.Profile, tasks []suite.Task) sandbox.Profile {
	p.User, p.Limits.Disk = sandbox.User{Name: sandbox.RootUser}, rootDisk
	for _, t := range each(tasks) {
		p.Limits.Disk = max(p.Limits.Disk, t.Agent.Disk, t.Grader.Disk)
	}
	return p
}

// each are tasks, and their steps.
func each(tasks []suite.Task) (all []suite.Task) {
	for _, t := range tasks {
		all = append(all, t)
		for _, s := range t.Steps.List {
			all = append(all, s.Task)
		}
	}
	return all
}

func (h *Harness) profile(t *suite.Task) string {
	if t.Root {
		return h.Rooted
	}
	return h.Profile
}

// boundsOf are the limits of a container of the task.
func boundsOf(t *suite.Task, b suite.Bounds) sandbox.Limits {
	limits := b.Limits()
	limits.Result = keptOutput
	if t.Root {
		limits.Disk = cmp.Or(b.Disk, rootDisk)
	}
	return limits
}

func network(b suite.Bounds) string {
	if b.Network {
		return publicNetwork
	}
	return "none"
}

// Refuse refuses tasks that need what the engine cannot do: a command in the image of the first that needs
// it tries that out.
func (h *Harness) Refuse(ctx context.Context) error {
	tasks := each(h.Tasks)
	needs := []struct {
		what string
		in   func(t suite.Task) bool
	}{
		{"a root user and a writable root", func(t suite.Task) bool { return t.Root }},
		{"a network", func(t suite.Task) bool { return t.Agent.Network || t.Grader.Network }},
	}
	for _, need := range needs {
		i := slices.IndexFunc(tasks, need.in)
		if i < 0 {
			continue
		}
		t := tasks[i]
		limits := boundsOf(&t, t.Agent)
		c := sandbox.Command{Script: "true", Profile: h.profile(&t), Image: t.Image, Network: network(suite.Bounds{Network: t.Agent.Network || t.Grader.Network}), Limits: limits, Timeout: stepTimeout}
		x, err := h.Runner.Start(ctx, c)
		var r sandbox.Result
		if err == nil {
			r, _ = x.Wait()
		} else {
			r = sandbox.Refused(c, err)
		}
		if r.Cause != sandbox.CauseInvalid && r.Cause != sandbox.CauseDenied && r.Cause != sandbox.CauseEngine {
			continue // what else is wrong, its trials say
		}
		return sandbox.Invalid("use an engine that has it, or leave such tasks out with --filter", "task %q needs %s, which the engine does not give it: %s", t.ID, need.what, fmt.Sprint(r.Message))
	}
	return nil
}
