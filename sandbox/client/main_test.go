package client_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/client"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sidecar is a server that a test scripts.
type sidecar struct {
	*http.ServeMux
	*client.Client
	server *httptest.Server
	dial   func(context.Context, string, string) (net.Conn, error) // of one in a bubble
}

func newSidecar(t *testing.T, change ...func(*client.Config)) *sidecar {
	t.Helper()
	s := &sidecar{ServeMux: http.NewServeMux()}
	s.server = httptest.NewServer(s)
	config := client.Config{Host: s.server.URL, LostAfter: 10 * time.Second}
	for _, change := range change {
		change(&config)
	}
	var err error
	if s.Client, err = client.New(config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		s.server.Close()
	})
	return s
}

// eventLines are the events of a command that says this, as a sidecar writes them.
func eventLines(t *testing.T, id string, said ...string) []string {
	t.Helper()
	result := sandbox.Result{ID: id, Status: sandbox.StatusSuccess, Cause: sandbox.CauseExited}
	list := []sandbox.Event{{Type: sandbox.EventStart, Start: &sandbox.Start{ID: id}}}
	for _, text := range said {
		list = append(list, sandbox.Event{Type: sandbox.EventStdout, Data: []byte(text)})
		result.Stdout.Head = append(result.Stdout.Head, text...)
	}
	result.Stdout.Total = int64(len(result.Stdout.Head))
	list = append(list, sandbox.Event{Type: sandbox.EventResult, Result: &result})
	var lines []string
	for i, e := range list {
		e.Seq, e.Time = uint64(i+1), time.Unix(int64(i), 0)
		var line strings.Builder
		if err := e.WriteJSON(&line); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line.String()+"\n")
	}
	return lines
}

// accept begins an answer of events.
func accept(w http.ResponseWriter, id string) {
	w.Header().Set("Location", "/v1/executions/"+id)
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
}

// cut ends an answer as a broken connection does.
func cut(w http.ResponseWriter) {
	w.(http.Flusher).Flush()
	panic(http.ErrAbortHandler)
}

// after is what a request has already.
func after(r *http.Request) int {
	n, _ := strconv.Atoi(r.URL.Query().Get("after"))
	return n
}

func said(events []sandbox.Event) string {
	text := ""
	for _, e := range events {
		if e.Type == sandbox.EventStdout {
			text += string(e.Data)
		}
	}
	return text
}

func refuse(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	io.WriteString(w, text)
}

// collect reads all events, which are numbered without gaps.
func collect(t *testing.T, x sandbox.Execution) (list []sandbox.Event) {
	t.Helper()
	for e := range x.Events() {
		list = append(list, e)
		if e.Seq != uint64(len(list)) {
			t.Errorf("event %d has number %d", len(list), e.Seq)
		}
	}
	if len(list) == 0 || list[len(list)-1].Result == nil {
		t.Fatalf("no result: %v", list)
	}
	return list
}

func wantCause(t *testing.T, what string, err error, cause sandbox.Cause, text string) {
	t.Helper()
	if sandbox.CauseOf(err) != cause || !strings.Contains(fmt.Sprint(err), text) {
		t.Errorf("%s: %v of cause %s, want %q of %s", what, err, sandbox.CauseOf(err), text, cause)
	}
}
