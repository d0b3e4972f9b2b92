package local

import (
	"cmp"
	"context"
	"sync"

	"belljar/sandbox"
	"belljar/sandbox/internal/spool"
)

// startBackground starts what runs next to the command; the returned function ends
// it.
func (x *execution) startBackground(place place, running sandbox.Running) (end func()) {
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	stop := ctx.Done()
	if x.command.Live == sandbox.LiveView {
		all.Go(func() {
			x.output.views.run(cmp.Or(x.profile.LiveEvery, spool.LiveEvery), stop)
		})
	}
	if x.command.TTY != nil && x.command.Resize != nil {
		all.Go(func() { x.resize(running, stop) })
	}
	if i := x.command.Idle; (i.CPU || i.IO) && x.command.IdleTimeout != sandbox.NoIdleTimeout {
		all.Go(func() { x.watchWork(ctx, place) })
	}
	return func() {
		cancel()
		all.Wait()
	}
}

// resize gives the command's terminal its new sizes.
func (x *execution) resize(running sandbox.Running, stop <-chan struct{}) {
	for {
		select {
		case size, more := <-x.command.Resize:
			if !more {
				return
			}
			x.output.screen.resize(size.Bounded())
			ctx, cancel := context.WithTimeout(context.Background(), listTimeout)
			err := running.Resize(ctx, size.Bounded())
			cancel()
			if err != nil {
				x.local.upkeep.log.Warn("resizing a terminal failed", "command", x.command.ID, "error", err)
			}
		case <-stop:
			return
		}
	}
}
