package executions

import (
	"io"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"belljar/sandbox"
)

const (
	// inMemory is how much memory the last events of a running execution take, for those who
	// follow it closely.
	inMemory = 512 << 10

	// eventWeight and spanWeight are what an event and a part of a screen's line take without
	// their text: a command may write byte after byte.
	eventWeight, spanWeight = 256, 96

	// mergeSize is the most output that one event has where events come faster than they
	// are taken.
	mergeSize = 64 << 10
)

const (
	// manyEvents is how many an execution has before its output waits a moment for more: the
	// journal of a command that writes byte after byte is not to outgrow its output.
	manyEvents = 20_000
	mergeTime  = 20 * time.Millisecond
)

// StallTime is how long a command waits for a follower that holds it and does not read.
// After that the follower is cut off.
const StallTime = 30 * time.Second

// log is the events of a running execution.
type log struct {
	mu      sync.Mutex
	changed chan struct{} // closed and replaced at each change
	file    *os.File      // the journal; nil before it is there
	failed  error         // why
	next    uint64        // the number of the next event
	events  []sandbox.Event
	size    int                     // their weight
	written int64                   // bytes of output in all events so far
	result  *sandbox.Event          // the last event
	holding map[*Follower]time.Time // who holds the command, and when it last took an event
	enough  uint64                  // the command waits until a follower has what is before this event; 0: it does not wait
}

func newLog() *log {
	return &log{next: 1, changed: make(chan struct{}), holding: map[*Follower]time.Time{}}
}

// open gives it its journal.
func (l *log) open(file *os.File) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.file = file
}

func (l *log) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		l.file.Close()
	}
}

// waits notes that the execution waits for an approval: it is known also after a crash.
func (l *log) waits() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil && l.failed == nil {
		_, l.failed = io.WriteString(l.file, waitsLine)
	}
}

// isStored reports whether the journal is whole.
func (l *log) isStored() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file != nil && l.failed == nil
}

// patience is how long output waits for more.
func (l *log) patience() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next < manyEvents {
		return 0
	}
	return mergeTime
}

// add numbers an event, writes it to the journal and passes it on.
func (l *log) add(e sandbox.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.Seq = l.next
	l.next++
	l.write(e)
	l.written += int64(e.Size)
	l.events = append(l.events, e)
	l.size += weight(e)
	for l.size > inMemory && len(l.events) > 1 {
		l.size -= weight(l.events[0])
		l.events = slices.Delete(l.events, 0, 1)
	}
	l.wake()
}

// write adds the event's line to the journal. If that fails, as on a full disk, the
// execution runs on, and only those who follow closely get the events.
func (l *log) write(e sandbox.Event) {
	if l.failed != nil || e.Type == sandbox.EventResult {
		return
	}
	line, err := appendLine(nil, e)
	if err == nil {
		_, err = l.file.Write(line)
	}
	l.failed = err
}

// Written is how many bytes it has written while it runs, 0 afterwards.
func (x *Execution) Written() int64 {
	if x.log == nil {
		return 0
	}
	x.log.mu.Lock()
	defer x.log.mu.Unlock()
	return x.log.written
}

// end adds the result. Nothing follows it. The journal has that of an execution that was
// refused; all others are with their output, so that those who wait need not wait for the journal, too.
func (l *log) end(e sandbox.Event, refused bool) {
	l.addResult(e, refused)
	if !refused {
		runtime.Gosched() // who waited is told first
		l.mu.Lock()
		defer l.mu.Unlock()
		l.finish(nil, nil)
	}
}

func (l *log) addResult(e sandbox.Event, refused bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.Seq = l.next
	l.next++
	if refused {
		l.finish(appendLine(nil, e))
	}
	l.result = &e
	l.events = append(l.events, e)
	l.wake()
}

// finish writes the journal's end, after a last line if there is one. l.mu is held.
func (l *log) finish(line []byte, err error) {
	if l.file == nil || l.failed != nil {
		return
	}
	if err == nil {
		_, err = l.file.Write(append(line, endLine...))
	}
	l.failed = err
}

func (l *log) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// get is the event with that number, if it is in memory. Where it does not exist yet,
// wait is closed once something changed.
func (l *log) get(seq uint64) (e sandbox.Event, found bool, wait <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if seq >= l.next {
		return e, false, l.changed
	}
	if len(l.events) == 0 || seq < l.events[0].Seq {
		return e, false, nil
	}
	return l.events[seq-l.events[0].Seq], true, nil
}

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

// weight is about how many bytes of memory an event takes.
func weight(e sandbox.Event) int {
	size := eventWeight + cap(e.Data)
	if e.Screen != nil {
		size += 2 * len(e.Screen.Text)
		for _, line := range e.Screen.Lines {
			size += len(line) * spanWeight
		}
	}
	return size
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
