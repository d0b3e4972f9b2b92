package local

import (
	"fmt"
	"time"

	"belljar/sandbox"
)

// eventBuffer is how many events wait for their reader: 4 MiB of the largest
// chunks. It bridges a reader's pauses; see Execution.Events.
const eventBuffer = 128

// eventQueue numbers events and passes them on. One goroutine at a time uses it; while
// the command runs, chunkEvents enforces that with its mutex.
type eventQueue struct {
	out      chan sandbox.Event
	seq      uint64
	activity *activity

	ending  chan struct{} // closed when we end the command: output no longer waits for the reader
	ended   bool          // nothing waits for the command any more: events wait for the reader
	dropped int64         // bytes that were not read while we ended the command
	noticed []string      // so far, for those who come later
}

func newEventQueue(a *activity) *eventQueue {
	return &eventQueue{out: make(chan sandbox.Event, eventBuffer), activity: a, ending: make(chan struct{})}
}

// emit passes an event on. A full queue makes the command wait, but never its
// end: an engine whose stream is not read cannot kill (moby#41827).
func (q *eventQueue) emit(e sandbox.Event) {
	if q.offer(e) {
		return
	}
	ending := q.ending
	if q.ended {
		ending = nil
	}
	e.Seq, e.Time = q.seq+1, time.Now()
	q.activity.idle.pause()
	select {
	case q.out <- e:
		q.seq++
	case <-ending:
		q.dropped += int64(len(e.Data))
	}
	q.activity.idle.restart()
}

// offer passes an event on if there is room.
func (q *eventQueue) offer(e sandbox.Event) bool {
	e.Seq, e.Time = q.seq+1, time.Now()
	select {
	case q.out <- e:
		q.seq++
		return true
	default:
		return false
	}
}

func (q *eventQueue) notice(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	q.noticed = append(q.noticed, text)
	q.emit(sandbox.Event{Type: sandbox.EventNotice, Data: []byte(text)})
}

// close sends the last events.
func (q *eventQueue) close(notices []string, r *sandbox.Result) {
	if q.dropped > 0 {
		q.notice("%d bytes of output were not shown: no one read them while the command was being killed", q.dropped)
	}
	for _, text := range notices {
		q.notice("%s", text)
	}
	q.emit(sandbox.Event{Type: sandbox.EventResult, Result: r})
	close(q.out)
}
