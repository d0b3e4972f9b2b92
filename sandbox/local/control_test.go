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

// A request to end a command can be repeated: only Kill cuts its grace short.
func TestKillFromOutside(t *testing.T) {
	termed := make(chan struct{})
	l := keeping(t, playing(func(p *sandboxtest.Proc) int {
		term := p.Trap("SIGTERM")
		fmt.Fprint(p.Stdout, "ready")
		<-term
		close(termed)
		<-p.Killed
		return 137
	}))
	l.Control = true
	c := command()
	c.StopGrace = time.Minute
	x, err := l.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for e := range x.Events() {
		if e.Type == sandbox.EventStdout {
			break
		}
	}
	other := otherProcess(l)
	for i := range 3 {
		if err := other.End(t.Context(), x.ID(), ""); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			<-termed
		}
	}
	if info, err := other.LogInfo(t.Context(), x.ID()); err != nil || !info.Running {
		t.Errorf("repeated requests ended it: %+v, %v", info, err)
	}
	if err := other.Kill(t.Context(), x.ID()); err != nil {
		t.Fatal(err)
	}
	if r, _ := x.Wait(); r.Cause != sandbox.CauseCanceled || r.Evidence.StoppedBy != "SIGKILL" {
		t.Errorf("%s, %+v", r.Cause, r.Evidence)
	}
}
