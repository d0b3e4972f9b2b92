package httpapi_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"belljar/sandbox"
)

// known is an execution as the API shows it.
type known struct {
	ID, State, Command, Status, Cause string
	Result                            *sandbox.Result
}

// waits waits until an execution waits for an approval.
func (s *sidecar) waits(t *testing.T, id string) {
	t.Helper()
	for x := (known{}); x.State != "waiting"; {
		response := s.do(t, "ann", "GET", "/v1/executions/"+id, nil)
		text, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode == http.StatusOK && json.Unmarshal(text, &x) != nil {
			t.Fatalf("%s, %v", text, err)
		}
	}
}

// Once a bug: an execution that waits for an approval could be canceled, and nothing else.
func TestWaitingIsKnown(t *testing.T) {
	s := newSidecar(t, hello)
	for _, query := range []string{"", "?wait=0", "?hold=1"} {
		id, answered := "x"+strings.Trim(query, "?=01"), make(chan int, 1)
		go func() {
			answered <- s.do(t, "ann", "POST", "/v1/executions"+query, fields{"command": "echo asked", "id": id}).StatusCode
		}()
		s.waits(t, id)
		var list struct{ Executions []known }
		s.get(t, "ann", "GET", "/v1/executions?state=waiting", nil, 200, &list)
		if len(list.Executions) != 1 || list.Executions[0].ID != id || list.Executions[0].Command != "echo asked" {
			t.Errorf("%s: %+v", query, list)
		}
		s.get(t, "ben", "GET", "/v1/executions/"+id, nil, 404, nil)
		s.get(t, "ann", "POST", "/v1/executions/"+id+"/signal", fields{"signal": "SIGTERM"}, 422, nil)
		s.get(t, "ann", "POST", "/v1/executions/"+id+"/touch", nil, 204, nil)
		if out := s.do(t, "ann", "GET", "/v1/executions/"+id+"/output", nil); out.StatusCode != http.StatusOK {
			t.Errorf("%s: its output: %d", query, out.StatusCode)
		}
		events := s.do(t, "ann", "GET", "/v1/executions/"+id+"/events", nil)
		follows := s.do(t, "ann", "GET", "/v1/executions/"+id+"/output?follow=1&stream=merged", nil, "Accept", "application/x-ndjson")
		s.answers(t, id, "once")
		if status, want := <-answered, map[string]int{"?wait=0": 202}[query]; status != max(want, 200) {
			t.Errorf("%s: %d", query, status)
		}
		if query == "?hold=1" {
			s.get(t, "ann", "POST", "/v1/executions/"+id+"/start", nil, 204, nil)
		}
		text, err := io.ReadAll(events.Body)
		if err != nil || !strings.Contains(string(text), `"type":"start"`) || !strings.Contains(string(text), `"exit_code":3`) {
			t.Errorf("%s: %v: %s", query, err, text)
		}
		if text, err := io.ReadAll(follows.Body); err != nil || !strings.Contains(string(text), `"data":"out\n"`) {
			t.Errorf("%s: %v: %s", query, err, text)
		}
	}
}

// What was known while it waited keeps its end, and its key.
func TestWaitingIsRefused(t *testing.T) {
	s := newSidecar(t, hello)
	run := fields{"command": "echo asked", "id": "x"}
	s.get(t, "ann", "POST", "/v1/executions?wait=0", run, 202, nil, "Idempotency-Key", "k")
	s.waits(t, "x")
	events := s.do(t, "ann", "GET", "/v1/executions/x/events", nil)
	s.answers(t, "x", "deny")
	last, err := bufio.NewReader(events.Body).ReadString('\n')
	if err != nil || !strings.Contains(last, `"status":"denied"`) {
		t.Errorf("%v: %s", err, last)
	}
	for range 2 {
		var x known
		s.get(t, "ann", "GET", "/v1/executions/x?wait=60", nil, 200, &x)
		if x.State != "ended" || x.Status != "denied" || x.Cause != "denied" || x.Command != "echo asked" || x.Result == nil || x.Result.ExitCode != sandbox.ExitNeverRan {
			t.Errorf("%+v", x)
		}
		again := s.do(t, "ann", "GET", "/v1/executions/x/events", nil)
		if text, err := io.ReadAll(again.Body); err != nil || string(text) != last {
			t.Errorf("%v: %s, want %s", err, text, last)
		}
		s.get(t, "ann", "GET", "/v1/executions/x/output", nil, 200, nil)
		s.book.Sweep()
	}
	s.get(t, "ann", "POST", "/v1/executions?wait=0", run, 202, nil, "Idempotency-Key", "k")
	s.get(t, "ann", "POST", "/v1/executions", run, 403, nil, "Idempotency-Key", "k")
	s.get(t, "ann", "POST", "/v1/executions", fields{"command": "other", "id": "x"}, 409, nil)
}

// A request to cancel can be repeated: only kill is forceful.
func TestCancelWaiting(t *testing.T) {
	s := newSidecar(t, hello)
	s.get(t, "ann", "POST", "/v1/executions?wait=0", fields{"command": "echo asked", "id": "x"}, 202, nil)
	s.waits(t, "x")
	for range 3 {
		s.get(t, "ann", "DELETE", "/v1/executions/x", nil, 202, nil)
	}
	var x known
	s.get(t, "ann", "GET", "/v1/executions/x?wait=60", nil, 200, &x)
	if x.Status != "canceled" || x.Cause != "canceled" {
		t.Errorf("%+v", x)
	}
}
