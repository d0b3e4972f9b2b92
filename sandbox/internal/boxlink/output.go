package boxlink

import (
	"context"
	"io"
	"sync"
	"time"

	"belljar/internal/boxinit/wire"
)

// output is what a process writes, on its way to who reads it.
type output struct {
	writers [2]io.Writer
	ended   chan struct{} // closed when all is written that ever will be
	rested  chan struct{} // closed when all is written that was in the streams at the process's end

	mu       sync.Mutex
	finished [2]bool // the streams that came to their end
	released bool    // nothing more is expected
	resting  sync.Once
}

func (o *output) init(s Start) {
	o.writers = [2]io.Writer{s.Stdout, s.Stderr}
	o.ended, o.rested = make(chan struct{}), make(chan struct{})
	o.finished[1] = s.TTY != nil
}

// finish is called once all is written.
func (o *output) finish() {
	o.rest()
	close(o.ended)
}

func (o *output) rest() { o.resting.Do(func() { close(o.rested) }) }

// complete reports whether both streams came to their end.
func (o *output) complete() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.finished[0] && o.finished[1]
}

// settled reports whether nothing more is expected.
func (o *output) settled() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.released || o.finished[0] && o.finished[1]
}

// number is a stream's, -1 for what is none.
func number(kind wire.Kind) int {
	switch kind {
	case wire.Stdout:
		return 0
	case wire.Stderr:
		return 1
	}
	return -1
}

// queue is output that comes in frames. What is allowed to be on its way is bounded, so a slow
// writer holds up its own process only.
type queue struct {
	*output
	news    chan struct{} // one is waiting when something changed
	chunks  []chunk       // not written yet
	unspent [2]int        // what the process may still send
	marked  bool          // the process ended
}

// chunk is a piece of a stream. Of the kind Rested it marks where the process ended.
type chunk struct {
	kind   wire.Kind
	text   []byte
	charge int // for the frames that it came in
}

func newQueue(o *output) *queue {
	return &queue{output: o, news: make(chan struct{}, 1), unspent: [2]int{wire.Window, wire.Window}}
}

func (q *queue) tell() {
	select {
	case q.news <- struct{}{}:
	default:
	}
}

// take takes data, unless there may be none.
func (q *queue) take(kind wire.Kind, text []byte) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.released {
		return true
	}
	i := number(kind)
	charge := wire.Charge(len(text))
	if q.finished[i] || charge > q.unspent[i] {
		return false
	}
	q.unspent[i] -= charge
	if last := len(q.chunks) - 1; last >= 0 && q.chunks[last].kind == kind && len(q.chunks[last].text)+len(text) <= wire.MaxFrame {
		q.chunks[last].text = append(q.chunks[last].text, text...)
		q.chunks[last].charge += charge
	} else {
		q.chunks = append(q.chunks, chunk{kind, append([]byte(nil), text...), charge})
	}
	q.tell()
	return true
}

// takeRest takes the news that all is sent which the process itself wrote.
func (q *queue) takeRest() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.marked {
		return false
	}
	q.marked = true
	q.chunks = append(q.chunks, chunk{kind: wire.Rested})
	q.tell()
	return true
}

// takeEnd takes the end of a stream.
func (q *queue) takeEnd(kind wire.Kind) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := number(kind)
	if i < 0 || q.finished[i] {
		return i >= 0 && q.released
	}
	q.finished[i] = true
	q.tell()
	return true
}

// release drops what will come.
func (q *queue) release() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.released = true
	q.tell()
}

// run writes everything, until the streams ended, were released, or the link broke.
func (q *queue) run(p *Process) {
	defer q.finish()
	var written [2]int
	for broken := false; ; {
		q.mu.Lock()
		chunks := q.chunks
		q.chunks = nil
		last := broken || q.released || q.finished[0] && q.finished[1]
		q.mu.Unlock()
		for _, c := range chunks {
			i := number(c.kind)
			if i < 0 {
				q.rest()
				continue
			}
			q.writers[i].Write(c.text)
			if written[i] += c.charge; written[i] >= wire.Window/4 {
				q.allow(p, c.kind, written[i])
				written[i] = 0
			}
		}
		if last {
			return
		}
		select {
		case <-q.news:
		case <-p.link.done:
			broken = true
		}
	}
}

// allow lets the process send more, once the link's pace does: one that has ended, or that is not heard any more, has little left.
func (q *queue) allow(p *Process, kind wire.Kind, n int) {
	q.mu.Lock()
	few := q.released || q.marked
	q.mu.Unlock()
	if pace := p.link.pace; pace != nil && !few {
		select {
		case <-time.After(pace.ReserveN(time.Now(), n).Delay()):
		case <-p.link.done:
		}
	}
	q.mu.Lock()
	q.unspent[number(kind)] += n
	q.mu.Unlock()
	p.link.send(context.Background(), wire.Allow, p.id, wire.AppendUint32([]byte{byte(kind)}, uint32(n)))
}
