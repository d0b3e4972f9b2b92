package e2e

import (
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"

	"belljar/sandbox"
)

// A server that is stopped lets commands finish, cancels those that do not, and answers
// all who wait.
func TestSidecarDrains(t *testing.T) {
	t.Parallel()
	s := besiegeOne(t, watched, ", drain_timeout: 30s", "max_running: 4", "pool: {min: 0, max: 0}", "queue: {length: 4, wait: 5m}")
	s.drains(true, syscall.SIGTERM)
}

// A second signal is the end of waiting.
func TestSidecarDrainsAtOnce(t *testing.T) {
	t.Parallel()
	s := besiegeOne(t, watched, ", drain_timeout: 10m", "max_running: 4", "pool: {min: 0, max: 0}", "queue: {length: 4, wait: 5m}")
	s.drains(false, syscall.SIGINT, syscall.SIGTERM)
}

// drains stops the server with those signals, while commands run and one waits for its
// turn. One of them gets what it waits for if finishes is set.
func (s *attacked) drains(finishes bool, signals ...syscall.Signal) {
	t := s.t
	t.Helper()
	id := func(name string) string { return s.unique + "-" + name }
	session := s.sessionName()
	requests := map[string]object{
		"finishes": {"command": "echo begun; cat", "stdin_open": true},
		"waits":    {"command": "echo begun; sleep 1000"},
		"follows":  {"command": "echo begun; sleep 1000"},
		"detached": {"command": "echo kept >f; echo begun; sleep 1000", "session": session},
	}
	results := map[string]sandbox.Result{}
	var mu sync.Mutex
	var callers sync.WaitGroup
	for name, request := range requests {
		request["id"] = id(name)
		callers.Go(func() {
			var r sandbox.Result
			switch name {
			case "follows":
				r, _ = s.streams(request)
			case "detached":
				s.accepts(request)
				return
			default:
				r = s.runs(request)
			}
			mu.Lock()
			defer mu.Unlock()
			results[name] = r
		})
	}
	for name := range requests {
		eventually(t, name+" began", func() bool {
			_, out := s.ask(http.MethodGet, "/v1/executions/"+id(name)+"/output", "")
			return strings.HasPrefix(out, "begun\n")
		})
	}
	queued := s.accepts(object{"command": "sleep 1000"})
	s.cmd.Process.Signal(signals[0])
	eventually(t, "it is not ready", func() bool {
		status, _ := s.ask(http.MethodGet, "/readyz", "")
		return status == http.StatusServiceUnavailable
	})
	if status, text := s.ask(http.MethodPost, "/v1/executions", `{"command": "true"}`); status != http.StatusServiceUnavailable || !strings.Contains(text, "shutting down") {
		t.Errorf("a new command: %d, %s", status, text)
	}
	s.want(http.StatusOK, nil, http.MethodGet, "/healthz", "")
	if finishes {
		s.want(http.StatusOK, nil, http.MethodPost, "/v1/executions/"+id("finishes")+"/stdin?eof=1", "finished\n")
	}
	for _, signal := range signals[1:] {
		s.cmd.Process.Signal(signal)
	}
	callers.Wait()
	s.stop(0)
	s.start()
	for name := range requests {
		kept := s.end(id(name)).Result
		if r, waited := results[name]; waited && (r.Cause != kept.Cause || r.Message != kept.Message) {
			t.Errorf("%s: its caller has %+v, what is kept is %+v", name, r, kept)
		}
		if name == "finishes" && finishes {
			if kept.Cause != sandbox.CauseExited || string(kept.Stdout.Bytes()) != "begun\nfinished\n" {
				t.Errorf("%s: %+v", name, kept)
			}
			continue
		}
		if kept.Cause != sandbox.CauseCanceled || !strings.Contains(kept.Message, "the sidecar is shutting down") || string(kept.Stdout.Bytes()) != "begun\n" {
			t.Errorf("%s: %+v", name, kept)
		}
	}
	if r := s.runs(object{"command": "cat f", "session": session}); string(r.Stdout.Bytes()) != "kept\n" || r.SessionLost != "" {
		t.Errorf("the session of what was canceled: %+v", r)
	}
	if r := s.end(queued).Result; r.Cause != sandbox.CauseCanceled || !strings.Contains(r.Message, "the sidecar is shutting down") {
		t.Errorf("what waited for its turn: %+v", r)
	}
}
