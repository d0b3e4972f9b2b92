// Package record stores the state of sessions between commands and processes, and
// which command started the processes in them.
package record

import (
	"fmt"
	"time"
)

// Record is the stored state of a session between commands and
// processes: one file each. It outlives the container, to report its loss.
type Record struct {
	Session   string        `json:"session"`
	Container string        `json:"container"` // "" before the first command
	Image     string        `json:"image"`
	Workdir   string        `json:"workdir,omitempty"` // of its first command's profile
	Created   time.Time     `json:"created"`
	LastUsed  time.Time     `json:"last_used"` // the start or end of a command
	Deadline  time.Time     `json:"deadline"`  // of its container
	Idle      time.Duration `json:"idle"`
	Lost      string        `json:"lost,omitempty"` // why the container is gone
	Started   Attribution   `json:"started"`
	Approved  []Approved    `json:"approved,omitempty"` // as long as the container lives
	Found     bool          `json:"found,omitempty"`    // of another process, which has not said what it started
}

// LostReason says why the container no longer exists.
func (r *Record) LostReason(now time.Time) string {
	switch {
	case r.Lost != "":
		return r.Lost
	case r.IsExpired(now):
		return fmt.Sprintf("session.max ended it at %s", r.Deadline.Format(time.RFC3339))
	}
	return "its container was removed by something other than belljar, the engine stopped, or it is on another engine"
}

// IsExpired reports whether its container has ended by itself. The engine counts in whole
// seconds, and so may be early.
func (r *Record) IsExpired(now time.Time) bool { return now.After(r.Deadline.Add(-time.Second)) }

// IsIdle reports whether its idle time is over.
func (r *Record) IsIdle(now time.Time) bool { return now.Sub(r.LastUsed) >= r.Idle }
