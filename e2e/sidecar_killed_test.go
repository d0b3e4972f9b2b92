package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"belljar/sandbox"
)

// victim is an execution whose server is killed.
type victim struct {
	id, key string
	request object
	seen    []sandbox.Event // by a client that followed it
	follows chan struct{}   // closed once that has two events
}

// text is the output in events.
func text(list []sandbox.Event, of sandbox.EventType) string {
	var b strings.Builder
	for _, e := range list {
		if e.Type == of {
			b.Write(e.Data)
		}
	}
	return b.String()
}

// A server that is killed with 20 commands running leaves only sessions; the next one
// knows all of its executions, keys and events.
func TestSidecarKilled(t *testing.T) {
	t.Parallel()
	s := besiegeOne(t, watched, "", "pool: {min: 0, max: 0}")
	const steps = "for i in 1 2 3 4 5; do echo $i; echo e$i >&2; sleep 0.02; done; "
	ended := &victim{key: "ended", request: object{"command": steps + "exit 3"}}
	before := s.runs(ended.request, "Idempotency-Key", ended.key)
	ended.id = before.ID
	running := []*victim{{key: "flood", follows: make(chan struct{}), request: object{"command": "i=0; while :; do echo $i; i=$((i+1)); done", "limits": object{"output_bytes": 1 << 30}}}}
	for i := range 19 {
		v := &victim{key: strconv.Itoa(i), follows: make(chan struct{}), request: object{"id": fmt.Sprintf("%s-%d", s.unique, i), "command": steps + "sleep 1000"}}
		if i < 3 {
			v.request["session"] = s.sessionName()
		}
		running = append(running, v)
	}
	var callers sync.WaitGroup
	for i, v := range running {
		callers.Go(func() { s.attend(v, i) })
	}
	for _, v := range running[1:] {
		eventually(t, "the output is there", func() bool {
			_, out := s.ask(http.MethodGet, "/v1/executions/"+v.request["id"].(string)+"/output", "")
			return out == "1\n2\n3\n4\n5\n"
		})
	}
	<-running[0].follows
	s.stop(syscall.SIGKILL)
	callers.Wait()
	s.start()

	var sessions struct{ Sessions []sandbox.SessionInfo }
	s.want(http.StatusOK, &sessions, http.MethodGet, "/v1/sessions", "")
	var list struct{ Executions []struct{ ID string } }
	s.want(http.StatusOK, &list, http.MethodGet, "/v1/executions", "")
	if len(sessions.Sessions) != 3 || len(list.Executions) != 21 {
		t.Errorf("%d sessions, %d executions", len(sessions.Sessions), len(list.Executions))
	}
	if x := s.end(ended.id); x.Result.ExitCode != 3 || x.Result.Stdout.SHA256 != before.Stdout.SHA256 {
		t.Errorf("what had ended: %+v", x)
	}
	for i, v := range running {
		if i > 0 {
			v.id = v.request["id"].(string)
		}
		x := s.end(v.id)
		if x.Result.Cause != sandbox.CauseEngineLost || i > 0 && string(x.Result.Stdout.Bytes()) != "1\n2\n3\n4\n5\n" {
			t.Errorf("%s: %+v", v.id, x)
		}
		again := s.runs(v.request, "Idempotency-Key", v.key)
		s.want(http.StatusConflict, nil, http.MethodPost, "/v1/executions", `{"command": "true"}`, "Idempotency-Key", v.key)
		if again.ID != v.id || again.Cause != sandbox.CauseEngineLost {
			t.Errorf("the key of %s: %+v", v.id, again)
		}
	}
	for _, v := range append([]*victim{ended}, running[0], running[1], running[4], running[18]) {
		s.resumes(v)
	}
	for _, i := range sessions.Sessions {
		if r := s.runs(object{"command": "echo on", "session": i.Name}); string(r.Stdout.Bytes()) != "on\n" {
			t.Errorf("the session afterwards: %+v", r)
		}
		s.want(http.StatusNoContent, nil, http.MethodDelete, "/v1/sessions/"+i.Name, "")
	}
}

// attend waits for the execution in one of several ways, until the server dies.
func (s *attacked) attend(v *victim, way int) {
	key := []string{"Idempotency-Key", v.key}
	switch way % 4 {
	case 0: // follows the events
		answer, err := s.send(s.t.Context(), http.MethodPost, "/v1/executions", asJSON(v.request), append(key, "Accept", "text/event-stream")...)
		if err != nil {
			s.t.Error(err)
			return
		}
		v.id = strings.TrimPrefix(answer.Header.Get("Location"), "/v1/executions/")
		events, err := newStream(answer)
		for err == nil {
			var e sandbox.Event
			if e, err = events.next(); err != nil {
				break
			}
			if v.seen = append(v.seen, e); len(v.seen) == 2 {
				close(v.follows)
			}
			if e.Result != nil {
				s.t.Errorf("%s has a result", v.id)
			}
		}
		answer.Body.Close()
	case 1: // waits for the result
		if status, text := s.ask(http.MethodPost, "/v1/executions", asJSON(v.request), key...); status != 0 {
			s.t.Errorf("%s: %d, %s", v.key, status, text)
		}
	default:
		v.id = s.accepts(v.request, key...)
	}
}

// resumes checks that a client that has any number of events gets the others, and that
// they are the output that is kept.
func (s *attacked) resumes(v *victim) {
	s.t.Helper()
	_, stdout := s.ask(http.MethodGet, "/v1/executions/"+v.id+"/output", "")
	_, stderr := s.ask(http.MethodGet, "/v1/executions/"+v.id+"/output?stream=stderr", "")
	events, err := s.follow(v.id, 0)
	if err != nil {
		s.t.Error(err)
		return
	}
	all, err := events.rest()
	if err != nil || text(all, sandbox.EventStdout) != stdout || text(all, sandbox.EventStderr) != stderr {
		s.t.Errorf("%s: the events have %d bytes of %d, %v", v.id, len(text(all, sandbox.EventStdout)), len(stdout), err)
	}
	for i, e := range v.seen {
		if i >= len(all) || e.Seq != all[i].Seq || e.Type != all[i].Type || string(e.Data) != string(all[i].Data) {
			s.t.Errorf("%s: event %d is another now", v.id, i+1)
			break
		}
	}
	step := max(1, len(all)/10)
	for after := 0; after <= len(all); after += step {
		if after == len(all) {
			s.want(http.StatusNoContent, nil, http.MethodGet, fmt.Sprintf("/v1/executions/%s/events?after=%d", v.id, after), "")
			continue
		}
		events, err := s.follow(v.id, uint64(after))
		if err != nil {
			s.t.Error(err)
			return
		}
		rest, err := events.rest()
		same := slices.EqualFunc(rest, all[after:], func(a, b sandbox.Event) bool {
			return a.Seq == b.Seq && a.Type == b.Type && string(a.Data) == string(b.Data)
		})
		if err != nil || !same {
			s.t.Errorf("%s: after %d of %d there are %d events, %v", v.id, after, len(all), len(rest), err)
		}
	}
}
