package e2e

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"belljar/sandbox"
)

// A13: 200 callers at once, of which 8 have their turn: each gets its own command's
// output, and nothing stays behind.
func TestSidecarWithACrowd(t *testing.T) {
	t.Parallel()
	s := besiege(t, "", "max_running: 8", "queue: {length: 256, wait: 30m}", "pool: {min: 4, max: 4}")
	sessions := []string{s.sessionName(), s.sessionName(), s.sessionName(), s.sessionName()}
	s.runs(object{"command": "true"}) // from now on there are an engine's events
	s.settles()
	descriptors, goroutines := s.descriptors(), s.goroutines()
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			request := object{"command": fmt.Sprintf("echo out %d; echo err %d >&2; exit %d", i, i, i%3)}
			if i%3 > 0 {
				request["session"] = sessions[i%len(sessions)]
			}
			r, events := sandbox.Result{}, ""
			if i%4 < 2 {
				r = s.runs(request)
			} else {
				r, events = s.streams(request)
				if want := fmt.Sprintf("stderr err %d\nstdout out %d\n", i, i); events != want {
					t.Errorf("command %d has the events %q", i, events)
				}
			}
			if r.ExitCode != i%3 || string(r.Stdout.Bytes()) != fmt.Sprintf("out %d\n", i) || string(r.Stderr.Bytes()) != fmt.Sprintf("err %d\n", i) {
				t.Errorf("command %d: %+v", i, r)
			}
		})
	}
	all.Wait()
	if most := s.peak(); most > 256<<20 {
		t.Errorf("it had %d MiB", most>>20)
	}
	for _, name := range sessions {
		s.want(http.StatusNoContent, nil, http.MethodDelete, "/v1/sessions/"+name, "")
	}
	eventually(t, "the files and goroutines are as before", func() bool {
		s.client.CloseIdleConnections()
		s.settles()
		return s.descriptors() <= descriptors && s.goroutines() <= goroutines
	})
}

// streams runs a command and follows its events: its output by stream, and its result.
func (s *attacked) streams(request any) (r sandbox.Result, output string) {
	s.t.Helper()
	answer, err := s.send(s.t.Context(), http.MethodPost, "/v1/executions", asJSON(request), "Accept", "text/event-stream")
	if err != nil {
		s.t.Error(err)
		return r, ""
	}
	events, err := newStream(answer)
	if err != nil {
		s.t.Error(err)
		return r, ""
	}
	list, err := events.rest()
	if err != nil {
		s.t.Error(err)
		return r, ""
	}
	by := map[sandbox.EventType]string{}
	for i, e := range list {
		if e.Seq != uint64(i+1) {
			s.t.Errorf("event %d has the number %d", i+1, e.Seq)
		}
		by[e.Type] += string(e.Data)
	}
	return *list[len(list)-1].Result, "stderr " + by[sandbox.EventStderr] + "stdout " + by[sandbox.EventStdout]
}

// settles waits until the pool is full.
func (s *attacked) settles() {
	s.t.Helper()
	eventually(s.t, "the pool is full", func() bool {
		return s.metric(`belljar_pool_containers{profile="default",state="ready"}`) == s.metric(`belljar_pool_containers{profile="default",state="target"}`)
	})
}

func (s *attacked) goroutines() int { return s.metric("go_goroutines") }

// metric is a sample of /metrics.
func (s *attacked) metric(name string) int {
	s.t.Helper()
	_, text := s.ask(http.MethodGet, "/metrics", "")
	_, after, found := strings.Cut(text, "\n"+name+" ")
	if !found {
		s.t.Fatalf("no metric %s", name)
	}
	line, _, _ := strings.Cut(after, "\n")
	value, err := strconv.ParseFloat(line, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return int(value)
}
