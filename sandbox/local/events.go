package local

import (
	"fmt"
	"time"

	"belljar/internal/sniff"
	"belljar/sandbox"
	"belljar/sandbox/internal/spool"
)

// eventBuffer is how many events wait for their reader: 4 MiB of the largest
// chunks. It bridges a reader's pauses; see Execution.Events.
const eventBuffer = 128

// eventQueue numbers events and passes them on. One goroutine at a time uses it.
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

// chunkEvents passes output on as events. Where a stream turns out to be binary
// a notice says so, now and then.
type chunkEvents struct {
	events *eventQueue
	off    bool // live views are shown instead
	binary [2]binaryNotice
}

func newChunkEvents(q *eventQueue, c sandbox.Command) *chunkEvents {
	notice := binaryNotice{sniffer: sniff.Sniffer{Charset: c.View.Charset}}
	return &chunkEvents{events: q, off: c.Live == sandbox.LiveView, binary: [2]binaryNotice{notice, notice}}
}

func (c *chunkEvents) write(s spool.Stream, p []byte) {
	if c.off {
		return
	}
	e := sandbox.Event{Type: sandbox.EventStdout, Data: append([]byte(nil), p...)}
	if s == spool.Stderr {
		e.Type = sandbox.EventStderr
	}
	due := c.binary[s].write(p)
	e.Binary = c.binary[s].is()
	c.events.emit(e)
	if due {
		c.notice(s)
	}
}

func (c *chunkEvents) notice(s spool.Stream) {
	c.events.emit(sandbox.Event{Type: sandbox.EventNotice, Binary: true, Data: c.binary[s].text(s)})
}

// close says how much of binary streams came in all.
func (c *chunkEvents) close() {
	for s := range c.binary {
		if b := &c.binary[s]; b.is() && b.reported < b.total {
			c.notice(spool.Stream(s))
		}
	}
}

// binaryPause is how often a notice says how much of a binary stream came.
const binaryPause = time.Second

// binaryNotice is about a stream that is not text.
type binaryNotice struct {
	sniffer  sniff.Sniffer
	total    int64
	reported int64 // of total, by the last notice
	at       time.Time
}

func (b *binaryNotice) is() bool { return b.sniffer.Binary() }

// write reports whether it is time for a notice.
func (b *binaryNotice) write(p []byte) bool {
	b.sniffer.Write(p)
	b.total += int64(len(p))
	return b.is() && time.Since(b.at) >= binaryPause
}

func (b *binaryNotice) text(s spool.Stream) []byte {
	b.reported, b.at = b.total, time.Now()
	return fmt.Appendf(nil, "%s is binary: %d bytes so far", s.String(), b.total)
}
