package local

import (
	"iter"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/internal/spool"
)

// liveViews tells of the output's end whenever there is more and some time has
// passed, until stop is closed. Who does not read one in time gets a later one:
// neither the command nor these wait. What may become a secret is left to a later
// one, too.
func (o *output) liveViews(viewer sandbox.Viewer, v sandbox.View, every time.Duration, stop <-chan struct{}) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-stop:
			return
		}
		total := o.spool.Written()
		if total.Bytes == o.viewed || len(o.events) == cap(o.events) {
			continue
		}
		e := o.liveView(viewer, v, total)
		held := 0
		if !e.Binary {
			held = o.masks.Ending(string(e.Data))
			e.Data = e.Data[:len(e.Data)-held]
		}
		if e.Binary && time.Since(o.binaryAt) < binaryPause {
			continue
		}
		o.binaryAt = time.Now()
		e.Seq, e.Time = o.seq+1, time.Now()
		select {
		case o.events <- e:
			o.viewed, o.withheld = total.Bytes, held > 0
			o.seq++
		default:
		}
	}
}

// lastView is of what no live view showed, once nothing more comes.
func (x *execution) lastView() (e sandbox.Event, ok bool) {
	o := x.output
	total := o.spool.Written()
	if o.live != sandbox.LiveView || total.Bytes == o.viewed && !o.withheld {
		return sandbox.Event{}, false
	}
	return o.liveView(x.local.Viewer, x.command.View, total), true
}

// liveView is the output's end as it is now: the screen, where there is one.
func (o *output) liveView(viewer sandbox.Viewer, v sandbox.View, total sandbox.Total) sandbox.Event {
	if shot := o.shot(); shot != nil {
		return sandbox.Event{Type: sandbox.EventView, Data: []byte(shot.Text)}
	}
	v.TailOnly, v.Bytes, v.Lines = true, min(v.Bytes, spool.LiveBytes), min(v.Lines, spool.LiveLines)
	text, count := maskedView(o.masks, viewer, v, func() iter.Seq[sandbox.Chunk] { return o.spool.TailNow(total) }, total)
	o.hidden = max(o.hidden, count)
	if text.Binary {
		return sandbox.Event{Type: sandbox.EventNotice, Binary: true, Data: []byte(text.Text)}
	}
	return sandbox.Event{Type: sandbox.EventView, Data: []byte(text.Text)}
}
