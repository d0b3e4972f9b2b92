package httpapi_test

import (
	"strings"
	"testing"

	"belljar/sandbox"
	"belljar/sandbox/sandboxtest"

	"github.com/coder/websocket"
)

// Once a bug: the sidecar did not notice that a client had left while the command did not read
// what that had typed.
func TestTerminalDisconnectWhileStdinIsFull(t *testing.T) {
	s := newSidecar(t, func(p *sandboxtest.Proc) int {
		p.Stdout.Write([]byte("ready"))
		<-p.Killed
		return 137
	})
	of := s.begin(t, fields{"cancel_on_disconnect": true})
	o := s.sit(t, of, &onScreen{})
	o.sees("ready")
	for range 6 { // more than a pipe holds
		o.types(strings.Repeat("x", 60<<10))
	}
	o.Close(websocket.StatusNormalClosure, "")
	var x struct{ Result sandbox.Result }
	s.get(t, "ann", "GET", of+"?wait=60", nil, 200, &x)
	if x.Result.Cause != sandbox.CauseCanceled || !strings.Contains(x.Result.Message, "disconnected") {
		t.Errorf("%s: %s", x.Result.Cause, x.Result.Message)
	}
}

// What a client typed before it left is the command's, also if that reads it later.
func TestTypedBeforeTheClientLeft(t *testing.T) {
	left := make(chan struct{})
	s := newSidecar(t, func(p *sandboxtest.Proc) int {
		<-left
		line := make([]byte, 4)
		for n := 0; n < len(line); {
			m, err := p.Stdin.Read(line[n:])
			if n += m; err != nil {
				return 1
			}
		}
		p.Stdout.Write(line)
		return 0
	})
	of := s.begin(t, nil)
	o := s.sit(t, of, &onScreen{})
	for _, key := range "key\n" {
		o.types(string(key))
	}
	o.Close(websocket.StatusNormalClosure, "")
	close(left)
	var x struct{ Result sandbox.Result }
	s.get(t, "ann", "GET", of+"?wait=60", nil, 200, &x)
	if got := string(x.Result.Stdout.Bytes()); got != "key\r\n" {
		t.Errorf("%q, %s", got, x.Result.Message)
	}
}
