package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Error is a failure or a refusal of belljar, never a failure of a command.
type Error struct {
	Cause   Cause
	Message string // what is wrong, with the field named; lower case, no full stop
	Hint    string // the next step
	Err     error  // the underlying error, may be nil

	RetryAfter time.Duration // with CauseBusy: when there may be room
	Judgment   *Judgment     // with CauseDenied, by a policy
}

// ErrShutdown is part of why a command's context is canceled where the program that runs it ends. Its session stays, whatever its OnTimeout is.
var ErrShutdown = errors.New("its program ends")

// errorJSON is an Error as JSON, with the underlying errors' texts in the message.
type errorJSON struct {
	Cause      Cause   `json:"cause"`
	Message    string  `json:"message"`
	Hint       string  `json:"hint,omitempty"`
	RetryAfter float64 `json:"retry_after_seconds,omitempty"`

	Judgment *Judgment `json:"policy,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (e *Error) MarshalJSON() ([]byte, error) {
	flat := ErrorOf(e)
	return JSON(errorJSON{flat.Cause, flat.Message, flat.Hint, flat.RetryAfter.Seconds(), flat.Judgment})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (e *Error) UnmarshalJSON(text []byte) error {
	var j errorJSON
	err := json.Unmarshal(text, &j)
	*e = Error{Cause: j.Cause, Message: j.Message, Hint: j.Hint, RetryAfter: time.Duration(j.RetryAfter * float64(time.Second)), Judgment: j.Judgment}
	return err
}

// ErrorOf is err as one *Error with the same text: its message includes the texts of
// the underlying errors. It is nil for nil.
func ErrorOf(err error) *Error {
	if err == nil {
		return nil
	}
	flat := &Error{Cause: CauseEngine, Message: err.Error()}
	if e, ok := errors.AsType[*Error](err); ok {
		flat.Cause, flat.RetryAfter, flat.Judgment = e.Cause, e.RetryAfter, e.Judgment
		if rest, ends := strings.CutSuffix(flat.Message, " ("+e.Hint+")"); ends {
			flat.Message, flat.Hint = rest, e.Hint
		}
	}
	return flat
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

// CauseOf is the cause of err, or CauseEngine without one; "" for nil.
func CauseOf(err error) Cause {
	if err == nil {
		return ""
	}
	return ErrorOf(err).Cause
}

// Invalid is a refusal of an unusable command.
func Invalid(hint, format string, args ...any) error {
	return &Error{Cause: CauseInvalid, Message: fmt.Sprintf(format, args...), Hint: hint}
}
