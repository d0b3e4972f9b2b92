package httpapi_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"belljar/cmd/internal/problem"
	"belljar/sandbox"
	"belljar/sandbox/sandboxtest"
)

// hello writes on both streams and fails.
func hello(p *sandboxtest.Proc) int {
	io.WriteString(p.Stdout, "out\n")
	io.WriteString(p.Stderr, "err\xff\n")
	return 3
}

func TestRun(t *testing.T) {
	s := newSidecar(t, hello)
	var r sandbox.Result
	header := s.get(t, "ann", "POST", "/v1/executions", fields{"command": "hello", "description": "to say it", "env": fields{"A": "1"}}, 200, &r)
	if r.ExitCode != 3 || string(r.Stdout.Bytes()) != "out\n" || string(r.Stderr.Bytes()) != "err\xff\n" || r.Description != "to say it" {
		t.Errorf("%+v", r)
	}
	if header.Get("Location") != "/v1/executions/"+r.ID {
		t.Errorf("Location: %s", header.Get("Location"))
	}
	var x struct {
		ID, State, Owner string
		Result           *sandbox.Result
	}
	s.get(t, "ann", "GET", "/v1/executions/"+r.ID, nil, 200, &x)
	if x.State != "ended" || x.Owner != "ann" || x.Result == nil || x.Result.ExitCode != 3 || string(x.Result.Stdout.Bytes()) != "out\n" {
		t.Errorf("%+v", x)
	}
	var list struct {
		Executions []struct{ ID, Command string }
	}
	s.get(t, "ann", "GET", "/v1/executions?state=ended", nil, 200, &list)
	if len(list.Executions) != 1 || list.Executions[0].ID != r.ID || list.Executions[0].Command != "hello" {
		t.Errorf("%+v", list)
	}
}

// What one token has, no other one sees.
func TestOwners(t *testing.T) {
	s := newSidecar(t, func(*sandboxtest.Proc) int { return 0 })
	var r sandbox.Result
	s.get(t, "ann", "POST", "/v1/executions", fields{"command": "hello", "session": "dev"}, 200, &r)
	of := "/v1/executions/" + r.ID
	for _, path := range []string{of, of + "/events", of + "/output", "/v1/sessions/dev"} {
		s.get(t, "ben", "GET", path, nil, 404, nil)
		s.get(t, "reader", "GET", path, nil, 404, nil)
		s.get(t, "ann", "GET", path, nil, 200, nil)
		s.get(t, "", "GET", path, nil, 200, nil)
	}
	for _, path := range []string{of + "/stdin", of + "/touch"} {
		s.get(t, "ben", "POST", path, nil, 404, nil)
	}
	s.get(t, "ben", "DELETE", of, nil, 404, nil)
	s.get(t, "ben", "DELETE", "/v1/sessions/dev", nil, 404, nil)
	s.get(t, "ben", "POST", "/v1/executions", fields{"command": "hello", "session": "dev"}, 409, nil)
	s.get(t, "ben", "POST", "/v1/sessions", fields{"name": "dev"}, 409, nil)
	var list struct{ Executions, Sessions []any }
	s.get(t, "ben", "GET", "/v1/executions", nil, 200, &list)
	s.get(t, "ben", "GET", "/v1/sessions", nil, 200, &list)
	if len(list.Executions) != 0 || len(list.Sessions) != 0 {
		t.Errorf("%+v", list)
	}
	s.get(t, "ann", "DELETE", "/v1/sessions/dev", nil, 204, nil)
	s.get(t, "ben", "POST", "/v1/sessions", fields{"name": "dev"}, 201, nil)
	s.get(t, "ben", "DELETE", "/v1/sessions/dev", nil, 204, nil)
}

// A scope is needed for each request, and a profile for each command.
func TestScopes(t *testing.T) {
	s := newSidecar(t, hello)
	run := fields{"command": "hello"}
	s.get(t, "reader", "POST", "/v1/executions", run, 403, nil)
	s.get(t, "judge", "POST", "/v1/executions", run, 403, nil)
	s.get(t, "nobody", "POST", "/v1/executions", run, 403, nil)
	s.get(t, "ann", "POST", "/v1/executions", fields{"command": "hello", "profile": "other"}, 403, nil)
	s.get(t, "ann", "POST", "/v1/policy/check", fields{"command": "hello", "profile": "other"}, 403, nil)
	for _, path := range []string{"/v1/approvals", "/v1/images", "/v1/pools", "/v1/audit/head"} {
		s.get(t, "ann", "GET", path, nil, 403, nil)
	}
	s.get(t, "judge", "GET", "/v1/approvals", nil, 200, nil)
	s.get(t, "", "GET", "/v1/audit/head", nil, 404, nil)
	var profiles struct{ Profiles []struct{ Name string } }
	s.get(t, "ann", "GET", "/v1/profiles", nil, 200, &profiles)
	if len(profiles.Profiles) != 1 {
		t.Errorf("%+v", profiles)
	}
}

