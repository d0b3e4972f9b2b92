package executions

import (
	"errors"
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

// log is the events of a running execution.
type log struct {
	mu      sync.Mutex
	changed chan struct{} // closed and replaced at each change
	file    *os.File      // the journal; nil before it is there
	record  int64         // how many bytes of it are the record
	failed  error         // why nothing more is written to it
	begun   bool          // the journal says so
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

// open gives it its journal, which has the record.
func (l *log) open(file *os.File) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.file = file
	l.record, l.failed = file.Seek(0, io.SeekCurrent)
}

func (l *log) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		l.file.Close()
	}
}

// waits notes that callers know of the execution before it begins: it is known also after a crash, as one that has begun is.
func (l *log) waits() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next == 1 && !l.begun {
		l.append([]byte(waitsLine), nil)
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

// begins notes that a runner took the command: its log is kept from then on, if it can be.
func (l *log) begins() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begun = true
	l.append([]byte(beginsLine), nil)
}

// add numbers an event, writes it to the journal and passes it on.
func (l *log) add(e sandbox.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.Seq = l.next
	l.append(appendLine(nil, e))
	l.next++
	l.written += int64(e.Size)
	l.events = append(l.events, e)
	l.size += weight(e)
	for l.size > inMemory && len(l.events) > 1 {
		l.size -= weight(l.events[0])
		l.events = slices.Delete(l.events, 0, 1)
	}
	l.wake()
}

// append adds lines to the journal. If that fails, as on a full disk, the execution runs on, and
// only those who follow closely get the events. The record says so, in bytes that are on the disk
// already: what these events were no later server can tell, so it must give the output no other numbers.
// l.mu is held.
func (l *log) append(lines []byte, err error) {
	if l.file == nil || l.failed != nil {
		return
	}
	if err == nil {
		_, err = l.file.Write(lines)
	}
	if err != nil {
		_, marked := l.file.WriteAt([]byte(cutMark), l.record-int64(len("false"+lineEnd)))
		l.failed = errors.Join(err, marked)
	}
}

// failure is why the journal is not whole.
func (l *log) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
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
func (l *log) finish(line []byte, err error) { l.append(append(line, endLine...), err) }

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

// last is the number of the last event, and whether it is the result's.
func (l *log) last() (seq uint64, ended bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next - 1, l.result != nil
}

// untilResult is closed at the next change, and nil where the result is there.
func (l *log) untilResult() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.result != nil {
		return nil
	}
	return l.changed
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
