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
	Lost      string        `json:"lost,omitempty"` // why the container is gone, or is being ended
	Gone      bool          `json:"gone,omitempty"` // with Lost: it was looked for since, and is not there
	Started   Attribution   `json:"started"`
	Approved  []Approved    `json:"approved,omitempty"` // as long as the container lives
	Found     bool          `json:"found,omitempty"`    // of another process, which has not said what it started
	Before    Former        `json:"before,omitzero"`
}

// Former is a session's container before this one: commands that ran in it may still ask why it ended.
type Former struct {
	Container string `json:"container"`
	Lost      string `json:"lost"`
}

// EndOf is why a container ended that is not this one, "" if that is not recorded: the session was removed.
func (r *Record) EndOf(container string) string {
	if r.Before.Container == container {
		return r.Before.Lost
	}
	return ""
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

// IsOver reports whether its container is to end, or the record: its idle time is over, or it was lost, and who was
// ending the container may have been killed.
func (r *Record) IsOver(now time.Time) bool {
	return r.Session != "" && (r.IsIdle(now) || r.Lost != "" && !r.Gone)
}

// IsIdle reports whether its idle time is over.
func (r *Record) IsIdle(now time.Time) bool { return now.Sub(r.LastUsed) >= r.Idle }
