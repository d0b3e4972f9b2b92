package sandbox

import (
	"iter"
	"time"
)

const (
	// liveWindow is how much of the output's end a live view is made from.
	liveWindow = 64 << 10

	// liveEvery is the pause between two where the profile says none.
	liveEvery = time.Second

	// Live views are short: they come again and again, and are read at once.
	liveBytes = 4 << 10
	liveLines = 40
)

// liveViews tells of the output's end whenever there is more and some time has
// passed, until stop is closed. Who does not read one in time gets a later one:
// neither the command nor these wait. What may become a secret is left to a later
// one, too.
func (o *output) liveViews(viewer Viewer, v View, every time.Duration, stop <-chan struct{}) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-stop:
			return
		}
		total := o.spool.written()
		if total.Bytes == o.viewed || len(o.events) == cap(o.events) {
			continue
		}
		e := o.liveView(viewer, v, total)
		held := 0
		if !e.Binary {
			held = o.masks.ending(string(e.Data))
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
func (x *execution) lastView() (e Event, ok bool) {
	o := x.output
	total := o.spool.written()
	if o.live != LiveView || total.Bytes == o.viewed && !o.withheld {
		return Event{}, false
	}
	return o.liveView(x.local.Viewer, x.command.View, total), true
}

// liveView is the output's end as it is now: the screen, where there is one.
func (o *output) liveView(viewer Viewer, v View, total Total) Event {
	if shot := o.shot(); shot != nil {
		return Event{Type: EventView, Data: []byte(shot.Text)}
	}
	v.TailOnly, v.Bytes, v.Lines = true, min(v.Bytes, liveBytes), min(v.Lines, liveLines)
	text, count := maskedView(o.masks, viewer, v, func() iter.Seq[Chunk] { return o.spool.tailNow(total) }, total)
	o.hidden = max(o.hidden, count)
	if text.Binary {
		return Event{Type: EventNotice, Binary: true, Data: []byte(text.Text)}
	}
	return Event{Type: EventView, Data: []byte(text.Text)}
}

// tailNow are the chunks of the output's end, as far as they are there. It may
// be called while the command writes.
func (s *spool) tailNow(total Total) iter.Seq[Chunk] {
	return func(yield func(Chunk) bool) {
		r, err := newOutputReader(s.live(), Merged, max(0, total.Bytes-liveWindow))
		if err != nil {
			return
		}
		defer r.Close()
		for first := true; r.next < total.Bytes; first = false {
			c, err := r.now()
			if err != nil {
				return // it is not there yet, or gone
			}
			if first {
				c.Missed = c.Offset
			}
			if !yield(c) {
				return
			}
		}
	}
}

// written is how much was written so far.
func (s *spool) written() Total {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.merged()
}

// merged is what was written to both streams.
func (s *spool) merged() Total {
	return Total{Bytes: s.total, Lines: s.streams[stdout].Lines + s.streams[stderr].Lines}
}
