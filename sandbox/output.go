package sandbox

import "time"

// output is where a command's streams come in: captured, counted as a sign of
// life, and passed on as events. The engine's one reader writes to it.
type output struct {
	capture *capture
	limit   int64
	action  OutputAction
	idle    *watchdog
	events  chan Event
	seq     uint64

	begun   chan struct{} // closed when the start was told; nothing comes before it
	started time.Time
	first   time.Duration // until the first output; 0 is none yet
	over    chan struct{} // closed when the limit is passed and ends the command
	ending  chan struct{} // closed when we end the command: its output waits for nobody then
	unshown int64         // bytes that found no reader while we ended the command
}

func newOutput(limit int64, action OutputAction) *output {
	return &output{
		capture: newCapture(limit, action), limit: limit, action: action,
		idle:   &watchdog{},
		events: make(chan Event, eventQueue),
		begun:  make(chan struct{}), over: make(chan struct{}), ending: make(chan struct{}),
	}
}

// begin starts the clocks.
func (o *output) begin(idle time.Duration) {
	o.started = time.Now()
	o.idle = newWatchdog(idle)
	o.emit(Event{Type: EventStart})
	close(o.begun)
}

// streamWriter is an output's stdout or stderr.
type streamWriter struct {
	output *output
	stream stream
}

func (w streamWriter) Write(p []byte) (int, error) {
	<-w.output.begun
	if len(p) > 0 {
		w.output.write(w.stream, p)
	}
	return len(p), nil
}

func (o *output) write(s stream, p []byte) {
	if o.capture.total() == 0 {
		o.first = time.Since(o.started)
	}
	o.idle.touch()
	was := o.capture.total()
	o.capture.write(s, p)
	if o.action == OutputEnd && was <= o.limit && o.capture.total() > o.limit {
		close(o.over)
	}
	kind := EventStdout
	if s == stderr {
		kind = EventStderr
	}
	o.emit(Event{Type: kind, Data: append([]byte(nil), p...)})
}

// emit passes an event on. A full queue makes the command wait, but never its
// end: an engine whose stream is not read cannot kill (moby#41827).
func (o *output) emit(e Event) {
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
