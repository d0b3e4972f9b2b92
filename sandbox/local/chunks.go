package local

import (
	"bytes"
	"fmt"
	"sync"
	"time"

	"belljar/internal/sniff"
	"belljar/sandbox"
	"belljar/sandbox/internal/spool"
)

// holdTime is how long the beginning of a character waits for its rest.
const holdTime = 50 * time.Millisecond

// chunkEvents passes output on as events. If a stream is binary, a notice says so, now
// and then.
//
// A character that is split between two chunks is in one event: its first bytes, three at
// most, wait for the next chunk. After holdTime, or when the stream ends, they are sent as
// they are. If invalid bytes are replaced, they wait until it is known what they are:
// U+FFFD cannot be taken back, and no reader can use a part of a character.
type chunkEvents struct {
	events  *eventQueue
	off     bool // live views are shown instead
	replace bool
	binary  [2]binaryNotice

	mu     sync.Mutex // of all below, and of events
	held   [2]heldBytes
	timers sync.WaitGroup // of held bytes
}

// heldBytes is the beginning of a character.
type heldBytes struct {
	bytes []byte
	timer *time.Timer // releases it; nil where nothing does
}

func newChunkEvents(q *eventQueue, c sandbox.Command) *chunkEvents {
	notice := binaryNotice{sniffer: sniff.Sniffer{Charset: c.View.Charset}}
	return &chunkEvents{
		events: q, off: c.Live == sandbox.LiveView, replace: c.Encoding == sandbox.EncodingReplace,
		binary: [2]binaryNotice{notice, notice},
	}
}

// write takes a chunk.
func (c *chunkEvents) write(s spool.Stream, p []byte) {
	if c.off {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p = append(c.take(s), p...)
	n := len(spool.WholeRunes(p))
	c.emit(s, p[:n:n])
	if n < len(p) {
		c.hold(s, bytes.Clone(p[n:]))
	}
}

// hold keeps the beginning of a character.
func (c *chunkEvents) hold(s spool.Stream, p []byte) {
	c.held[s].bytes = p
	if c.replace {
		return
	}
	c.timers.Add(1)
	var timer *time.Timer
	timer = time.AfterFunc(holdTime, func() {
		defer c.timers.Done()
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.held[s].timer == timer { // else its rest came just now
			c.emit(s, c.held[s].bytes)
			c.held[s] = heldBytes{}
		}
	})
	c.held[s].timer = timer
}

// take is what is held, which is not held any more.
func (c *chunkEvents) take(s spool.Stream) []byte {
	h := c.held[s]
	if h.timer != nil && h.timer.Stop() {
		c.timers.Done()
	}
	c.held[s] = heldBytes{}
	return h.bytes
}

// flush passes on what is held, once nothing more comes, and ends what goes on.
func (c *chunkEvents) flush() {
	c.mu.Lock()
	for s := range c.held {
		c.emit(spool.Stream(s), c.take(spool.Stream(s)))
	}
	c.mu.Unlock()
	c.timers.Wait()
}

// emit passes on bytes that no one changes.
func (c *chunkEvents) emit(s spool.Stream, p []byte) {
	if len(p) == 0 {
		return
	}
	e := sandbox.Event{Type: sandbox.EventStdout, Data: p, Size: len(p)}
	if s == spool.Stderr {
		e.Type = sandbox.EventStderr
	}
	due := c.binary[s].write(p)
	e.Binary = c.binary[s].is()
	if c.replace {
		if e.Data, e.Encoding = sniff.Replace(p); e.Binary {
			e.Encoding = max(e.Encoding, sniff.UTF8Plain)
		}
	}
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
