package proc

import (
	"sync"
	"time"

	"belljar/sandbox/internal/cgroup"
)

// outlived tells a first process that was killed because memory ran out from one that somebody killed: the kernel's
// count says how many processes were, and not which. So it counts those that the first one is known to
// have outlived.
type outlived struct {
	events  *cgroup.OOMEvents // nil where they cannot be watched
	kills   int               // that it outlived
	heard   int               // signals for these
	judging sync.Once
	ended   bool // for that
}

const (
	// outliveTime is how long a kill may take to be counted once the kernel has said that memory runs out, also on a
	// busy host.
	outliveTime = time.Second
	// outlivePause is between two looks, at first.
	outlivePause    = 2 * time.Millisecond
	maxOutlivePause = 8 * time.Millisecond

	// goneWait is how long the kernel may take to tell the end of a group whose directory is gone.
	goneWait = 500 * time.Millisecond
)

// Watch counts how often memory runs out, until stop is called. Where that kills the first process, too, its group
// goes at once, and what was counted with it.
func (c *Counter) Watch() (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kills, _ = c.Group.OOMKills()
	events, err := c.Group.OOMEvents()
	if err != nil {
		return func() {} // what is counted at the end is the rest
	}
	c.events = events
	var all sync.WaitGroup
	all.Go(func() {
		for events.Wait() == nil {
			c.Count()
			c.outlive(events)
		}
	})
	return func() {
		events.Stop()
		all.Wait()
		events.Close()
	}
}

// outlive looks whether the first process runs after a kill that was counted: it was another's.
func (c *Counter) outlive(events *cgroup.OOMEvents) {
	end := time.Now().Add(outliveTime)
	for pause := outlivePause; time.Now().Before(end); pause = min(2*pause, maxOutlivePause) {
		heard := events.Signals()
		kills, known := c.Group.OOMKills()
		c.mu.Lock()
		c.last.OOMKills = max(kills, c.last.OOMKills) // of any process: the count may be gone a moment later
		c.mu.Unlock()
		time.Sleep(pause) // a kill is counted just before it is sent
		if !known || !c.firstLives() {
			return
		}
		c.mu.Lock()
		more := kills > c.kills
		if more {
			c.kills, c.heard = kills, heard
		}
		c.mu.Unlock()
		if more {
			return
		}
	}
}

func (c *Counter) firstLives() bool {
	stat, err := ReadStat(c.First)
	if err != nil || !stat.Runs() || stat.Exiting() {
		return false
	}
	status, err := ReadStatus(c.First)
	return err == nil && !status.Killed
}

// EndedByMemory reports whether the first process, which has ended, was killed because memory ran out. That is
// counted, then, also where the kernel's count went before it was read.
func (c *Counter) EndedByMemory() bool {
	c.judging.Do(func() {
		now, known := c.Group.OOMKills()
		c.mu.Lock()
		last, before := max(now, c.last.OOMKills), c.kills
		c.mu.Unlock()
		killed, told := false, false
		if last > before || !known {
			killed, told = c.logged(known)
		}
		switch {
		case told:
			c.ended = killed
		case last > before:
			c.ended = true
		case !known:
			c.ended = c.signaled()
		}
		if !c.ended {
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if kills := max(last, before+1); kills > c.last.OOMKills {
			c.last.OOMKills, c.peak = kills, 0 // the group may have gone before it was read
		}
	})
	return c.ended
}

// logged reports whether the kernel's log says that it killed the first process because memory ran out, once no one is left
// who may still write that.
func (c *Counter) logged(hasGroup bool) (killed, told bool) {
	c.mu.Lock()
	events := c.events
	c.mu.Unlock()
	if events == nil {
		return false, false
	}
	for end := time.Now().Add(goneWait); hasGroup; time.Sleep(outlivePause) { // all others end with the first
		left, err := c.Group.Processes()
		if err != nil || len(left) == 0 {
			break
		}
		if time.Now().After(end) {
			return false, false
		}
	}
	return events.Killed(c.First)
}

// signaled reports whether the kernel said that memory runs out after what the first process outlived. The group is gone,
// and its end is a signal, too.
func (c *Counter) signaled() bool {
	c.mu.Lock()
	events, heard := c.events, c.heard
	c.mu.Unlock()
	if events == nil {
		return false
	}
	for end := time.Now().Add(goneWait); ; time.Sleep(outlivePause) {
		switch n := events.Signals() - heard; {
		case n > 1:
			return true
		case n == 0, time.Now().After(end): // memory runs out before the end, which is told
			return false
		}
	}
}
