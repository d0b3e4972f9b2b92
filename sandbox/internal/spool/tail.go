package spool

import (
	"iter"
	"time"

	"belljar/sandbox"
)

const (
	// liveWindow is how much of the output's end a live view is made from.
	liveWindow = 64 << 10

	// LiveEvery is the pause between two where the profile says none.
	LiveEvery = time.Second

	// LiveBytes bounds a live view: they come again and again, and are read at
	// once.
	LiveBytes = 4 << 10
	// LiveLines bounds a live view.
	LiveLines = 40
)

// Tail are the chunks of the output's end, as far as they are there. It may
// be called while the command writes.
func (s *Spool) Tail(total sandbox.Total) iter.Seq[sandbox.Chunk] {
	return func(yield func(sandbox.Chunk) bool) {
		r, err := NewReader(s.LiveSource(), sandbox.Merged, max(0, total.Bytes-liveWindow))
		if err != nil {
			return
		}
		defer r.Close()
		for first := true; r.next < total.Bytes; first = false {
			c, err := r.available()
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

// Written is how much was written so far.
func (s *Spool) Written() sandbox.Total {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Merged()
}

// StreamTotal is what was written to one. It is for a spool that ended.
func (s *Spool) StreamTotal(stream Stream) sandbox.Total { return s.streams[stream].Total }

// Merged is what was written to both streams.
func (s *Spool) Merged() sandbox.Total {
	return sandbox.Total{Bytes: s.Total, Lines: s.streams[Stdout].Lines + s.streams[Stderr].Lines}
}
