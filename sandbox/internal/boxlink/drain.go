package boxlink

import (
	"context"
	"sync"
	"time"
)

// drainTimeout is how long streams are still read once all is read that a process wrote itself:
// what holds them open since its end is something that it started, which may write without end.
const drainTimeout = 250 * time.Millisecond

// Drain waits until all that the process wrote is passed on, and then for the streams' end or a
// while. A connection that breaks may cost output, unless ending says that the container is
// being removed.
func (p *Process) Drain(ctx context.Context, ending func() bool) {
	select {
	case <-p.Rested():
	case <-p.Ended():
	case <-ctx.Done():
		return
	}
	for {
		select {
		case <-p.Ended():
			if !p.Complete() && !ending() {
				p.markCut("the connection to the container broke")
			}
			return
		case <-ctx.Done():
		case <-time.After(drainTimeout):
			if kept := p.kept.Swap(nil); kept != nil {
				select {
				case <-*kept:
				case <-p.Ended():
				case <-ctx.Done():
				}
				continue
			}
		}
		p.markCut("the stream stayed open after the command ended")
		return
	}
}

// KeepReading has Drain wait for the streams' end until done is called, and then for the usual while: what
// holds them open is being ended, and may write until then.
func (p *Process) KeepReading() (done func()) {
	kept := make(chan struct{})
	p.kept.Store(&kept)
	return sync.OnceFunc(func() { close(kept) })
}

func (p *Process) markCut(why string) { p.cut.Store(&why) }

// Cut is why output may be missing, or "".
func (p *Process) Cut() string {
	if why := p.cut.Load(); why != nil {
		return *why
	}
	return ""
}
