package local

import (
	"iter"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/internal/mask"
	"belljar/sandbox/internal/spool"
)

// liveViews shows the end of the output again and again, while the command runs.
type liveViews struct {
	on     bool
	events *eventQueue
	spool  *spool.Spool
	screen *screen
	masks  *mask.Masks
	viewer sandbox.Viewer
	view   sandbox.View

	shown    int64     // bytes of output, at the last view
	binaryAt time.Time // when a view said that it is binary
	withheld bool      // the last view left out the end, which may be the beginning of a secret
	hidden   int       // largest number of secrets in one view
}

// run sends a view whenever there is more output and some time has passed, until
// stop is closed. A slow reader gets fewer views: neither the command nor the views
// wait for it. Output that may be the beginning of a secret comes in a later view.
func (l *liveViews) run(every time.Duration, stop <-chan struct{}) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-stop:
			return
		}
		total := l.spool.Written()
		if total.Bytes == l.shown || len(l.events.out) == cap(l.events.out) {
			continue
		}
		e := l.at(total)
		held := 0
		if !e.Binary {
			held = l.masks.Ending(string(e.Data))
			e.Data = e.Data[:len(e.Data)-held]
		}
		if e.Binary && time.Since(l.binaryAt) < binaryPause {
			continue
		}
		l.binaryAt = time.Now()
		if l.events.offer(e) {
			l.shown, l.withheld = total.Bytes, held > 0
		}
	}
}

// last is a view of the output that no view showed, once the output is complete.
func (l *liveViews) last() (e sandbox.Event, ok bool) {
	total := l.spool.Written()
	if !l.on || total.Bytes == l.shown && !l.withheld {
		return sandbox.Event{}, false
	}
	return l.at(total), true
}

// at is the output's end as it is now: the screen, where there is one. A command with a
// terminal has no secrets: see checkSecrets.
func (l *liveViews) at(total sandbox.Total) sandbox.Event {
	if shot := l.screen.shot(false); shot != nil {
		return sandbox.Event{Type: sandbox.EventScreen, Screen: shot}
	}
	v := l.view
	v.TailOnly, v.Bytes, v.Lines = true, min(v.Bytes, spool.LiveBytes), min(v.Lines, spool.LiveLines)
	text, count := maskedView(l.masks, l.viewer, v, func() iter.Seq[sandbox.Chunk] { return l.spool.Tail(total) }, total)
	l.hidden = max(l.hidden, count)
	if text.Binary {
		return sandbox.Event{Type: sandbox.EventNotice, Binary: true, Data: []byte(text.Text)}
	}
	return sandbox.Event{Type: sandbox.EventView, Data: []byte(text.Text)}
}
