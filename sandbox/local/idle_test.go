package local_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/sandboxtest"
)

// typing sends a byte every second, n times, and then nothing more until it is closed.
func typing(n int) (io.Reader, func()) {
	r, w := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range n {
			time.Sleep(time.Second)
			if _, err := io.WriteString(w, "x"); err != nil {
				return // it is closed
			}
		}
	}()
	return r, func() { w.Close(); <-done }
}

func TestStdinIsActivity(t *testing.T) {
	for counts, want := range map[bool]time.Duration{true: 20*time.Second + 3*time.Second/2, false: 3 * time.Second / 2} {
		synctest.Test(t, func(t *testing.T) {
			began, c := time.Now(), command()
			stdin, stop := typing(20)
			defer stop()
			c.Stdin, c.IdleTimeout, c.Idle.Stdin = stdin, 3*time.Second/2, counts
			r := run(t, playing(func(p *sandboxtest.Proc) int {
				io.Copy(io.Discard, p.Stdin)
				return 0
			}), c)
			wantFate(t, r, sandbox.StatusTimeout, sandbox.CauseIdleTimeout, sandbox.ExitEnded)
			wantAfter(t, began, want)
			if !strings.Contains(r.Message, "the command waits for input on stdin; partial") {
				t.Errorf("message %q", r.Message)
			}
		})
	}
}

// The reader of a command's events that pauses holds the command: what is typed meanwhile
// must not start its idle timer.
func TestStdinWhileTheReaderPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := command()
		stdin, stop := typing(5)
		defer stop()
		c.Stdin, c.IdleTimeout, c.Timeout, c.Idle.Stdin = stdin, 10*time.Second, 10*time.Hour, true
		x := begin(t, playing(func(p *sandboxtest.Proc) int {
			for range 500 {
				fmt.Fprint(p.Stdout, ".")
			}
			return 7
		}), c)
		time.Sleep(time.Hour)
		r, _ := x.Wait()
		wantFate(t, r, sandbox.StatusError, sandbox.CauseExited, 7)
	})
}

func TestTouch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, c := time.Now(), command()
		c.IdleTimeout = 50 * time.Millisecond
		x := begin(t, playing(sleep(time.Hour)), c)
		for range 10 {
			x.Touch()
			time.Sleep(40 * time.Millisecond)
		}
		r, _ := x.Wait()
		wantFate(t, r, sandbox.StatusTimeout, sandbox.CauseIdleTimeout, sandbox.ExitEnded)
		wantAfter(t, began, 9*40*time.Millisecond+50*time.Millisecond)
		if want := "no output for 50ms (idle timeout); partial output kept"; r.Message != want {
			t.Errorf("message %q", r.Message)
		}
		x.Touch() // which now does nothing
	})
}

// A command that works in silence is not idle, where that is asked for; one that waits is.
func TestWorkIsActivity(t *testing.T) {
	works := func(cpu float64, bytes int64) func(p *sandboxtest.Proc) int {
		return func(p *sandboxtest.Proc) int {
			for range 600 { // a minute
				p.Sleep(100 * time.Millisecond)
				p.Count(func(c *sandbox.Counters) { c.CPUSeconds += cpu; c.IOBytes += bytes })
			}
			p.Sleep(time.Hour)
			return 0
		}
	}
	for name, test := range map[string]struct {
		idle    sandbox.Idle
		play    func(p *sandboxtest.Proc) int
		least   time.Duration
		message string
	}{
		"busy, not asked":    {sandbox.Idle{}, works(0.1, 1<<20), 8 * time.Second, "no output for 8s (idle timeout)"},
		"busy":               {sandbox.Idle{CPU: true}, works(0.1, 0), 68 * time.Second, "no output or CPU use for 8s (idle timeout)"},
		"waits in a loop":    {sandbox.Idle{CPU: true, IO: true}, works(0.002, 10), 8 * time.Second, "no output, CPU use or I/O for 8s (idle timeout)"},
		"downloads":          {sandbox.Idle{CPU: true, IO: true}, works(0.001, 64<<10), 68 * time.Second, "no output, CPU use or I/O for 8s (idle timeout)"},
		"I/O, CPU asked for": {sandbox.Idle{CPU: true}, works(0.001, 64<<10), 8 * time.Second, "no output or CPU use for 8s (idle timeout)"},
		"all":                {sandbox.Idle{Stdin: true, CPU: true, IO: true}, works(0, 0), 8 * time.Second, "no output, stdin, CPU use or I/O for 8s (idle timeout)"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, c := time.Now(), command()
				c.IdleTimeout, c.Timeout, c.Idle = 8*time.Second, 10*time.Minute, test.idle
				r := run(t, playing(test.play), c)
				wantFate(t, r, sandbox.StatusTimeout, sandbox.CauseIdleTimeout, sandbox.ExitEnded)
				// It may be noticed up to an eighth later.
				if took := time.Since(began); took < test.least || took > test.least+2*time.Second {
					t.Errorf("after %v, want %v", took, test.least)
				}
				if !strings.HasPrefix(r.Message, test.message+";") {
					t.Errorf("message %q, want %q", r.Message, test.message)
				}
			})
		})
	}
}

// An engine that does not answer does not hold the command's end, nor its idle timeout.
func TestWorkThatCannotBeCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, c := time.Now(), command()
		c.IdleTimeout, c.Idle = 8*time.Second, sandbox.Idle{CPU: true}
		engine := playing(sleep(time.Hour))
		engine.OnCounters = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		r := run(t, engine, c)
		wantFate(t, r, sandbox.StatusTimeout, sandbox.CauseIdleTimeout, sandbox.ExitEnded)
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("after %v", took)
		}
	})
}

// The profile's activity counts for all its commands.
func TestIdleOfTheProfile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, c := playing(func(p *sandboxtest.Proc) int {
			for range 60 {
				p.Sleep(time.Second)
				p.Count(func(c *sandbox.Counters) { c.CPUSeconds++ })
			}
			return 0
		}), command()
		l := newLocal(engine)
		p := l.Profiles["default"]
		p.Idle, c.IdleTimeout = sandbox.Idle{CPU: true}, 10*time.Second
		l.Profiles["default"] = p
		r, err := sandbox.Run(t.Context(), l, c)
		if err != nil {
			t.Error(err)
		}
		wantFate(t, r, sandbox.StatusSuccess, sandbox.CauseExited, 0)
	})
}
