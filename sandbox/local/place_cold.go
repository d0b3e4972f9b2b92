package local

import (
	"context"

	"belljar/sandbox"
	"belljar/sandbox/internal/gate"
)

// coldPlace is a container that was made for this command, and goes with it.
type coldPlace struct {
	base
	roomAgain func() // called once the container is gone
	removed   bool
}

// cold makes a container. If that fails with a gate open but no place yet, the container
// is removed.
func (x *execution) cold(ctx context.Context, spec sandbox.Spec) (place, error) {
	x.local.upkeep.cold.Add(1)
	defer x.local.upkeep.cold.Add(-1)
	ctx, cancel := context.WithTimeout(ctx, x.local.upkeep.create)
	defer cancel()
	box, err := x.local.Engine.Create(ctx, spec)
	if err != nil {
		return nil, timeoutError(ctx, err, "creating the container", x.local.upkeep.create)
	}
	p := &coldPlace{base: base{command: x.command, secrets: x.secrets, box: box}, roomAgain: x.local.upkeep.hungry.roomAgain}
	if byInit(box) || !gate.Required(x.command, x.secrets) {
		return p, nil
	}
	p.line, _ = x.line() // Prepare checked it
	if p.gate, err = gate.Open(ctx, box, x.command.User); err != nil {
		x.apply(p.End(ctx, ""))
		return nil, timeoutError(ctx, err, "opening the container", x.local.upkeep.create)
	}
	return p, nil
}

func (p *coldPlace) Info() sandbox.ContainerInfo { return p.box.Info() }

func (p *coldPlace) Keeps() bool { return false }

func (p *coldPlace) Processes(ctx context.Context) ([]sandbox.Process, error) {
	list, err := p.processes(ctx)
	for i := range list {
		list[i].CommandID = p.command.ID
	}
	return list, err
}

// Own implements place: all are.
func (p *coldPlace) Own(list []sandbox.Process) ([]sandbox.Process, error) { return list, nil }

func (p *coldPlace) Counters(ctx context.Context) (sandbox.Counters, error) {
	c, err := p.counters(ctx)
	return ownCounters(c, sandbox.Counters{}), err
}

// ownCounters are the command's share of a container's counters, which were before earlier.
func ownCounters(c, before sandbox.Counters) sandbox.Counters {
	c.OOMKills = max(0, c.OOMKills-before.OOMKills)
	c.PidsLimitHits = max(0, c.PidsLimitHits-before.PidsLimitHits)
	c.CPUSeconds = max(0, c.CPUSeconds-before.CPUSeconds)
	if c.OOMKills > 0 && !c.Stopped {
		c.KilledBy = "" // the kernel killed one process of the container, not the container
	}
	return c
}

func (p *coldPlace) End(ctx context.Context, _ string) (c cleanup) {
	if p.removed {
		return c
	}
	p.removed = true
	if c.removeError = remove(ctx, p.box); c.removeError == "" {
		p.roomAgain()
	}
	return c
}

func (p *coldPlace) Leave(ctx context.Context, _ sandbox.Result, _ error) cleanup {
	c := p.End(ctx, "")
	c.counters = finalCounters(ctx, p)
	if p.gate != nil {
		p.gate.Join()
	}
	return c
}
