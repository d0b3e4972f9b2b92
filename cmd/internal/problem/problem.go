// Package problem is how the sidecar says no: RFC 9457 problems in JSON, with a code
// that programs can rely on and a hint for people.
//
// The one rule: a code has one status. Where belljar has a cause for what went wrong,
// the code is that cause.
//
//	problem.Of(err).Write(w)
//	problem.New(problem.Forbidden, "the token may not approve", "use a token with the scope approve").Write(w)
package problem

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"belljar/sandbox"
)

// Codes of problems that are not a sandbox.Cause.
const (
	Unauthorized         = "unauthorized"
	Forbidden            = "forbidden"
	NotFound             = "not_found"
	Gone                 = "gone" // it ended with its replica, or may have
	NotAllowed           = "not_allowed"
	Timeout              = "timeout"
	Conflict             = "conflict"
	LengthRequired       = "length_required"
	TooLarge             = "too_large"
	UnsupportedMediaType = "unsupported_media_type"
	Internal             = "internal"
	Unavailable          = "unavailable"
	Misdirected          = "misdirected" // between replicas: it is for another one
)

// ContentType is the media type of problems.
const ContentType = "application/problem+json"

// status is the HTTP status of each code.
var status = map[string]int{
	string(sandbox.CauseDenied):     http.StatusForbidden,
	string(sandbox.CauseInvalid):    http.StatusUnprocessableEntity,
	string(sandbox.CauseBusy):       http.StatusTooManyRequests,
	string(sandbox.CauseImage):      http.StatusBadGateway,
	string(sandbox.CauseEngine):     http.StatusBadGateway,
	string(sandbox.CauseEngineLost): http.StatusBadGateway,
	string(sandbox.CauseCanceled):   http.StatusConflict,

	Unauthorized:         http.StatusUnauthorized,
	Forbidden:            http.StatusForbidden,
	NotFound:             http.StatusNotFound,
	Gone:                 http.StatusGone,
	NotAllowed:           http.StatusMethodNotAllowed,
	Timeout:              http.StatusRequestTimeout,
	Conflict:             http.StatusConflict,
	LengthRequired:       http.StatusLengthRequired,
	TooLarge:             http.StatusRequestEntityTooLarge,
	UnsupportedMediaType: http.StatusUnsupportedMediaType,
	Internal:             http.StatusInternalServerError,
	Unavailable:          http.StatusServiceUnavailable,
	Misdirected:          http.StatusMisdirectedRequest,
}

// Problem is the body of every answer that is an error. It is an error itself, and has
// the methods that huma asks of one.
type Problem struct {
	Type       string            `json:"type"` // always about:blank: the code says more
	Title      string            `json:"title"`
	Status     int               `json:"status"`
	Detail     string            `json:"detail"`
	Code       string            `json:"code"`
	Hint       string            `json:"hint,omitempty"`
	RetryAfter float64           `json:"retry_after_seconds,omitempty"`
	Judgment   *sandbox.Judgment `json:"policy,omitempty"` // of a command that the policy denied
	Errors     []Field           `json:"errors,omitempty"`
}

// Field is what is wrong with one part of a request.
type Field struct {
	Location string `json:"location,omitempty"` // such as body.limits.cpus
	Message  string `json:"message"`
}

// New is a problem with the status of its code. An unknown code becomes Internal.
func New(code, detail, hint string) *Problem {
	if _, known := status[code]; !known {
		code = Internal
	}
	of := status[code]
	return &Problem{Type: "about:blank", Title: http.StatusText(of), Status: of, Detail: detail, Code: code, Hint: hint}
}

// Of is err as a problem: err itself if it is one, the cause's for a
// *sandbox.Error. nil for nil.
func Of(err error) *Problem {
	if err == nil {
		return nil
	}
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return New(TooLarge, fmt.Sprintf("the body is larger than %d bytes", large.Limit), "send less, or files through the session's files")
	}
	flat := sandbox.ErrorOf(err)
	p := New(string(flat.Cause), flat.Message, flat.Hint)
	p.RetryAfter, p.Judgment = flat.RetryAfter.Seconds(), flat.Judgment
	return p
}

// CodeOf is the code of a status that another library chose, which knows no codes.
func CodeOf(of int) string {
	switch of {
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusNotAcceptable:
		return string(sandbox.CauseInvalid)
	case http.StatusTooManyRequests:
		return string(sandbox.CauseBusy)
	case http.StatusBadGateway:
		return string(sandbox.CauseEngine)
	}
	for _, code := range []string{Unauthorized, Forbidden, NotFound, Gone, NotAllowed, Timeout, Conflict, LengthRequired, TooLarge, UnsupportedMediaType, Unavailable, Misdirected} {
		if status[code] == of {
			return code
		}
	}
	if of >= 400 && of < 500 {
		return string(sandbox.CauseInvalid)
	}
	return Internal
}

// Write answers with a problem whose status is not that of its code.
func Write(w http.ResponseWriter, of int, code, detail, hint string) {
	(&Problem{Type: "about:blank", Title: http.StatusText(of), Status: of, Detail: detail, Code: code, Hint: hint}).Write(w)
}

// Write answers with the problem.
func (p *Problem) Write(w http.ResponseWriter) {
	for name, values := range p.GetHeaders() {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", ContentType)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	text, err := sandbox.JSON(p)
	if err != nil { // cannot be: there are only strings and numbers
		text = []byte(`{"type":"about:blank","status":500,"code":"internal"}`)
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(text, '\n')) // a caller that left needs no answer
}

func (p *Problem) Error() string {
	if p.Hint != "" {
		return p.Detail + " (" + p.Hint + ")"
	}
	return p.Detail
}

// GetStatus is the HTTP status.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType is the media type.
func (p *Problem) ContentType(string) string { return ContentType }

// GetHeaders are those that go with the status. When to come back is at least a second
// away: a caller must not spin.
func (p *Problem) GetHeaders() http.Header {
	h := http.Header{}
	switch p.Status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", "Bearer")
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		h.Set("Retry-After", strconv.Itoa(int(max(1, math.Ceil(min(p.RetryAfter, time.Hour.Seconds()))))))
	}
	return h
}