// Every refusal is a problem with a code.
func TestProblems(t *testing.T) {
	s := newSidecar(t, hello)
	for _, c := range []struct {
		method, path string
		body         any
		status       int
		code, detail string
	}{
		{"POST", "/v1/executions", fields{"command": ""}, 422, "invalid_command", "empty"},
		{"POST", "/v1/executions", fields{"command": "hello", "typo": 1}, 422, "invalid_command", "body.typo"},
		{"POST", "/v1/executions", fields{}, 422, "invalid_command", "command"},
		{"POST", "/v1/executions", fields{"command": "hello", "timeout_seconds": "5s"}, 422, "invalid_command", "timeout_seconds"},
		{"POST", "/v1/executions", fields{"command": "hello", "timeout_seconds": 0.001}, 422, "invalid_command", "timeout"},
		{"POST", "/v1/executions", fields{"command": "hello", "user": "0:0"}, 422, "invalid_command", "root"},
		{"POST", "/v1/executions", fields{"command": "hello", "stdin": "?", "stdin_encoding": "base64"}, 422, "invalid_command", "base64"},
		{"POST", "/v1/executions", fields{"command": "hello", "profile": "none"}, 422, "invalid_command", "none"},
		{"POST", "/v1/executions", fields{"command": "hello", "id": "a/b"}, 422, "invalid_command", "ID"},
		{"POST", "/v1/executions", fields{"command": "hello", "session": "../x"}, 422, "invalid_command", "session"},
		{"POST", "/v1/executions", fields{"command": "echo denied"}, 403, "denied", ""},
		{"POST", "/v1/executions?wiat=0", fields{"command": "hello"}, 422, "invalid_command", "wiat"},
		{"POST", "/v1/executions", strings.Repeat("x", 2<<20), 413, "too_large", ""},
		{"GET", "/v1/executions/none", nil, 404, "not_found", "none"},
		{"GET", "/v1/executions/..%2f..%2fetc", nil, 404, "not_found", ""},
		{"GET", "/v1/none", nil, 404, "not_found", ""},
		{"PATCH", "/v1/executions", nil, 405, "not_allowed", ""},
		{"GET", "/v1/sessions/none", nil, 404, "not_found", ""},
		{"POST", "/v1/approvals/none", fields{"answer": "once", "question": "one"}, 404, "not_found", ""},
		{"POST", "/v1/approvals/none", fields{"answer": "once"}, 422, "invalid_command", "question"},
		{"POST", "/v1/approvals/none", fields{"answer": "maybe", "question": "one"}, 422, "invalid_command", "answer"},
	} {
		response := s.do(t, "", c.method, c.path, c.body)
		text, _ := io.ReadAll(response.Body)
		var p problem.Problem
		err := json.Unmarshal(text, &p)
		if response.StatusCode != c.status || err != nil || p.Code != c.code || p.Status != c.status || !strings.Contains(p.Detail, c.detail) || response.Header.Get("Content-Type") != problem.ContentType {
			t.Errorf("%s %s %v: %d %s %s", c.method, c.path, c.body, response.StatusCode, response.Header.Get("Content-Type"), text)
		}
	}
	response := s.do(t, "", "POST", "/v1/executions", nil, "Content-Type", "text/plain")
	if response.StatusCode < 400 || response.StatusCode >= 500 {
		t.Errorf("a form: %d", response.StatusCode)
	}
}

// waiting is a command that reports its start in begun, and ends when end is closed.
type waiting struct{ begun, end chan struct{} }

func newWaiting() waiting { return waiting{make(chan struct{}, 100), make(chan struct{})} }

func (w waiting) play(p *sandboxtest.Proc) int {
	io.WriteString(p.Stdout, "begun\n")
	w.begun <- struct{}{}
	select {
	case <-w.end:
		return 0
	case <-p.Killed:
		return 137
	}
}

