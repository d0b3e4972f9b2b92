package httpapi_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// What has ended is no stream that was cut, and a number that no event has is an error.
func TestAfterTheLast(t *testing.T) {
	s := newSidecar(t, hello)
	text, err := io.ReadAll(s.do(t, "ann", "POST", "/v1/executions", fields{"command": "hello", "id": "x"}, "Accept", "application/x-ndjson").Body)
	if err != nil {
		t.Fatal(err)
	}
	var last struct{ Seq int }
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil {
		t.Fatal(err)
	}
	at := func(n int) []string { return []string{"Last-Event-ID", jsonOf(t, n)} }
	s.get(t, "ann", "GET", "/v1/executions/x/events", nil, 204, nil, at(last.Seq)...)
	s.get(t, "ann", "GET", "/v1/executions/x/events", nil, 422, nil, at(last.Seq+1)...)
	s.get(t, "ann", "GET", "/v1/executions/x/events", nil, 200, nil, at(last.Seq-1)...)
	s.get(t, "ann", "GET", "/v1/executions/x/tty?after="+jsonOf(t, last.Seq+1), nil, 422, nil)
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Once a bug: HEAD of a stream took the connection until the command's end.
func TestHeadOfStreams(t *testing.T) {
	w := newWaiting()
	s := newSidecar(t, w.play)
	s.get(t, "ann", "POST", "/v1/executions?wait=0", fields{"command": "wait", "id": "x"}, 202, nil)
	<-w.begun
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(5 * time.Minute))
	answers := bufio.NewReader(conn)
	for _, path := range []string{"/events", "/output?follow=true", ""} { // each answer shows that the one before it ended
		fmt.Fprintf(conn, "HEAD /v1/executions/x%s HTTP/1.1\r\nHost: x\r\nCaller: ann\r\n\r\n", path)
		answer, err := http.ReadResponse(answers, &http.Request{Method: http.MethodHead})
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", path, answer.Status)
		}
	}
	s.get(t, "ann", "DELETE", "/v1/executions/x", nil, 202, nil)
}
