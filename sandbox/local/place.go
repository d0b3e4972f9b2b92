package local

import (
	"context"
	"fmt"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/internal/gate"
)

// place is where one command runs, and what becomes of it afterwards.
type place struct {
	box    sandbox.Container
	gate   *gate.Gate // that waits for the command; nil: it is started by an exec
	told   string     // what the gate is told
	warm   bool
	reused bool
	keeps  bool             // what the command leaves running stays, with the container
	ended  bool             // end was called
	failed error            // why the command did not run, or its end is unknown
	before sandbox.Counters // what was counted before the command

	// list is what runs, with the commands that started it.
	list func(ctx context.Context) ([]sandbox.Process, error)
	// end ends the command, so that its exit becomes ready. The result says why.
	end func(ctx context.Context)
	// leave is the last: the command ended.
	leave func(ctx context.Context)
}

func (p *place) info() sandbox.ContainerInfo {
	info := p.box.Info()
	info.Warm, info.Reused = p.warm, p.reused
	return info
}

// counters are the command's own.
func (p *place) counters(ctx context.Context) (sandbox.Counters, error) {
	c, err := p.box.Counters(ctx)
	c.OOMKills = max(0, c.OOMKills-p.before.OOMKills)
	c.PidsLimitHits = max(0, c.PidsLimitHits-p.before.PidsLimitHits)
	c.CPUSeconds = max(0, c.CPUSeconds-p.before.CPUSeconds)
	if c.OOMKills > 0 && !c.Stopped {
		c.KilledBy = "" // the container's own process was the kernel's choice
	}
	return c, err
}

// place is the session's container, a warm one, or one that is made now.
func (x *execution) place(ctx context.Context, image sandbox.Image, session *sessionTurn) (*place, error) {
	if session != nil {
		return session.place(ctx, image)
	}
	spec := specOf(x.command, image)
	if p := x.warm(ctx, spec); p != nil {
		return p, nil
	}
	x.local.house.cold.Add(1)
	defer x.local.house.cold.Add(-1)
	ctx, cancel := context.WithTimeout(ctx, createTimeout)
	defer cancel()
	box, err := x.local.Engine.Create(ctx, spec)
	if err != nil {
		return nil, late(ctx, err, "making the container")
	}
	p := x.alone(box)
	if gate.OnlyByGate(x.command, x.secrets) {
		if err := x.openGate(ctx, p); err != nil {
			p.end(ctx)
			return nil, late(ctx, err, "opening the container")
		}
	}
	return p, nil
}

// openGate opens one for a command that no exec may start.
func (x *execution) openGate(ctx context.Context, p *place) (err error) {
	if p.gate, err = gate.Open(ctx, p.box, x.command.User); err != nil {
		return err
	}
	p.told, _ = x.delivery() // as Prepare saw to
	leave := p.leave
	p.leave = func(ctx context.Context) {
		leave(ctx)
		p.gate.Join()
	}
	return nil
}

// alone is a container for this command only.
func (x *execution) alone(box sandbox.Container) *place {
	p := &place{box: box}
	p.list = func(ctx context.Context) ([]sandbox.Process, error) {
		list, err := box.Processes(ctx)
		for i := range list {
			list[i].CommandID = x.command.ID
		}
		return list, err
	}
	p.end = func(ctx context.Context) {
		if !p.ended {
			p.ended = true
			x.remove(ctx, box)
		}
	}
	p.leave = func(ctx context.Context) {
		p.end(ctx)
		x.recount(ctx, p)
	}
	return p
}

// warm is a place in a container of the profile's pool, nil where none fits or
// answers.
func (x *execution) warm(ctx context.Context, spec sandbox.Spec) *place {
	pool := x.local.pool(x.command.Profile)
	if x.command.TTY != nil || pool == nil || !pool.fits(x.command, spec) {
		return nil
	}
	told, ok := x.delivery()
	if !ok {
		return nil
	}
	for range gate.GateTries {
		m := pool.take(spec.Image)
		if m == nil {
			return nil
		}
		if m.gate.Answers(ctx) {
			pool.proved()
			return x.pooled(pool, m, told)
		}
		if ctx.Err() != nil {
			pool.discard(m.box, m.gate)
			return nil
		}
		pool.lose(m, "it did not answer")
	}
	return nil
}

// pooled is alone, but its container was there before, and goes when nobody
// waits for that any more.
func (x *execution) pooled(pool *pool, m *member, told string) *place {
	p := x.alone(m.box)
	p.gate, p.told, p.warm = m.gate, told, true
	list := p.list
	p.list = func(ctx context.Context) ([]sandbox.Process, error) {
		all, err := list(ctx)
		// The command's first process began as its gate.
		ran := int64(time.Since(x.output.started).Seconds())
		for i := range all {
			all[i].ElapsedSeconds = min(all[i].ElapsedSeconds, ran)
		}
		return all, err
	}
	p.leave = func(ctx context.Context) {
		if p.ended {
			x.recount(ctx, p)
			return
		}
		pool.discard(m.box, m.gate)
	}
	return p
}

// remove ends everything in the container. No cancellation stops it: that is
// when it is needed most.
func (x *execution) remove(ctx context.Context, box sandbox.Container) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	if err := box.Remove(ctx); err != nil {
		x.result.Evidence.RemoveError = fmt.Sprintf("container %s may still be there: %v", box.Info().ID, err)
	}
}
