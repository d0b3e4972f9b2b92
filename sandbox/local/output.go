package local

import (
	"time"

	"belljar/sandbox"
	"belljar/sandbox/internal/mask"
	"belljar/sandbox/internal/spool"
)

// output is the path of a command's output: it is masked, kept in a spool, drawn on
// the screen, and passed on as events. One reader of the engine's stream writes to it.
type output struct {
	activity *activity
	masks    *mask.Masks // nil: nothing is masked
	masker   masker
	recorder recorder
	screen   screen
	events   *eventQueue
	chunks   *chunkEvents
	views    liveViews
}

func newOutput(r request, onError sandbox.SpoolAction, viewer sandbox.Viewer) *output {
	c := r.command
	o := &output{activity: newActivity(), recorder: newRecorder(c, onError)}
	if len(r.secrets) > 0 {
		o.masks = mask.New(r.values())
		o.masker = newMasker(o.masks)
	}
	if c.TTY != nil && viewer != nil {
		o.screen.grid = viewer.NewScreen(c.View, *c.TTY)
	}
	o.events = newEventQueue(o.activity)
	o.chunks = newChunkEvents(o.events, c)
	o.views = liveViews{events: o.events, spool: o.recorder.spool, screen: &o.screen, masks: o.masks, viewer: viewer, view: c.View, on: c.Live == sandbox.LiveView}
	return o
}

// begin starts the clocks, and lets output in. From then on events are the output's alone.
func (o *output) begin(idle time.Duration, start *sandbox.Start, notices ...string) {
	o.activity.begin(idle)
	o.events.emit(sandbox.Event{Type: sandbox.EventStart, Start: start})
	for _, text := range notices {
		o.events.notice("%s", text)
	}
	close(o.activity.begun)
}

// write takes the command's output. Output that is held back for a while restarts the
// idle timer now.
func (o *output) write(s spool.Stream, p []byte) {
	o.activity.heard()
	o.pass(s, o.masker.feed(s, p))
}

// flush passes on what was held back, once the output is complete.
func (o *output) flush() {
	for _, s := range []spool.Stream{spool.Stdout, spool.Stderr} {
		o.pass(s, o.masker.flush(s))
	}
	o.chunks.flush()
	o.activity.idle.pause()
}

func (o *output) pass(s spool.Stream, p []byte) {
	if len(p) == 0 {
		return
	}
	o.recorder.write(s, p)
	o.screen.write(p)
	o.chunks.write(s, p)
}

// streamWriter is an output's stdout or stderr.
type streamWriter struct {
	output *output
	stream spool.Stream
}

func (w streamWriter) Write(p []byte) (int, error) {
	<-w.output.activity.begun
	if len(p) > 0 {
		w.output.write(w.stream, p)
	}
	return len(p), nil
}

// masker takes secrets out of both streams.
type masker [2]*mask.Stream // nil: nothing is masked

func newMasker(m *mask.Masks) masker { return masker{mask.NewStream(m), mask.NewStream(m)} }

func (m masker) feed(s spool.Stream, p []byte) []byte {
	if m[s] == nil {
		return p
	}
	return m[s].Feed(p)
}

func (m masker) flush(s spool.Stream) []byte {
	if m[s] == nil {
		return nil
	}
	return m[s].Flush()
}

// count is the number of secrets found.
func (m masker) count() (n int) {
	for _, stream := range m {
		if stream != nil {
			n += stream.Count
		}
	}
	return n
}

// recorder keeps output in a spool, and signals when that must end the command.
type recorder struct {
	spool   *spool.Spool
	onError sandbox.SpoolAction // where that fails
	onLimit sandbox.OutputAction
	full    chan struct{} // closed when the limit is passed and ends the command
	failed  chan struct{} // closed when output can no longer be kept, if that ends the command
}

func newRecorder(c sandbox.Command, onError sandbox.SpoolAction) recorder {
	return recorder{
		spool: spool.New(c.Limits.Output, c.OnOutputLimit), onError: onError, onLimit: c.OnOutputLimit,
		full: make(chan struct{}), failed: make(chan struct{}),
	}
}

func (r *recorder) write(s spool.Stream, p []byte) {
	before := r.spool.Total // which only we change
	if r.spool.Write(s, p) != nil && r.onError == sandbox.SpoolEnd {
		close(r.failed)
	}
	if r.onLimit == sandbox.OutputEnd && before <= r.spool.Limit && r.spool.Total > r.spool.Limit {
		close(r.full)
	}
}
