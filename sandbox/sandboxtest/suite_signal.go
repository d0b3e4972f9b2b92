package sandboxtest

import (
	"context"
	"testing"
	"time"

	"belljar/sandbox"
)

var signalTests = map[string]func(*testing.T, *fixture){
	"a process acts on a signal": func(t *testing.T, f *fixture) {
		box := f.create(t)
		p := f.exec(t, box, scriptTrap)
		p.stdout.await(f.ctx, "ready\n")
		f.signal(t, box, f.processes(t, box), "SIGUSR1")
		p.stdout.await(f.ctx, "SIGUSR1\n")
		f.signal(t, box, f.processes(t, box), "SIGTERM")
		f.wantStatus(t, p, 5)
		wantText(t, "stdout", p.stdout, "ready\nSIGUSR1\nSIGTERM\n")
	},
	"an untrapped signal ends the process": func(t *testing.T, f *fixture) {
		box := f.create(t)
		for signal, status := range map[sandbox.Signal]int{"SIGHUP": 129, "SIGINT": 130, "SIGUSR2": 140, "SIGTERM": 143, "SIGKILL": 137} {
			p := f.exec(t, box, scriptWaits)
			p.stdout.await(f.ctx, "ready\n")
			f.signal(t, box, f.processes(t, box), signal)
			f.wantStatus(t, p, status)
		}
	},
	"a process that ignores a signal runs on": func(t *testing.T, f *fixture) {
		box := f.create(t)
		p := f.exec(t, box, scriptStubborn)
		p.stdout.await(f.ctx, "ready\n")
		f.signal(t, box, f.processes(t, box), "SIGTERM")
		f.signal(t, box, f.processes(t, box), "SIGKILL")
		f.wantStatus(t, p, 137)
	},
	"a process is stopped and continued": func(t *testing.T, f *fixture) {
		box := f.create(t)
		p := f.exec(t, box, scriptTrap)
		p.stdout.await(f.ctx, "ready\n")
		f.signal(t, box, f.processes(t, box), "SIGSTOP")
		f.waitState(t, box, "T")
		f.signal(t, box, f.processes(t, box), "SIGTERM")
		f.waitState(t, box, "T")
		f.signal(t, box, f.processes(t, box), "SIGCONT")
		f.wantStatus(t, p, 5)
		wantText(t, "stdout", p.stdout, "ready\nSIGTERM\n")
	},
	"a stopped process is killed": func(t *testing.T, f *fixture) {
		box := f.create(t)
		p := f.exec(t, box, scriptStubborn)
		p.stdout.await(f.ctx, "ready\n")
		f.signal(t, box, f.processes(t, box), "SIGSTOP")
		f.waitState(t, box, "T")
		f.signal(t, box, f.processes(t, box), "SIGKILL")
		f.wantStatus(t, p, 137)
	},
	"an unknown signal is refused": func(t *testing.T, f *fixture) {
		box := f.create(t)
		p := f.exec(t, box, scriptStubborn)
		p.stdout.await(f.ctx, "ready\n")
		for _, signal := range []sandbox.Signal{"", "TERM", "SIGNONE", "15; reboot"} {
			wantError(t, box.Signal(f.ctx, f.processes(t, box), signal), sandbox.CauseInvalid)
		}
	},
}

func (f *fixture) signal(t *testing.T, box sandbox.Container, list []sandbox.Process, signal sandbox.Signal) {
	t.Helper()
	ctx, cancel := context.WithTimeout(f.ctx, patience)
	defer cancel()
	if err := box.Signal(ctx, list, signal); err != nil {
		t.Errorf("Signal: %v", err)
	}
}

func (f *fixture) wantStatus(t *testing.T, p *process, want int) {
	t.Helper()
	if status, err := p.Wait(f.ctx); status != want || err != nil {
		t.Errorf("status %d, error %v, want %d", status, err, want)
	}
}

// waitState waits until all processes are in that state.
func (f *fixture) waitState(t *testing.T, box sandbox.Container, state string) {
	t.Helper()
	for {
		all := true
		for _, p := range f.processes(t, box) {
			all = all && p.State == state
		}
		if all {
			return
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-f.ctx.Done():
			t.Fatalf("not all are in state %s: %+v", state, f.processes(t, box))
		}
	}
}
