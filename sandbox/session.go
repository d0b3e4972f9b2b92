package sandbox

import (
	"context"
	"time"
)

// SessionInfo is the current state of a session.
type SessionInfo struct {
	Name      string    `json:"name"`
	Container string    `json:"container"` // "" if it is lost
	Image     string    `json:"image"`
	User      string    `json:"user,omitempty"`      // UID:GID of its first command, who owns /work
	UserName  string    `json:"user_name,omitempty"` // as requested, if by name
	Created   time.Time `json:"created"`
	LastUsed  time.Time `json:"last_used"`
	IdleEnd   time.Time `json:"idle_end"`       // when it ends without a command
	Deadline  time.Time `json:"deadline"`       // when it ends in any case
	Lost      string    `json:"lost,omitempty"` // why its container is gone
	Runs      []Process `json:"runs"`           // nil if unknown
}

// Sessions are the sessions of a Runner.
type Sessions interface {
	// Sessions lists them and what runs in them, by name.
	Sessions(ctx context.Context) ([]SessionInfo, error)
	// RemoveSession ends one, with everything that runs in it. If there is no such session,
	// the error is a *Error of CauseInvalid.
	RemoveSession(ctx context.Context, name string) error
}
