package httpapi_test

import "testing"

// Once a bug: what could not be read was left out, and a variable "A=B" set A.
func TestNothingIsLeftOut(t *testing.T) {
	s := newSidecar(t, hello)
	run := fields{"command": "hello"}
	for _, query := range []string{"?%zz=1", "?wait=0&x=%", "?wait=0;hold=1"} {
		s.get(t, "ann", "POST", "/v1/executions"+query, run, 422, nil)
	}
	s.get(t, "ann", "GET", "/v1/executions?%zz=1", nil, 422, nil)
	s.get(t, "ann", "POST", "/v1/executions", run, 415, nil, "Content-Encoding", "gzip")
	s.get(t, "ann", "POST", "/v1/executions", run, 200, nil, "Content-Encoding", "identity")
	s.get(t, "ann", "POST", "/v1/executions", fields{"command": "hello", "env": fields{"A=B": "c"}}, 422, nil)
}
