package executions

import (
	"context"
	"time"

	"belljar/sandbox"
)

// hasLog reports whether there is a log of it, or may be.
func (x *Execution) hasLog() bool {
	_, err := x.book.Logs.LogInfo(context.Background(), x.ID)
	return sandbox.CauseOf(err) != sandbox.CauseInvalid
}

// lost is the last line of an execution that has no log: its server died before it began, or could not keep one.
func (x *Execution) lost(j *journal) ([]byte, error) {
	why := errLost
	if j.began {
		why = errUnkept
	}
	result := sandbox.Refused(sandbox.Command{ID: x.ID, Profile: x.Profile, Session: x.Session}, why)
	return appendLine(nil, sandbox.Event{Type: sandbox.EventResult, Time: time.Now(), Result: &result})
}

var (
	errLost   = &sandbox.Error{Cause: sandbox.CauseEngineLost, Message: "the sidecar ended before the command began", Hint: "send it again"}
	errUnkept = &sandbox.Error{Cause: sandbox.CauseEngineLost, Message: "the sidecar ended before the command did, and could not keep its output; the command may have run", Hint: "look for what it changes before you send it again"}
)
