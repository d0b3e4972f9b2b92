package client

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"belljar/sandbox"
)

// refused is an answer that says no.
type refused struct {
	err     *sandbox.Error
	status  int
	foreign bool // not a sidecar's: a proxy answered
}

func (r *refused) Error() string { return r.err.Error() }
func (r *refused) Unwrap() error { return r.err }

// problem is the sidecar's answer where it refuses or fails (RFC 9457).
type problem struct {
	Title      string            `json:"title"`
	Detail     string            `json:"detail"`
	Code       sandbox.Cause     `json:"code"`
	Hint       string            `json:"hint"`
	RetryAfter float64           `json:"retry_after_seconds"`
	Policy     *sandbox.Judgment `json:"policy"`
	Errors     []struct {
		Location string `json:"location"`
		Message  string `json:"message"`
	} `json:"errors"`
}

// maxProblem is more than a sidecar writes about one.
const maxProblem = 1 << 20

// causes are the codes that are a result's cause.
var causes = []sandbox.Cause{sandbox.CauseDenied, sandbox.CauseInvalid, sandbox.CauseBusy, sandbox.CauseImage, sandbox.CauseEngine, sandbox.CauseEngineLost, sandbox.CauseCanceled}

// refusal reads a problem.
func (c *Client) refusal(answer *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxProblem))
	var p problem
	if !strings.Contains(answer.Header.Get("Content-Type"), "json") || json.Unmarshal(text, &p) != nil {
		p = problem{Detail: fmt.Sprintf("%s answers %s: %.200q", c.host, answer.Status, text), Hint: "check that a belljar sidecar has that address"}
	}
	e := &sandbox.Error{Cause: p.Code, Message: p.Detail, Hint: p.Hint, RetryAfter: time.Duration(p.RetryAfter * float64(time.Second)), Judgment: p.Policy}
	if e.Message == "" {
		e.Message = "the sidecar answers: " + answer.Status
	}
	for _, of := range p.Errors {
		if !strings.Contains(e.Message, of.Message) || !strings.Contains(e.Message, of.Location) {
			e.Message += fmt.Sprintf("; %s: %s", of.Location, of.Message)
		}
	}
	if !slices.Contains(causes, e.Cause) {
		switch e.Cause = sandbox.CauseInvalid; {
		case answer.StatusCode == http.StatusGone:
			e.Cause = sandbox.CauseEngineLost // with its replica
		case answer.StatusCode >= 500:
			e.Cause = sandbox.CauseEngine
		}
	}
	if e.Hint == "" || p.Code == "not_found" { // its hint is for those who write HTTP
		e.Hint = hintFor(answer.StatusCode)
	}
	return &refused{e, answer.StatusCode, p.Code == ""}
}

// hintFor is the next step where the sidecar gives none.
func hintFor(status int) string {
	switch {
	case status == http.StatusUnauthorized:
		return "set BELLJAR_TOKEN or BELLJAR_TOKEN_FILE to a token of the sidecar"
	case status == http.StatusForbidden:
		return "use a token with that scope"
	case status == http.StatusNotFound:
		return "see what there is: belljar ps, belljar logs, belljar session ls"
	case status >= 500:
		return "see the sidecar's log"
	}
	return "see the sidecar's documentation"
}