func TestNoWait(t *testing.T) {
	w := newWaiting()
	s := newSidecar(t, w.play)
	var accepted struct{ ID string }
	s.get(t, "ann", "POST", "/v1/executions?wait=0", fields{"command": "wait"}, 202, &accepted)
	<-w.begun
	var x struct {
		State  string
		Result *sandbox.Result
	}
	of := "/v1/executions/" + accepted.ID
	for x.State != "running" { // a moment after it does
		if s.get(t, "ann", "GET", of, nil, 200, &x); x.Result != nil {
			t.Fatalf("%+v", x)
		}
	}
	s.get(t, "ann", "POST", of+"/touch", nil, 204, nil)
	s.get(t, "ann", "POST", of+"/resize", fields{"rows": 10, "cols": 20}, 422, nil)
	s.get(t, "ann", "POST", of+"/stdin", nil, 422, nil)
	s.get(t, "ann", "POST", of+"/signal", fields{"signal": "SIGNONE"}, 422, nil)
	s.get(t, "ann", "DELETE", of, nil, 202, nil)
	if s.get(t, "ann", "GET", of+"?wait=60", nil, 200, &x); x.State != "ended" || x.Result.Cause != sandbox.CauseCanceled {
		t.Errorf("%+v", x)
	}
	for _, path := range []string{"/touch", "/stdin"} {
		s.get(t, "ann", "POST", of+path, nil, 409, nil)
	}
	s.get(t, "ann", "DELETE", of, nil, 202, nil)
}

// A client that leaves ends nothing, unless it asked for that.
func TestDisconnect(t *testing.T) {
	for _, cancel := range []bool{false, true} {
		w := newWaiting()
		s := newSidecar(t, w.play)
		response := s.do(t, "ann", "POST", "/v1/executions", fields{"command": "wait", "cancel_on_disconnect": cancel}, "Accept", "application/x-ndjson")
		<-w.begun
		response.Body.Close()
		if !cancel {
			close(w.end)
		}
		var x struct{ Result sandbox.Result }
		s.get(t, "ann", "GET", response.Header.Get("Location")+"?wait=60", nil, 200, &x)
		if want := map[bool]sandbox.Cause{false: sandbox.CauseExited, true: sandbox.CauseCanceled}[cancel]; x.Result.Cause != want {
			t.Errorf("%v: %s %s", cancel, x.Result.Cause, x.Result.Message)
		}
	}
}

// The same key and body is the same execution.
func TestIdempotency(t *testing.T) {
	s := newSidecar(t, hello)
	var first, second, third sandbox.Result
	key := []string{"Idempotency-Key", "k-1"}
	s.get(t, "ann", "POST", "/v1/executions", fields{"command": "hello"}, 200, &first, key...)
	s.get(t, "ann", "POST", "/v1/executions", fields{"command": "hello"}, 200, &second, key...)
	s.get(t, "ben", "POST", "/v1/executions", fields{"command": "hello"}, 200, &third, key...)
	if first.ID != second.ID || first.ID == third.ID {
		t.Errorf("%s, %s, %s", first.ID, second.ID, third.ID)
	}
	s.get(t, "ann", "POST", "/v1/executions", fields{"command": "other"}, 409, nil, key...)
	s.get(t, "ann", "POST", "/v1/executions", fields{"command": "hello"}, 422, nil, "Idempotency-Key", "with blank")
}

