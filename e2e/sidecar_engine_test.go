package e2e

import (
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"

	"belljar/sandbox"
)

// A server whose engine is killed says what happened to each command, and goes on once
// there is an engine again.
func TestSidecarWhoseEngineIsKilled(t *testing.T) {
	t.Parallel()
	e := privateEngine(t)
	s := newAttacked(t, watched)
	s.engine = e.Host
	s.configure("listen: unix://" + s.address)
	s.start()
	ids := []string{s.unique + "-waits", s.unique + "-follows", s.unique + "-detached"}
	results := make([]sandbox.Result, len(ids))
	var callers sync.WaitGroup
	for i, id := range ids {
		request := object{"id": id, "command": "echo begun; sleep 1000"}
		callers.Go(func() {
			switch i {
			case 0:
				results[i] = s.runs(request)
			case 1:
				results[i], _ = s.streams(request)
			default:
				s.accepts(request)
			}
		})
	}
	for _, id := range ids {
		eventually(t, id+" began", func() bool {
			_, out := s.ask(http.MethodGet, "/v1/executions/"+id+"/output", "")
			return out == "begun\n"
		})
	}
	e.Signal(t, syscall.SIGKILL)
	callers.Wait()
	results[2] = s.end(ids[2]).Result
	for _, r := range results {
		if r.Cause != sandbox.CauseEngineLost || string(r.Stdout.Bytes()) != "begun\n" || r.Message == "" {
			t.Errorf("%+v", r)
		}
	}
	s.want(http.StatusServiceUnavailable, nil, http.MethodGet, "/readyz", "")
	s.want(http.StatusOK, nil, http.MethodGet, "/healthz", "")
	if status, text := s.ask(http.MethodPost, "/v1/executions", `{"command": "true"}`); status != http.StatusBadGateway && !strings.Contains(text, `"status":"fatal"`) {
		t.Errorf("without an engine: %d, %s", status, text)
	}
	e.Start(t)
	eventually(t, "commands run again", func() bool {
		_, text := s.ask(http.MethodPost, "/v1/executions", `{"command": "echo again"}`)
		return strings.Contains(text, `"stdout":"again\n"`)
	})
	eventually(t, "it is ready again", func() bool {
		status, _ := s.ask(http.MethodGet, "/readyz", "")
		return status == http.StatusOK
	})
}
