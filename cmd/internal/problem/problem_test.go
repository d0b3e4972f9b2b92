package problem

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"belljar/sandbox"

	"github.com/google/go-cmp/cmp"
)

func TestOf(t *testing.T) {
	t.Parallel()
	denied := &sandbox.Judgment{Decision: sandbox.Deny, Rule: "no-push"}
	for name, test := range map[string]struct {
		err    error
		status int
		code   string
		detail string
		hint   string
	}{
		"denied":       {&sandbox.Error{Cause: sandbox.CauseDenied, Message: "no pushing", Judgment: denied}, 403, "denied", "no pushing", ""},
		"invalid":      {sandbox.Invalid("write one", "command is empty"), 422, "invalid_command", "command is empty", "write one"},
		"busy":         {&sandbox.Error{Cause: sandbox.CauseBusy, Message: "full", RetryAfter: 1500 * time.Millisecond}, 429, "busy", "full", ""},
		"image":        {&sandbox.Error{Cause: sandbox.CauseImage, Message: "no image"}, 502, "image_error", "no image", ""},
		"engine":       {&sandbox.Error{Cause: sandbox.CauseEngine, Message: "no engine"}, 502, "engine_error", "no engine", ""},
		"engine lost":  {&sandbox.Error{Cause: sandbox.CauseEngineLost, Message: "gone"}, 502, "engine_lost", "gone", ""},
		"canceled":     {&sandbox.Error{Cause: sandbox.CauseCanceled, Message: "stopped"}, 409, "canceled", "stopped", ""},
		"no cause":     {&sandbox.Error{Message: "odd"}, 500, "internal", "odd", ""},
		"other error":  {errors.New("disk on fire"), 502, "engine_error", "disk on fire", ""},
		"underlying":   {&sandbox.Error{Cause: sandbox.CauseImage, Message: "pulling", Err: errors.New("EOF"), Hint: "try again"}, 502, "image_error", "pulling: EOF", "try again"},
		"wrapped":      {fmt.Errorf("running: %w", sandbox.Invalid("write one", "empty")), 422, "invalid_command", "running: empty", "write one"},
		"a problem":    {fmt.Errorf("answering: %w", New(NotFound, "no session", "")), 404, "not_found", "no session", ""},
		"too large":    {fmt.Errorf("reading: %w", &http.MaxBytesError{Limit: 10}), 413, "too_large", "the body is larger than 10 bytes", "send less, or files through the session's files"},
		"unknown code": {New("what", "x", ""), 500, "internal", "x", ""},
	} {
		got := Of(test.err)
		want := &Problem{Type: "about:blank", Title: http.StatusText(test.status), Status: test.status, Detail: test.detail, Code: test.code, Hint: test.hint}
		if name == "denied" {
			want.Judgment = denied
		}
		if name == "busy" {
			want.RetryAfter = 1.5
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
	if Of(nil) != nil {
		t.Error("Of(nil) is not nil")
	}
}

// Every code that the API documents has the status documented for it.
func TestCodes(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]int{
		Unauthorized: 401, Forbidden: 403, NotFound: 404, NotAllowed: 405, Timeout: 408, Conflict: 409, LengthRequired: 411,
		TooLarge: 413, UnsupportedMediaType: 415, Misdirected: 421, Internal: 500, Unavailable: 503,
	} {
		if got := New(code, "", "").Status; got != want {
			t.Errorf("%s has status %d, not %d", code, got, want)
		}
		if got := CodeOf(want); got != code {
			t.Errorf("status %d has code %s, not %s", want, got, code)
		}
	}
	for of, want := range map[int]string{400: "invalid_command", 422: "invalid_command", 406: "invalid_command", 418: "invalid_command", 429: "busy", 502: "engine_error", 504: "internal"} {
		if got := CodeOf(of); got != want {
			t.Errorf("status %d has code %s, not %s", of, got, want)
		}
	}
}

func TestWrite(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	Of(&sandbox.Error{Cause: sandbox.CauseBusy, Message: "all <32> places are taken\x7f", Hint: "wait", RetryAfter: 1500 * time.Millisecond}).Write(w)
	const want = `{"type":"about:blank","title":"Too Many Requests","status":429,"detail":"all <32> places are taken\u007f","code":"busy","hint":"wait","retry_after_seconds":1.5}` + "\n"
	if w.Code != 429 || w.Body.String() != want {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w.Header().Get("Retry-After") != "2" || w.Header().Get("Content-Type") != "application/problem+json" {
		t.Errorf("headers %v", w.Header())
	}

	w = httptest.NewRecorder()
	Write(w, 401, Unauthorized, "no token \xff", "send one")
	var got Problem
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 401 || got.Code != Unauthorized {
		t.Errorf("%d %s: %v", w.Code, w.Body, err)
	}
	if w.Header().Get("WWW-Authenticate") != "Bearer" {
		t.Errorf("headers %v", w.Header())
	}
	if !strings.Contains(got.Error(), "(send one)") {
		t.Error(got.Error())
	}
}

// With a Retry-After of nothing a caller would ask without a pause; with none it would give up.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for seconds, want := range map[float64]string{0: "1", 0.2: "1", 2: "2", 2.1: "3", 1e300: "3600"} {
		p := New(Unavailable, "", "")
		p.RetryAfter = seconds
		if got := p.GetHeaders().Get("Retry-After"); got != want {
			t.Errorf("%v s: Retry-After %s, not %s", seconds, got, want)
		}
	}
}
