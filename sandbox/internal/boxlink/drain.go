package boxlink

import (
	"context"
	"time"
)

// drainTimeout is how long streams are still read once all is read that a process wrote itself:
// what holds them open since its end is something that it started.
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
	select {
	case <-p.Ended():
		if !p.Complete() && !ending() {
			p.markCut("the connection to the container broke")
		}
	case <-ctx.Done():
	case <-time.After(drainTimeout):
		p.markCut("the stream stayed open after the command ended")
	}
}

func (p *Process) markCut(why string) { p.cut.Store(&why) }

// Cut is why output may be missing, or "".
func (p *Process) Cut() string {
	if why := p.cut.Load(); why != nil {
		return *why
	}
	return ""
}
