package sandbox

import (
	"context"
	"io"
	"io/fs"
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
	// RemoveSession ends one, with all that runs in it. If there is none, it is a *Error of CauseInvalid.
	RemoveSession(ctx context.Context, name string) error
}

// SessionPath is a file or directory of a session's workspace, the workdir of its profile.
type SessionPath struct {
	Session, Path string // Path is relative to the workspace, or absolute below it
	Caller        Caller // for the audit log
	Again         bool   // a list for one who watches: the audit log has the first
}

// Files are those of sessions: regular files and directories. An archive with anything else, such
// as a link, is refused. ReadTar's names begin with the last element of Path; if Path ends with
// "/.", they are relative to it. A Read that blocks is abandoned, unless it has a SetReadDeadline.
type Files interface {
	ReadFile(ctx context.Context, from SessionPath, to io.Writer) error
	// WriteFile and WriteTar change nothing until everything has arrived.
	WriteFile(ctx context.Context, to SessionPath, mode fs.FileMode, size int64, from io.Reader) error
	RemoveFile(ctx context.Context, path SessionPath) error                 // or a directory and all in it
	ListFiles(ctx context.Context, path SessionPath) ([]fs.FileInfo, error) // a directory's, or the one file
	ReadTar(ctx context.Context, from SessionPath, to io.Writer) error
	WriteTar(ctx context.Context, directory SessionPath, from io.Reader) error
}
