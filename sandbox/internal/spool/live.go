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

	// LiveBytes bounds a live view: it comes again and again, and is read at once.
	LiveBytes = 4 << 10

	// LiveLines does, too.
	LiveLines = 40
)

// TailNow are the chunks of the output's end, as far as they are there. It may
// be called while the command writes.
func (s *Spool) TailNow(total sandbox.Total) iter.Seq[sandbox.Chunk] {
	return func(yield func(sandbox.Chunk) bool) {
		r, err := NewReader(s.Live(), sandbox.Merged, max(0, total.Bytes-liveWindow))
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

// Written is how much was written so far.
func (s *Spool) Written() sandbox.Total {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Merged()
}

// Merged is what was written to both streams.
func (s *Spool) Merged() sandbox.Total {
	return sandbox.Total{Bytes: s.Total, Lines: s.Streams[Stdout].Lines + s.Streams[Stderr].Lines}
}
