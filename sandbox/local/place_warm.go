package local

import (
	"context"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/internal/gate"
)

// warmPlace is a container of a pool. It existed before its command, and is
// removed in the background.
type warmPlace struct {
	coldPlace
	pool *pool
}

// warm returns a place in a container of the profile's pool, nil where none fits or
// answers. It waits a while for one that is being made.
func (x *execution) warm(ctx context.Context, spec sandbox.Spec) place {
	pool := x.local.pool(x.command.Profile)
	if pool == nil || !pool.fits(x.command, spec) {
		return nil
	}
	line, ok := "", true
	if !pool.byInit.Load() {
		line, ok = x.line()
	}
	if !ok || line != "" && x.command.TTY != nil {
		return nil
	}
	waiting, cancel := context.WithTimeout(ctx, makingWait)
	defer cancel()
	for range gate.MaxTries {
		m := pool.get(waiting, spec.Image)
		if m == nil {
			return nil
		}
		suits := m.gate == nil || line != ""
		if suits && (m.answered() || m.answers(ctx)) {
			pool.recordSuccess(m)
			return &warmPlace{coldPlace{
				base:      base{command: x.command, secrets: x.secrets, box: m.box, gate: m.gate, line: line},
				roomAgain: pool.hungry.roomAgain,
			}, pool}
		}
		if !suits || ctx.Err() != nil {
			pool.discard(m.box, m.gate)
			return nil
		}
		pool.replace(m, noAnswer)
	}
	return nil
}

func (p *warmPlace) Info() sandbox.ContainerInfo {
	info := p.box.Info()
	info.Warm = true
	return info
}

// Processes lists them as if the command's first process, which began as its
// gate, had begun with the command.
func (p *warmPlace) Processes(ctx context.Context) ([]sandbox.Process, error) {
	list, err := p.coldPlace.Processes(ctx)
	if p.gate == nil {
		return list, err
	}
	ran := int64(time.Since(p.started).Seconds())
	for i := range list {
		list[i].ElapsedSeconds = min(list[i].ElapsedSeconds, ran)
	}
	return list, err
}

func (p *warmPlace) Leave(ctx context.Context, _ sandbox.Result, _ error) cleanup {
	if p.removed {
		return cleanup{counters: finalCounters(ctx, p)}
	}
	p.pool.discard(p.box, p.gate)
	return cleanup{}
}
