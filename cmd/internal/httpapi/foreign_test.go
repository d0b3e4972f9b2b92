package httpapi_test

import (
	"bufio"
	"net/http"
	"testing"

	"belljar/sandbox"
	"belljar/sandbox/sandboxtest"
)

// A session that was made without the server, as by belljar run --session, is no token's: the
// first one that names it does not get it.
func TestSessionsOfNoToken(t *testing.T) {
	s := newSidecar(t, func(*sandboxtest.Proc) int { return 0 })
	x, err := s.l.Start(t.Context(), sandbox.Command{Script: "hello", Session: "mine"})
	if err != nil {
		t.Fatal(err)
	}
	for range x.Events() {
	}
	s.get(t, "ann", "POST", "/v1/executions", fields{"command": "hello", "session": "mine"}, 409, nil)
	s.get(t, "ann", "POST", "/v1/sessions", fields{"name": "mine"}, 409, nil)
	s.get(t, "ann", "GET", "/v1/sessions/mine/files/", nil, 404, nil)
	s.get(t, "ann", "DELETE", "/v1/sessions/mine", nil, 404, nil)
	s.get(t, "", "POST", "/v1/executions", fields{"command": "hello", "session": "mine"}, 200, nil)
	s.get(t, "", "DELETE", "/v1/sessions/mine", nil, 204, nil)
}

// A held command's session is not given to another token before the command begins: it
// would run in that one's session.
func TestHeldSession(t *testing.T) {
	s := newSidecar(t, hello)
	held := s.do(t, "ann", "POST", "/v1/executions?hold=1", fields{"command": "hello", "id": "later", "session": "dev"})
	if held.StatusCode != http.StatusOK {
		t.Fatal(held.StatusCode)
	}
	s.get(t, "ben", "POST", "/v1/sessions", fields{"name": "dev"}, 409, nil)
	s.get(t, "ann", "POST", "/v1/executions/later/start", nil, 204, nil)
	if line, err := bufio.NewReader(held.Body).ReadString('\n'); err != nil {
		t.Errorf("%q, %v", line, err)
	}
	s.get(t, "ben", "POST", "/v1/sessions", fields{"name": "dev"}, 409, nil)
}

// While a person reads a question, no other command takes its ID: it would get the answer.
func TestAnswersAreForOneCommand(t *testing.T) {
	s := newSidecar(t, hello)
	answered := make(chan int)
	ask := func(script string) {
		answered <- s.do(t, "ann", "POST", "/v1/executions?hold=1", fields{"command": script, "id": "q"}).StatusCode
	}
	go ask("echo asked")
	var list struct {
		Approvals []struct{ ID, Command string }
	}
	for len(list.Approvals) == 0 {
		s.get(t, "judge", "GET", "/v1/approvals", nil, 200, &list)
	}
	for _, path := range []string{"/v1/executions?hold=1", "/v1/executions"} {
		s.get(t, "ben", "POST", path, fields{"command": "echo asked; echo more", "id": "q"}, 409, nil)
	}
	s.get(t, "judge", "GET", "/v1/approvals", nil, 200, &list)
	if len(list.Approvals) != 1 || list.Approvals[0].Command != "echo asked" {
		t.Errorf("%+v", list)
	}
	s.answers(t, "q", "deny")
	if status := <-answered; status != 403 {
		t.Errorf("%d", status)
	}
}
