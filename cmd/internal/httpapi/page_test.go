package httpapi_test

import (
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"belljar/sandbox"
	"belljar/sandbox/sandboxtest"
)

// The page asks what it may do, and how much runs.
func TestWhoAndLoad(t *testing.T) {
	w := newWaiting()
	s := newSidecar(t, w.play)
	type identity struct {
		Name             string
		Scopes, Profiles []string
	}
	for caller, want := range map[string]identity{
		"ann":    {"ann", []string{"run"}, []string{"default"}},
		"judge":  {"judge", []string{"approve"}, []string{}},
		"nobody": {"", []string{}, []string{}},
	} {
		var got identity
		if s.get(t, caller, "GET", "/v1/whoami", nil, 200, &got); !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %+v", caller, got)
		}
	}
	var load struct{ Running, Waiting, Asking *int }
	s.get(t, "ann", "GET", "/v1/load", nil, 403, nil)
	s.get(t, "ann", "POST", "/v1/executions?wait=0", fields{"command": "wait"}, 202, nil)
	<-w.begun
	if s.get(t, "", "GET", "/v1/load", nil, 200, &load); load.Running == nil || *load.Running != 1 || load.Waiting == nil || *load.Waiting != 0 || load.Asking == nil {
		t.Errorf("%+v", load)
	}
	close(w.end)
}

// A running execution says how much it wrote; an ended one can be had without its output.
func TestWritten(t *testing.T) {
	s := newSidecar(t, func(p *sandboxtest.Proc) int {
		io.WriteString(p.Stdout, "12345")
		io.WriteString(p.Stderr, "678")
		<-p.Killed
		return 137
	})
	var accepted struct{ ID string }
	s.get(t, "ann", "POST", "/v1/executions?wait=0", fields{"command": "write"}, 202, &accepted)
	of := "/v1/executions/" + accepted.ID
	events := s.do(t, "ann", "GET", of+"/events", nil)
	if _, err := io.ReadAtLeast(events.Body, make([]byte, 4096), 1); err != nil {
		t.Fatal(err)
	}
	var x struct {
		Written int64 `json:"output_bytes"`
		Result  *sandbox.Result
	}
	for x.Written != 8 { // the events come one by one
		s.get(t, "ann", "GET", of, nil, 200, &x)
	}
	s.get(t, "ann", "DELETE", of, nil, 202, nil)
	s.get(t, "ann", "GET", of+"?wait=60", nil, 200, nil)
	text, err := io.ReadAll(s.do(t, "ann", "GET", of+"?streams=none", nil).Body)
	if err != nil || strings.Contains(string(text), "12345") || !strings.Contains(string(text), `"bytes_total":8`) || !strings.Contains(string(text), `"cause":"canceled"`) {
		t.Errorf("%v: %s", err, text)
	}
	s.get(t, "ann", "GET", of+"?streams=some", nil, http.StatusUnprocessableEntity, nil)
}
