package local_test

import (
	"fmt"
	"testing"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/local"
	"belljar/sandbox/sandboxtest"
)

// runningIn is a command that runs in l, once it wrote something.
func runningIn(t *testing.T, l *local.Local) sandbox.Execution {
	t.Helper()
	x, err := l.Start(t.Context(), command())
	if err != nil {
		t.Fatal(err)
	}
	for e := range x.Events() {
		if e.Type == sandbox.EventStdout {
			break
		}
	}
	return x
}

// Another process can end a command, as its caller can.
func TestEndFromOutside(t *testing.T) {
	stays := func(p *sandboxtest.Proc) int {
		fmt.Fprint(p.Stdout, "so far")
		p.Sleep(time.Hour)
		return 0
	}
	l := keeping(t, playing(stays))
	l.Control = true
	x := runningIn(t, l)
	other := otherProcess(l)
	if err := other.End(t.Context(), x.ID(), "SIGNOPE"); sandbox.CauseOf(err) != sandbox.CauseInvalid {
		t.Errorf("an unknown signal: %v", err)
	}
	if err := other.End(t.Context(), x.ID(), ""); err != nil {
		t.Fatal(err)
	}
	r, _ := x.Wait()
	if r.Status != sandbox.StatusCanceled || r.Cause != sandbox.CauseCanceled || string(r.Stdout.Bytes()) != "so far" {
		t.Errorf("%+v", r)
	}
	if err := other.End(t.Context(), x.ID(), ""); sandbox.CauseOf(err) != sandbox.CauseInvalid {
		t.Errorf("once it ended: %v", err)
	}
	if err := other.End(t.Context(), "none", ""); sandbox.CauseOf(err) != sandbox.CauseInvalid {
		t.Errorf("one that is not there: %v", err)
	}

	l.Control = false
	x = runningIn(t, l)
	if err := other.End(t.Context(), x.ID(), ""); sandbox.CauseOf(err) != sandbox.CauseEngine {
		t.Errorf("one that is not to be reached: %v", err)
	}
	x.Kill()
	x.Wait()
}
