package sandboxtest

import (
	"io"
	"testing"
	"time"

	"belljar/sandbox"
)

func (c *command) signal(t *testing.T, r *runner, s sandbox.Signal) {
	t.Helper()
	if err := c.Signal(r.ctx, s); err != nil {
		t.Errorf("Signal: %v", err)
	}
}

var runnerSignalTests = map[string]func(*testing.T, *opener){
	"a signal reaches the command": func(t *testing.T, o *opener) {
		r := o.runner(t)
		x := r.start(t, scriptTrap)
		x.await(t, "ready")
		x.signal(t, r, "SIGUSR1")
		x.await(t, "SIGUSR1")
		x.signal(t, r, "SIGTERM")
		result := x.wait(t)
		wantFate(t, result, sandbox.StatusError, sandbox.CauseExited, 5)
		wantOutput(t, "stdout", result.Stdout, "ready\nSIGUSR1\nSIGTERM\n")
	},
	"a touch restarts the idle timer": func(t *testing.T, o *opener) {
		x := o.runner(t).start(t, scriptLate, func(c *sandbox.Command) { c.IdleTimeout = 2 * time.Second })
		ended, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			for !isClosed(ended) {
				x.Touch()
				time.Sleep(50 * time.Millisecond)
			}
		}()
		wantFate(t, x.wait(t), sandbox.StatusSuccess, sandbox.CauseExited, 0)
		close(ended)
		<-done
	},
	"stdin counts where it is asked to": func(t *testing.T, o *opener) {
		in, typed := io.Pipe()
		x := o.runner(t).start(t, scriptMute, stdinFrom(in), func(c *sandbox.Command) { c.IdleTimeout, c.Idle.Stdin = 2*time.Second, true })
		x.awaitStart(t)
		for range 8 {
			io.WriteString(typed, "x")
			time.Sleep(500 * time.Millisecond)
		}
		typed.Close()
		wantFate(t, x.wait(t), sandbox.StatusSuccess, sandbox.CauseExited, 0)
	},
	"the result names the signal that ended the command": func(t *testing.T, o *opener) {
		r := o.runner(t)
		x := r.start(t, scriptWaits)
		x.await(t, "ready")
		x.signal(t, r, "SIGINT")
		result := x.wait(t)
		if wantFate(t, result, sandbox.StatusError, sandbox.CauseSignaled, 130); result.Signal != "SIGINT" || result.Evidence.KilledBy != "" {
			t.Errorf("signal %q, killed by %q", result.Signal, result.Evidence.KilledBy)
		}
	},
	"an unknown signal is refused": func(t *testing.T, o *opener) {
		r := o.runner(t)
		x := r.start(t, scriptWaits)
		x.await(t, "ready")
		for _, s := range []sandbox.Signal{"", "TERM", "sigterm", "15", "SIGSEGV", "SIGRTMIN"} {
			wantRefusal(t, string(s), x.Signal(r.ctx, s), sandbox.CauseInvalid)
		}
		x.Kill()
		wantCanceled(t, x)
	},
	"an ended command gets no signal": func(t *testing.T, o *opener) {
		r := o.runner(t)
		x := r.start(t, scriptMarker)
		x.wait(t)
		wantRefusal(t, "error", x.Signal(r.ctx, "SIGTERM"), sandbox.CauseInvalid)
	},
	"a queued command gets no signal": func(t *testing.T, o *opener) {
		r := o.runner(t, func(b *Behind) { b.Admission.MaxRunning = 1 })
		first := r.start(t, scriptWaits)
		first.await(t, "ready")
		second := r.start(t, scriptWaits)
		wantRefusal(t, "error", second.Signal(r.ctx, "SIGTERM"), sandbox.CauseInvalid)
		second.cancel()
		second.wait(t)
		first.cancel()
		wantCanceled(t, first)
	},
	"a signal goes to one command of its session": func(t *testing.T, o *opener) {
		r := o.runner(t)
		parallel := func(c *sandbox.Command) { c.Session, c.Parallel = "dev", true }
		first, second := r.start(t, scriptTrap, parallel), r.start(t, scriptTrap, parallel)
		first.await(t, "ready")
		second.await(t, "ready")
		first.signal(t, r, "SIGTERM")
		wantFate(t, first.wait(t), sandbox.StatusError, sandbox.CauseExited, 5)
		second.signal(t, r, "SIGUSR1")
		second.await(t, "SIGUSR1")
		second.signal(t, r, "SIGTERM")
		wantOutput(t, "stdout", second.wait(t).Stdout, "ready\nSIGUSR1\nSIGTERM\n")
		r.remove(t, "dev")
	},
}
