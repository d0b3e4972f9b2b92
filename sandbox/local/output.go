package local

import (
	"fmt"
	"sync"
	"time"

	"belljar/internal/sniff"
	"belljar/sandbox"
	"belljar/sandbox/internal/mask"
	"belljar/sandbox/internal/spool"
)

// output is where a command's streams come in: kept in its spool, counted as a
// sign of life, and passed on as events. The engine's one reader writes to it.
type output struct {
	spool   *spool.Spool
	onError sandbox.SpoolAction // where that fails
	action  sandbox.OutputAction
	live    sandbox.LiveMode
	idle    *watchdog
	events  chan sandbox.Event
	seq     uint64
	binary  [2]binaryNotice

	viewed   int64     // how much there was at the last live view
	binaryAt time.Time // when that was
	withheld bool      // whether its end was left to the next
	hidden   int       // secrets that a live view had, at most

	begun   chan struct{} // closed when the start was told; nothing comes before it
	started time.Time
	spoke   bool
	first   time.Duration // until the first output
	over    chan struct{} // closed when the limit is passed and ends the command
	unkept  chan struct{} // closed when output can no longer be kept, if that ends the command
	ending  chan struct{} // closed when we end the command: its output waits for nobody then
	unshown int64         // bytes that found no reader while we ended the command

	masks   *mask.Masks     // nil: nothing is masked
	maskers [2]*mask.Stream // nil, too

	mu      sync.Mutex
	screen  sandbox.Screen // nil without a terminal
	drawing time.Duration  // that it took
	undrawn bool           // it took too long, and is gone
}

func newOutput(c sandbox.Command, onError sandbox.SpoolAction) *output {
	notice := binaryNotice{sniffer: sniff.Sniffer{Charset: c.View.Charset}}
	return &output{
		spool: spool.New(c.Limits.Output, c.OnOutputLimit), onError: onError, action: c.OnOutputLimit, live: c.Live,
		idle:   &watchdog{},
		binary: [2]binaryNotice{notice, notice},
		events: make(chan sandbox.Event, eventQueue),
		begun:  make(chan struct{}), over: make(chan struct{}), unkept: make(chan struct{}), ending: make(chan struct{}),
	}
}

// begin starts the clocks.
func (o *output) begin(idle time.Duration) {
	o.started = time.Now()
	o.idle = newWatchdog(idle)
	o.emit(sandbox.Event{Type: sandbox.EventStart})
	close(o.begun)
}

// streamWriter is an output's stdout or stderr.
type streamWriter struct {
	output *output
	stream spool.Stream
}

func (w streamWriter) Write(p []byte) (int, error) {
	<-w.output.begun
	if len(p) > 0 {
		w.output.take(w.stream, p)
	}
	return len(p), nil
}

// take brings in what the command wrote. What is held back for a while counts as
// a sign of life now.
func (o *output) take(s spool.Stream, p []byte) {
	if !o.spoke {
		o.spoke, o.first = true, time.Since(o.started)
	}
	o.idle.touch()
	if m := o.maskers[s]; m != nil {
		p = m.Feed(p)
	}
	o.write(s, p)
}

// flush brings in what was held back, once nothing more comes.
func (o *output) flush() {
	for s, m := range o.maskers {
		if m != nil {
			o.write(spool.Stream(s), m.Flush())
		}
	}
	o.idle.hold()
}

func (o *output) write(s spool.Stream, p []byte) {
	if len(p) == 0 {
		return
	}
	was := o.spool.Total // which only we change
	if o.spool.Write(s, p) != nil && o.onError == sandbox.SpoolEnd {
		close(o.unkept)
	}
	if o.action == sandbox.OutputEnd && was <= o.spool.Limit && o.spool.Total > o.spool.Limit {
		close(o.over)
	}
	o.show(p)
	if o.live != sandbox.LiveView {
		o.tell(s, append([]byte(nil), p...))
	}
}

const (
	// screenTime is how long a command's screen may take to be drawn, in all:
	// some short sequences cost a whole screen.
	screenTime = 5 * time.Second

	// screenPiece is drawn without a look at the clock.
	screenPiece = 512
)

// show draws output on the screen, for as long as that does not take too long:
// the command waits for it.
func (o *output) show(p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.screen != nil && len(p) > 0 {
		n, began := min(len(p), screenPiece), time.Now()
		o.screen.Write(p[:n])
		p = p[n:]
		if o.drawing += time.Since(began); o.drawing > screenTime {
			o.screen, o.undrawn = nil, true
		}
	}
}

// shot is the screen as it is now, nil without one.
func (o *output) shot() *sandbox.Shot {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.screen == nil {
		return nil
	}
	shot := o.screen.Shot()
	return &shot
}

func (o *output) resize(size sandbox.TerminalSize) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.screen != nil {
		o.screen.Resize(size)
	}
}

// tell passes a chunk on. Where a stream turned out to be binary that is told,
// too, now and then.
func (o *output) tell(s spool.Stream, p []byte) {
	e := sandbox.Event{Type: sandbox.EventStdout, Data: p}
	if s == spool.Stderr {
		e.Type = sandbox.EventStderr
	}
	notice := o.binary[s].write(p)
	e.Binary = o.binary[s].is()
	o.emit(e)
	if notice {
		o.emit(sandbox.Event{Type: sandbox.EventNotice, Binary: true, Data: o.binary[s].text(s)})
	}
}

// emit passes an event on. A full queue makes the command wait, but never its
// end: an engine whose stream is not read cannot kill (moby#41827).
func (o *output) emit(e sandbox.Event) {
	o.seq++
	e.Seq, e.Time = o.seq, time.Now()
	select {
	case o.events <- e:
		return
	default:
	}
	o.idle.hold()
	select {
	case o.events <- e:
	case <-o.ending:
		o.seq--
		o.unshown += int64(len(e.Data))
	}
	o.idle.touch()
}

// binaryPause is how often it is told how much of a binary stream came.
const binaryPause = time.Second

// binaryNotice tells of a stream that is no text.
type binaryNotice struct {
	sniffer sniff.Sniffer
	total   int64
	told    int64 // how much, the last time
	at      time.Time
}

func (b *binaryNotice) is() bool { return b.sniffer.Binary() }

// write tells whether it is time for a notice.
func (b *binaryNotice) write(p []byte) bool {
	b.sniffer.Write(p)
	b.total += int64(len(p))
	return b.is() && time.Since(b.at) >= binaryPause
}

func (b *binaryNotice) text(s spool.Stream) []byte {
	b.told, b.at = b.total, time.Now()
	return fmt.Appendf(nil, "%s is binary: %d bytes so far", s.Name(), b.total)
}