// Events are the same as NDJSON and as SSE, from every number on.
func TestEvents(t *testing.T) {
	s := newSidecar(t, hello)
	response := s.do(t, "ann", "POST", "/v1/executions", fields{"command": "hello"}, "Accept", "application/x-ndjson")
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != "application/x-ndjson" {
		t.Fatalf("%d, %v", response.StatusCode, err)
	}
	lines := strings.SplitAfter(strings.TrimSuffix(string(text), "\n"), "\n")
	events := response.Header.Get("Location") + "/events"
	for after := range lines {
		of := s.do(t, "ann", "GET", events+"?after="+strconv.Itoa(after), nil)
		if rest, err := io.ReadAll(of.Body); err != nil || stripTimes(string(rest)) != stripTimes(strings.Join(lines[after:], "")+"\n") {
			t.Errorf("after %d: %v\n%s\nwant\n%s", after, err, rest, lines[after:])
		}
		sse := s.do(t, "ann", "GET", events, nil, "Accept", "text/event-stream", "Last-Event-ID", strconv.Itoa(after))
		scanner := bufio.NewScanner(sse.Body)
		for i := after; scanner.Scan(); i++ {
			id := scanner.Text()
			scanner.Scan()
			kind := scanner.Text()
			scanner.Scan()
			data, ok := strings.CutPrefix(scanner.Text(), "data: ")
			scanner.Scan()
			var e sandbox.Event
			if err := json.Unmarshal([]byte(data), &e); err != nil || !ok || id != fmt.Sprint("id: ", i+1) || kind != "event: "+string(e.Type) || e.Seq != uint64(i+1) || scanner.Text() != "" {
				t.Fatalf("after %d: %q %q %q %v", after, id, kind, data, err)
			}
		}
	}
	s.get(t, "ann", "GET", events, nil, 422, nil, "Last-Event-ID", "x")
	framed := bufio.NewReader(s.do(t, "ann", "GET", events, nil, "Accept", "application/vnd.belljar.events, application/x-ndjson").Body)
	for i := range lines {
		var n int
		line, err := framed.ReadString('\n')
		number, rest, ok := strings.Cut(line, " ")
		if n, _ = strconv.Atoi(number); err != nil || !ok {
			t.Fatalf("%q, %v", line, err)
		}
		var e, want sandbox.Event
		if err := errors.Join(json.Unmarshal([]byte(rest), &e), json.Unmarshal([]byte(lines[i]), &want)); err != nil {
			t.Fatal(err)
		}
		e.Data = make([]byte, n)
		if _, err := io.ReadFull(framed, e.Data); err != nil || !bytes.Equal(e.Data, want.Data) || e.Seq != want.Seq || e.Type != want.Type {
			t.Errorf("%+v, %v, want %+v", e, err, want)
		}
	}
}

// stripTimes removes what is less precise when it is read from the disk.
func stripTimes(lines string) string {
	var kept []string
	for line := range strings.Lines(lines) {
		var e map[string]any
		if json.Unmarshal([]byte(line), &e) == nil {
			delete(e, "ts")
			if r, ok := e["result"].(map[string]any); ok {
				delete(r, "timing")
			}
			text, _ := json.Marshal(e)
			line = string(text)
		}
		kept = append(kept, line)
	}
	return strings.Join(kept, "\n")
}

func TestOutput(t *testing.T) {
	s := newSidecar(t, hello)
	var r sandbox.Result
	s.get(t, "ann", "POST", "/v1/executions", fields{"command": "hello"}, 200, &r)
	of := "/v1/executions/" + r.ID + "/output?stream="
	for path, want := range map[string]string{"stdout": "out\n", "stdout&offset=2": "t\n", "stderr": "err\xff\n", "stdout&offset=4": "", "stdout&offset=99": "", "stderr&follow=true": "err\xff\n"} {
		response := s.do(t, "ann", "GET", of+path, nil)
		if text, err := io.ReadAll(response.Body); err != nil || string(text) != want || response.Header.Get("Belljar-Offset") == "" {
			t.Errorf("%s: %q, %v, %v", path, text, err, response.Header)
		}
	}
	response := s.do(t, "ann", "GET", of+"merged", nil, "Accept", "application/x-ndjson")
	text, err := io.ReadAll(response.Body)
	if err != nil || !bytes.Contains(text, []byte(`{"stream":"stdout","offset":0,"data":"out\n"}`)) || !bytes.Contains(text, []byte(`"encoding":"base64"`)) {
		t.Errorf("%s, %v", text, err)
	}
	s.get(t, "ann", "GET", of+"none", nil, 422, nil)
	s.get(t, "ann", "GET", of+"stdout&offset=-1", nil, 422, nil)
}

