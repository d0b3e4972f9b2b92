package sandbox

import (
	"errors"
	"time"
)

// Error is a failure or a refusal of ours, never a command's.
type Error struct {
	Cause   Cause
	Message string // what is wrong, with the field named; lower case, no full stop
	Hint    string // the next step
	Err     error  // what lies under it, may be nil

	RetryAfter time.Duration // of CauseBusy: when there may be room
}

func (e *Error) Error() string {
	s := e.Message
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// CauseOf is the cause that err carries, or CauseEngine; "" of nil.
func CauseOf(err error) Cause {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Cause
	}
	return CauseEngine
}
