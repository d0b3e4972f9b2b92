package executions

import "time"

// StallTime is how long a command waits for a follower that holds it and does not read.
// After that the follower is cut off.
const StallTime = 30 * time.Second

// hold makes the command wait for f; release ends that.
func (l *log) hold(f *Follower) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holding[f] = time.Now()
}

func (l *log) release(f *Follower) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.holding, f)
	l.wake()
}

// moved says that f has all events before next.
func (l *log) moved(f *Follower, next uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, holds := l.holding[f]; holds {
		f.has = next
		l.holding[f] = time.Now()
		if l.enough > 0 && next >= l.enough {
			l.wake()
		}
	}
}

// room waits until there is room for an event of that weight, without those that a follower
// lacks which holds the command. It cuts off those that have not read for StallTime. A
// command that is being ended waits for no one.
func (l *log) room(size int, ending <-chan struct{}) {
	for {
		behind, since, changed := l.slowest(size)
		if behind == nil {
			return
		}
		timer := time.NewTimer(time.Until(since.Add(StallTime)))
		select {
		case <-changed:
		case <-ending:
			timer.Stop()
			return
		case <-timer.C:
			l.cut(behind)
		}
		timer.Stop()
	}
}

// slowest is a follower that holds the command and lacks what has to go for an event of that
// weight.
func (l *log) slowest(size int) (f *Follower, since time.Time, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.enough = 0
	last := l.before(l.size + size - inMemory)
	for h, at := range l.holding {
		if h.has <= last && (f == nil || at.Before(since)) {
			f, since = h, at
		}
	}
	if f != nil {
		l.enough = l.before(l.size+size-inMemory/2) + 1
	}
	return f, since, l.changed
}

// before is the last of the first events that have that weight, 0 if it takes none.
func (l *log) before(size int) (seq uint64) {
	for _, e := range l.events {
		if size <= 0 {
			break
		}
		size -= weight(e)
		seq = e.Seq
	}
	return seq
}

func (l *log) cut(f *Follower) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.holding[f]) >= StallTime {
		delete(l.holding, f)
		close(f.cut)
	}
}
