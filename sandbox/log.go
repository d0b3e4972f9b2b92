package sandbox

import (
	"context"
	"time"
)

// LogInfo describes a command whose output is kept.
type LogInfo struct {
	ID          string    `json:"id"`
	Command     string    `json:"command"` // its beginning
	Description string    `json:"description,omitempty"`
	Profile     string    `json:"profile"`
	Session     string    `json:"session,omitempty"`
	Started     time.Time `json:"started"`
	Ended       time.Time `json:"ended,omitzero"`   // zero while it runs; if its belljar died, the time of the last output
	Expires     time.Time `json:"expires,omitzero"` // when it may be removed
	Keep        int64     `json:"keep_seconds"`     // after its end, until then
	Running     bool      `json:"running"`
	*LogEnd               // nil while it runs, and if its belljar died: how it ended is unknown then
}

// LogEnd is how a command ended, and its output up to then.
type LogEnd struct {
	Status   Status    `json:"status"`
	Cause    Cause     `json:"cause"`
	ExitCode int       `json:"exit_code"`
	Stdout   LogStream `json:"stdout"`
	Stderr   LogStream `json:"stderr"`
}

// LogStream is a command's output on one stream, kept or not.
type LogStream struct {
	Bytes  int64  `json:"bytes"`
	Lines  int64  `json:"lines"`
	SHA256 string `json:"sha256"`
}

// Logs are the outputs that a Runner keeps after their commands' end. If none is kept
// for a command, the error is a *Error of CauseInvalid.
type Logs interface {
	// Logs are the commands whose output is kept, the oldest first.
	Logs(ctx context.Context) ([]LogInfo, error)
	LogInfo(ctx context.Context, id string) (LogInfo, error)
	// ReadLog reads one from an offset on, as Execution.Read does.
	ReadLog(ctx context.Context, id string, which Stream, offset int64) (Reader, error)
}
