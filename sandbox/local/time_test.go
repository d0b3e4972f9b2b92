package local_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/sandboxtest"
)

func TestIdleTimeoutAfterSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, c := time.Now(), command()
		c.IdleTimeout = 30 * time.Second
		r := run(t, playing(sleep(time.Hour)), c)
		wantFate(t, r, sandbox.StatusTimeout, sandbox.CauseIdleTimeout, sandbox.ExitEnded)
		wantAfter(t, began, 30*time.Second)
		if r.Message != "no output for 30s (idle timeout); partial output kept" || r.Evidence.KilledBy != "belljar" {
			t.Errorf("message %q, killed by %q", r.Message, r.Evidence.KilledBy)
		}
		if len(r.Lingering) != 1 || r.Lingering[0].Command != "sh -c the script" {
			t.Errorf("lingering: %+v", r.Lingering)
		}
		if r.Timing.FirstOutput != 0 || r.Timing.Total != 30*time.Second {
			t.Errorf("timing: %+v", r.Timing)
		}
	})
}

// Every chunk is a sign of life: of a single byte, and on either stream.
func TestIdleTimeoutIsResetByOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, c := time.Now(), command()
		c.IdleTimeout = 30 * time.Second
		r := run(t, playing(func(p *sandboxtest.Proc) int {
			p.Sleep(29 * time.Second)
			fmt.Fprint(p.Stdout, ".")
			p.Sleep(29 * time.Second)
			fmt.Fprint(p.Stderr, "!")
			p.Sleep(time.Hour)
			return 0
		}), c)
		wantFate(t, r, sandbox.StatusTimeout, sandbox.CauseIdleTimeout, sandbox.ExitEnded)
		wantAfter(t, began, (29+29+30)*time.Second)
		wantStream(t, "stdout", r.Stdout, ".")
		wantStream(t, "stderr", r.Stderr, "!")
		if r.Timing.FirstOutput != 29*time.Second {
			t.Errorf("first output after %v", r.Timing.FirstOutput)
		}
	})
}

func TestTalkativeCommandIsNotIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := command()
		c.IdleTimeout, c.Timeout = time.Second, 2*time.Hour
		r := run(t, playing(func(p *sandboxtest.Proc) int {
			for range 3600 {
				p.Sleep(time.Second - 1)
				fmt.Fprint(p.Stderr, ".")
			}
			return 0
		}), c)
		wantFate(t, r, sandbox.StatusSuccess, sandbox.CauseExited, 0)
	})
}

// A byte just under the idle limit, for ever: the wall timeout ends that.
func TestWallTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, c := time.Now(), command()
		c.IdleTimeout, c.Timeout = 10*time.Second, time.Minute
		r := run(t, playing(func(p *sandboxtest.Proc) int {
			for {
				p.Sleep(9 * time.Second)
				fmt.Fprint(p.Stdout, ".")
			}
		}), c)
		wantFate(t, r, sandbox.StatusTimeout, sandbox.CauseWallTimeout, sandbox.ExitEnded)
		wantAfter(t, began, time.Minute)
		wantStream(t, "stdout", r.Stdout, "......")
	})
}

func TestNoIdleTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := command()
		c.IdleTimeout, c.Timeout = sandbox.NoIdleTimeout, 24*time.Hour
		r := run(t, playing(sleep(23*time.Hour)), c)
		wantFate(t, r, sandbox.StatusSuccess, sandbox.CauseExited, 0)
	})
}

// The time to find the image and to make the container is not the command's.
func TestClocksStartWithTheCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := playing(sleep(9 * time.Second))
		engine.OnCreate = func(context.Context) error { time.Sleep(8 * time.Second); return nil }
		runner := newLocal(engine)
		runner.Images = &sandboxtest.Images{OnResolve: func(context.Context) error { time.Sleep(time.Hour); return nil }}
		c := command()
		c.IdleTimeout, c.Timeout = 10*time.Second, 10*time.Second
		r, err := sandbox.Run(t.Context(), runner, c)
		if err != nil {
			t.Error(err)
		}
		wantFate(t, r, sandbox.StatusSuccess, sandbox.CauseExited, 0)
		want := sandbox.Timing{Queued: time.Hour, Start: 8 * time.Second, Total: time.Hour + 17*time.Second}
		if r.Timing != want {
			t.Errorf("timing %+v, want %+v", r.Timing, want)
		}
	})
}

// A reader that pauses holds the command, and that is not the command's
// silence.
func TestSlowReaderHoldsTheCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := command()
		c.IdleTimeout, c.Timeout = 30*time.Second, 10*time.Hour
		x := begin(t, playing(func(p *sandboxtest.Proc) int {
			for i := range 1000 {
				fmt.Fprintln(p.Stdout, i)
			}
			return 7
		}), c)
		time.Sleep(time.Hour)
		events := wantEvents(t, x)
		if len(events) != 1002 {
			t.Fatalf("%d events", len(events))
		}
		for i, e := range events[1:1001] {
			if string(e.Data) != fmt.Sprintln(i) {
				t.Fatalf("line %d is %q", i, e.Data)
			}
		}
		r, _ := x.Wait()
		wantFate(t, r, sandbox.StatusError, sandbox.CauseExited, 7)
	})
}

// Where it was held, the silence counts from the end of the pause.
func TestIdleTimeoutAfterSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := command()
		c.IdleTimeout, c.Timeout = 30*time.Second, 10*time.Hour
		x := begin(t, playing(func(p *sandboxtest.Proc) int {
			for range 500 {
				fmt.Fprint(p.Stdout, ".")
			}
			p.Sleep(9 * time.Hour)
			return 0
		}), c)
		time.Sleep(time.Hour)
		began := time.Now()
		r, _ := x.Wait()
		wantFate(t, r, sandbox.StatusTimeout, sandbox.CauseIdleTimeout, sandbox.ExitEnded)
		wantAfter(t, began, 30*time.Second)
	})
}

// moby#41827: an engine whose stream is not read cannot kill. So no one's
// reading is waited for once a command is being ended.
func TestAbsentReaderDoesNotHoldTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, c := playing(func(p *sandboxtest.Proc) int {
			for {
				fmt.Fprint(p.Stdout, "0123456789")
			}
		}), command()
		c.Timeout = time.Minute
		x := begin(t, engine, c)
		time.Sleep(time.Minute)
		synctest.Wait()
		wantNoneLeft(t, engine)

		var shown, notices int
		for _, e := range wantEvents(t, x) {
			switch e.Type {
			case sandbox.EventStdout:
				shown += len(e.Data)
			case sandbox.EventNotice:
				notices++
			}
		}
		r, _ := x.Wait()
		wantFate(t, r, sandbox.StatusTimeout, sandbox.CauseWallTimeout, sandbox.ExitEnded)
		if int64(shown) >= r.Stdout.Total || notices != 1 {
			t.Errorf("%d bytes of %d shown, %d notices", shown, r.Stdout.Total, notices)
		}
	})
}