func TestStdin(t *testing.T) {
	s := newSidecar(t, func(p *sandboxtest.Proc) int {
		io.Copy(p.Stdout, p.Stdin)
		return 0
	})
	var accepted struct{ ID string }
	s.get(t, "ann", "POST", "/v1/executions?wait=0", fields{"command": "cat", "stdin": "a", "stdin_open": true}, 202, &accepted)
	of := "/v1/executions/" + accepted.ID
	send := func(query, part string, status int) {
		t.Helper()
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+of+"/stdin?"+query, strings.NewReader(part))
		r.Header.Set("Caller", "ann")
		response, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if text, _ := io.ReadAll(response.Body); response.StatusCode != status {
			t.Errorf("%s: %d: %s", query, response.StatusCode, text)
		}
	}
	send("", "bcd", 200)
	send("", "bcd", 200)
	send("offset=2", "def", 200)
	send("offset=9", "x", 409)
	send("offset=9&eof=1&failed=oh", "x", 409)
	send("offset=5&failed=oh", "", 200) // it needs eof
	send("offset=5&eof=1", "g", 200)
	var x struct{ Result sandbox.Result }
	s.get(t, "ann", "GET", of+"?wait=60", nil, 200, &x)
	if r := x.Result; string(r.Stdout.Bytes()) != "abcdefg" || r.Cause != sandbox.CauseExited {
		t.Errorf("%q, %s", r.Stdout.Bytes(), r.Message)
	}
	s.get(t, "ann", "POST", "/v1/executions?wait=0", fields{"command": "cat", "stdin_open": true}, 202, &accepted)
	of = "/v1/executions/" + accepted.ID
	send("", "abc", 200)
	for text := ""; text != "abc"; time.Sleep(time.Millisecond) { // else the end could come before the command has written it
		said, _ := io.ReadAll(s.do(t, "ann", "GET", of+"/output?stream=stdout", nil).Body)
		text = string(said)
	}
	send("eof=1&failed=oh", "", 200)
	s.get(t, "ann", "GET", of+"?wait=60", nil, 200, &x)
	if r := x.Result; string(r.Stdout.Bytes()) != "abc" || r.Cause != sandbox.CauseInvalid || !strings.Contains(r.Message, "oh") {
		t.Errorf("%q, %s", r.Stdout.Bytes(), r.Message)
	}
	var r sandbox.Result
	s.get(t, "ann", "POST", "/v1/executions", fields{"command": "cat", "stdin": "YQBi", "stdin_encoding": "base64"}, 200, &r)
	if string(r.Stdout.Bytes()) != "a\x00b" {
		t.Errorf("%q", r.Stdout.Bytes())
	}
}

func TestApprovals(t *testing.T) {
	s := newSidecar(t, hello)
	for _, answer := range []string{"once", "deny"} {
		answered := make(chan int)
		go func() {
			response := s.do(t, "ann", "POST", "/v1/executions", fields{"command": "echo asked", "description": "please"})
			answered <- response.StatusCode
		}()
		var list struct {
			Approvals []struct{ ID, Question, Command, Description string }
		}
		for len(list.Approvals) == 0 {
			s.get(t, "judge", "GET", "/v1/approvals", nil, 200, &list)
		}
		if q := list.Approvals[0]; q.Command != "echo asked" || q.Description != "please" {
			t.Errorf("%+v", q)
		}
		of := "/v1/approvals/" + list.Approvals[0].ID
		s.get(t, "ann", "POST", of, fields{"answer": answer, "question": list.Approvals[0].Question}, 403, nil)
		s.get(t, "judge", "POST", of, fields{"answer": answer, "question": list.Approvals[0].Question}, 204, nil)
		s.get(t, "judge", "POST", of, fields{"answer": answer, "question": list.Approvals[0].Question}, 404, nil)
		if status, want := <-answered, map[string]int{"once": 200, "deny": 403}[answer]; status != want {
			t.Errorf("%s: %d", answer, status)
		}
	}
}

// Many at once all end, and each with its own output.
func TestManyAtOnce(t *testing.T) {
	s := newSidecar(t, func(p *sandboxtest.Proc) int { io.Copy(p.Stdout, p.Stdin); return 0 })
	ended := make(chan string, 100)
	for i := range 100 {
		go func() {
			response := s.do(t, "ann", "POST", "/v1/executions", fields{"command": "cat", "stdin": strconv.Itoa(i)})
			var r sandbox.Result
			if text, _ := io.ReadAll(response.Body); response.StatusCode == http.StatusOK && json.Unmarshal(text, &r) != nil {
				t.Errorf("%s", text)
			}
			ended <- string(r.Stdout.Bytes())
		}()
	}
	var all []string
	for range 100 {
		if out := <-ended; out != "" {
			all = append(all, out)
		}
	}
	slices.Sort(all)
	if len(slices.Compact(all)) != 100 {
		t.Errorf("%d ended", len(all))
	}
}

// Why the sidecar is not ready is for those who may read.
func TestNotReady(t *testing.T) {
	s := newSidecar(t, hello)
	s.api.Ready = func(context.Context) error { return errors.New("the pool of secret-project is empty") }
	for caller, told := range map[string]bool{"nobody": false, "ann": true} {
		response := s.do(t, caller, "GET", "/readyz", nil)
		text, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusServiceUnavailable || bytes.Contains(text, []byte("secret-project")) != told {
			t.Errorf("%s: %d %s %v", caller, response.StatusCode, text, err)
		}
	}
}
