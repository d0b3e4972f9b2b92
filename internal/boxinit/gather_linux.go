package boxinit

import "time"

// gatherTime is how long what is told of a process's start, or of its end, may wait for the rest.
const gatherTime = 3 * time.Millisecond

// gather has what is sent next wait, unless something waits already: of a short process all is then sent at once. It is for clients who
// are far away, as those are who ask what there is at a process's end.
func (c *conn) gather() {
	if len(c.unsent) == 0 {
		c.until = time.Now().Add(gatherTime)
	}
}

// gathered ends that.
func (c *conn) gathered() { c.until = time.Time{} }

func (l *loop) gathered() {
	for _, c := range l.conns {
		c.gathered()
	}
}

func (c *conn) gathers() bool { return time.Now().Before(c.until) && !c.full() }

// soonest calls sooner with how long what is gathered may still wait.
func (l *loop) soonest(sooner func(time.Duration)) {
	for _, c := range l.conns {
		if c.size > 0 && !c.full() && !c.until.IsZero() { // also where its time has come since: else nothing would wake the loop
			sooner(time.Until(c.until))
		}
	}
}

// gatherEnd has what is told of the process's end wait for what its client asks then.
func (p *proc) gatherEnd() {
	if p.later != nil && !p.of.gone() {
		p.of.conn.gather()
	}
}
