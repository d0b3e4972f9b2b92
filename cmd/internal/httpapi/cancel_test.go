package httpapi_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/sandboxtest"
)

// Once a bug: a request to cancel that is sent again, as after a cut line, made a
// graceful end a kill.
func TestCancelIsRepeatable(t *testing.T) {
	for _, test := range []struct {
		query string
		code  int
		by    sandbox.Signal
	}{{"", 7, "SIGTERM"}, {"?kill=1", sandbox.ExitEnded, "SIGKILL"}} {
		ready, asked, again := make(chan struct{}), make(chan struct{}), make(chan struct{})
		s := newSidecar(t, func(p *sandboxtest.Proc) int {
			term := p.Trap("SIGTERM")
			close(ready)
			<-term
			close(asked)
			select {
			case <-again:
				return 7
			case <-p.Killed:
				return 137
			}
		})
		s.get(t, "ann", "POST", "/v1/executions?wait=0", fields{"command": "wait", "id": "x", "stop_grace_seconds": 60}, 202, nil)
		<-ready
		s.get(t, "ann", "DELETE", "/v1/executions/x", nil, 202, nil)
		<-asked
		for range 3 {
			s.get(t, "ann", "DELETE", "/v1/executions/x"+test.query, nil, 202, nil)
		}
		if test.query == "" {
			close(again)
		}
		var x known
		s.get(t, "ann", "GET", "/v1/executions/x?wait=60", nil, 200, &x)
		if x.Cause != "canceled" || x.Result == nil || x.Result.Evidence.StoppedBy != test.by {
			t.Errorf("%s: %+v: %+v", test.query, x, x.Result)
		}
	}
}

// A large request's room is there for others once its command has ended, however that was.
func TestLargeRequestsMakeRoom(t *testing.T) {
	s := newSidecar(t, hello)
	run := fields{"command": "hello", "stdin": strings.Repeat("x", 1<<20-200)}
	for i := range 2 {
		s.get(t, "ann", "POST", "/v1/executions", run, 200, nil)
		for range 2 {
			s.get(t, "ann", "POST", "/v1/executions", run, 200, nil, "Idempotency-Key", strconv.Itoa(i))
		}
		s.get(t, "ann", "POST", "/v1/executions", fields{"command": "hello", "stdin": run["stdin"], "dir": "../.."}, 422, nil)
		s.get(t, "ann", "POST", "/v1/executions", fields{"command": "hello", "stdin": run["stdin"], "profile": "other"}, 403, nil)
		s.get(t, "ann", "POST", "/v1/executions", fields{"command": 7, "stdin": run["stdin"]}, 422, nil)
		held := s.do(t, "ann", "POST", "/v1/executions?hold=1", fields{"command": "hello", "id": "x", "stdin": run["stdin"]})
		held.Body.Close()
		for s.do(t, "ann", "GET", "/v1/executions/x", nil).StatusCode != http.StatusNotFound { // until it is forgotten
			time.Sleep(time.Millisecond)
		}
	}
	s.get(t, "ann", "POST", "/v1/executions", run, 200, nil)
}
