package local

import (
	"context"
	"errors"
	"sync"
	"time"

	"belljar/sandbox/internal/record"
)

// begin starts the script, and records that its processes are belljar's own: no
// command left them. It holds the record meanwhile, as all code that lists processes does.
func (x *filesExec) begin(ctx context.Context) error {
	err := x.change(ctx, func(r *record.Record) error {
		if err := x.start(ctx); err != nil {
			return err
		}
		if r.Container == x.box.Info().ID {
			r.LastUsed, x.idle = time.Now(), r.Idle
			if x.sid != 0 {
				r.Started.AddHelper(x.sid)
			}
		}
		return nil
	})
	if err != nil && x.running != nil {
		x.abort(ctx)
		<-x.streams.ended
		x.leave(ctx)
	}
	return err
}

// keepUsed notes that the session is in use, again and again before its idle time is over, until stop is called.
func (x *filesExec) keepUsed(ctx context.Context) (stop func()) {
	if x.idle == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			select {
			case <-time.After(x.idle / 3):
			case <-ctx.Done():
				return
			}
			x.note(ctx, func(*record.Record) {})
		}
	})
	return func() { cancel(); all.Wait() }
}

// leave records the end.
func (x *filesExec) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), listTimeout)
	defer cancel()
	x.note(ctx, func(r *record.Record) { r.Started.RemoveHelper(x.sid) })
}

// note records that the session was used now, and what more says, unless it has another container.
func (x *filesExec) note(ctx context.Context, more func(r *record.Record)) {
	err := x.change(ctx, func(r *record.Record) error {
		if r.Container == x.box.Info().ID {
			r.LastUsed = time.Now()
			more(r)
		}
		return nil
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		x.local.upkeep.log.Warn("writing a session's record failed", "session", x.kept.Session, "error", err)
	}
}
