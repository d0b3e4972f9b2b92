package local_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/sandboxtest"
)

// onTERM runs until SIGTERM, and then on.
func onTERM(then func(p *sandboxtest.Proc) int) func(p *sandboxtest.Proc) int {
	return func(p *sandboxtest.Proc) int {
		term := p.Trap("SIGTERM")
		fmt.Fprint(p.Stdout, "working\n")
		select {
		case <-term:
		case <-p.Killed:
			p.Sleep(0)
		}
		return then(p)
	}
}

func cleans(p *sandboxtest.Proc) int {
	p.Sleep(time.Second)
	fmt.Fprint(p.Stdout, "cleaned\n")
	return 3
}

func TestStopGrace(t *testing.T) {
	for name, test := range map[string]struct {
		play   func(p *sandboxtest.Proc) int
		by     sandbox.Signal
		after  time.Duration // from the timeout to the result
		stdout string
	}{
		"cleans up":      {onTERM(cleans), "SIGTERM", time.Second, "working\ncleaned\n"},
		"does not mind":  {say("working\n"), "SIGTERM", 0, "working\n"},
		"ignores it":     {onTERM(sleep(time.Hour)), "SIGKILL", 5 * time.Second, "working\n"},
		"takes too long": {onTERM(func(p *sandboxtest.Proc) int { p.Sleep(9 * time.Second / 2); return cleans(p) }), "SIGKILL", 5 * time.Second, "working\n"},
		"forks": {onTERM(func(p *sandboxtest.Proc) int {
			p.Start("child", sleep(time.Hour))
			return 0
		}), "SIGKILL", 5 * time.Second, "working\n"},
		"forks for a while": {onTERM(func(p *sandboxtest.Proc) int {
			p.Start("child", cleans)
			return 0
		}), "SIGTERM", time.Second, "working\ncleaned\n"},
		"is stopped": {func(p *sandboxtest.Proc) int {
			fmt.Fprint(p.Stdout, "working\n")
			p.Signal("SIGSTOP")
			p.Sleep(time.Hour)
			return 0
		}, "SIGKILL", 5 * time.Second, "working\n"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, c := time.Now(), command()
				c.Timeout, c.StopGrace = 10*time.Second, 5*time.Second
				r := run(t, playing(test.play), c)
				wantFate(t, r, sandbox.StatusTimeout, sandbox.CauseWallTimeout, sandbox.ExitEnded)
				wantStream(t, "stdout", r.Stdout, test.stdout)
				if took := time.Since(began) - c.Timeout; took < test.after || took > test.after+400*time.Millisecond { // between two lists
					t.Errorf("it took %v, want %v", took, test.after)
				}
				if r.Evidence.StoppedBy != test.by || r.Evidence.KilledBy != "belljar" {
					t.Errorf("%+v", r.Evidence)
				}
				late := name == "forks" // its child is killed, too
				if len(r.Lingering) == 0 || r.Lingering[0].Command != "sh -c the script" || late != (len(r.Lingering) == 2 && r.Lingering[1].Command == "child") || !late && len(r.Lingering) != 1 {
					t.Errorf("lingering is not what ran when the time was up, and what is killed later: %+v", r.Lingering)
				}
			})
		})
	}
}

// Every end of ours leaves time for that.
func TestStopGraceOfEachEnd(t *testing.T) {
	flood := func(p *sandboxtest.Proc) int {
		term := p.Trap("SIGTERM")
		for {
			select {
			case <-term:
				fmt.Fprint(p.Stderr, "cleaned")
				return 0
			default:
				fmt.Fprint(p.Stdout, strings.Repeat("x", 1024))
				p.Sleep(time.Millisecond)
			}
		}
	}
	waits := onTERM(func(p *sandboxtest.Proc) int { fmt.Fprint(p.Stderr, "cleaned"); return 0 })
	for cause, test := range map[sandbox.Cause]struct {
		play   func(p *sandboxtest.Proc) int
		change func(*sandbox.Command)
		after  time.Duration
	}{
		sandbox.CauseWallTimeout: {waits, func(c *sandbox.Command) { c.Timeout = 10 * time.Second }, time.Hour},
		sandbox.CauseIdleTimeout: {waits, func(c *sandbox.Command) { c.IdleTimeout = 10 * time.Second }, time.Hour},
		sandbox.CauseOutputLimit: {flood, func(c *sandbox.Command) { c.Limits.Output, c.OnOutputLimit = 10<<10, sandbox.OutputEnd }, time.Hour},
		sandbox.CauseCanceled:    {waits, func(*sandbox.Command) {}, time.Second},
	} {
		t.Run(string(cause), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := command()
				c.StopGrace = time.Minute
				test.change(&c)
				engine := playing(test.play)
				r, err := sandbox.Run(cancelAfter(t, test.after), newLocal(engine), c)
				if err != nil || r.Cause != cause || r.ExitCode != sandbox.ExitEnded || r.Evidence.StoppedBy != "SIGTERM" {
					t.Errorf("error %v, %s, exit code %d, %+v", err, r.Cause, r.ExitCode, r.Evidence)
				}
				if cause != sandbox.CauseOutputLimit { // what comes after it is counted
					wantStream(t, "stderr", r.Stderr, "cleaned")
				} else if r.Stderr.Total != 7 {
					t.Errorf("stderr %+v", r.Stderr)
				}
				wantNoneLeft(t, engine)
			})
		})
	}
}

// Whoever writes on and on gets no more time for it, also where nobody reads that.
func TestStopGraceIsNotExtended(t *testing.T) {
	for _, read := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			began, c := time.Now(), command()
			c.Timeout, c.StopGrace = 10*time.Second, 5*time.Second
			engine := playing(func(p *sandboxtest.Proc) int {
				p.Trap("SIGTERM")
				for {
					fmt.Fprint(p.Stdout, "again\n")
					p.Sleep(time.Millisecond)
				}
			})
			x := begin(t, engine, c)
			if !read {
				time.Sleep(15 * time.Second)
				synctest.Wait()
				wantNoneLeft(t, engine)
			}
			r, _ := x.Wait()
			wantFate(t, r, sandbox.StatusTimeout, sandbox.CauseWallTimeout, sandbox.ExitEnded)
			wantAfter(t, began, 15*time.Second)
			if r.Evidence.StoppedBy != "SIGKILL" || read && r.Stdout.Total < 14900*6 {
				t.Errorf("%+v, %d bytes", r.Evidence, r.Stdout.Total)
			}
		})
	}
}

// Kill, which a second Ctrl-C is, cuts that time short, and has none of its own.
func TestKillSkipsTheStopGrace(t *testing.T) {
	for _, cancel := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			began, c := time.Now(), command()
			c.StopGrace = time.Minute
			engine := playing(onTERM(sleep(time.Hour)))
			ctx, end := context.WithCancel(t.Context())
			defer end()
			x, err := newLocal(engine).Start(ctx, c)
			if err != nil {
				t.Fatal(err)
			}
			if cancel {
				time.AfterFunc(time.Second, end)
			}
			time.AfterFunc(3*time.Second, x.Kill)
			r, err := x.Wait()
			if err != nil || r.Evidence.StoppedBy != "SIGKILL" {
				t.Errorf("error %v, %+v", err, r.Evidence)
			}
			wantFate(t, r, sandbox.StatusCanceled, sandbox.CauseCanceled, sandbox.ExitEnded)
			wantAfter(t, began, 3*time.Second)
			wantNoneLeft(t, engine)
		})
	}
}

// Where the signal cannot be sent there is nothing to wait for.
func TestStopGraceWithoutASignal(t *testing.T) {
	for name, test := range map[string]struct {
		engine *sandboxtest.Engine
		after  time.Duration
		notice string
	}{
		"refused":  {&sandboxtest.Engine{OnSignal: sandboxtest.Fail(errors.New("odd"))}, 0, "the command got no time to end (stop_grace): sending SIGTERM failed: odd"},
		"hangs":    {&sandboxtest.Engine{OnSignal: sandboxtest.Hang}, 5 * time.Second, ""},
		"no list":  {&sandboxtest.Engine{OnProcesses: sandboxtest.Hang}, 2 * time.Second, ""},
		"no grace": {&sandboxtest.Engine{}, 0, ""},
		"explicit": {&sandboxtest.Engine{}, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, c := time.Now(), command()
				c.Timeout, c.StopGrace = 10*time.Second, 5*time.Second
				switch name {
				case "no grace":
					c.StopGrace = 0
				case "explicit":
					c.StopGrace = sandbox.NoStopGrace
				}
				test.engine.Script = onTERM(sleep(time.Hour))
				x := begin(t, test.engine, c)
				var notices []string
				for _, e := range wantEvents(t, x) {
					if e.Type == sandbox.EventNotice {
						notices = append(notices, string(e.Data))
					}
				}
				r, _ := x.Wait()
				wantAfter(t, began, 10*time.Second+test.after)
				if r.Evidence.StoppedBy != "SIGKILL" || strings.Join(notices, "") != test.notice {
					t.Errorf("%+v, notices %q", r.Evidence, notices)
				}
				wantNoneLeft(t, test.engine)
			})
		})
	}
}

func TestStopGraceInASession(t *testing.T) {
	bubble(t, script{
		"serve": background("server"),
		"long":  onTERM(cleans),
		"other": onTERM(func(*sandboxtest.Proc) int { return 7 }),
	}, func(t *testing.T, s *stage) {
		l := s.runner()
		wantRuns(t, succeeds(t, l, in("serve")).Lingering, "server of serve")
		x, err := l.Start(t.Context(), in("other", parallel))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		began := time.Now()
		r := ran(t, l, sandbox.StatusTimeout, sandbox.CauseWallTimeout, in("long", parallel, short, endCommand))
		wantStream(t, "stdout", r.Stdout, "working\ncleaned\n")
		if took := time.Since(began); r.Evidence.StoppedBy != "SIGTERM" || r.SessionLost != "" || took > 11*time.Second+500*time.Millisecond {
			t.Errorf("%+v after %v, lost %q", r.Evidence, took, r.SessionLost)
		}
		wantRuns(t, r.Evidence.Killed, "sh -c long of long")
		wantRuns(t, r.Lingering, "server of serve", "sh -c other of other")
		if err := x.Signal(t.Context(), "SIGTERM"); err != nil { // it has had none
			t.Error(err)
		}
		if other, err := x.Wait(); err != nil || other.ExitCode != 7 {
			t.Errorf("%+v, %v", other, err)
		}
	})
}

// What ignores SIGTERM in a session is killed after two seconds, alone.
func TestDefaultStopGraceInASession(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*sandbox.Command)
		after  time.Duration
	}{
		"alone":                     {endCommand, 2 * time.Second},
		"alone, and without":        {func(c *sandbox.Command) { endCommand(c); c.StopGrace = sandbox.NoStopGrace }, 0},
		"with the container":        {func(*sandbox.Command) {}, 0},
		"with the container, asked": {func(c *sandbox.Command) { c.StopGrace = 3 * time.Second }, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, script{"long": onTERM(sleep(time.Hour))}, func(t *testing.T, s *stage) {
				began := time.Now()
				r := ran(t, s.runner(), sandbox.StatusTimeout, sandbox.CauseWallTimeout, in("long", short, test.change))
				if took := time.Since(began) - 10*time.Second; r.Evidence.StoppedBy != "SIGKILL" || took < test.after || took > test.after+100*time.Millisecond {
					t.Errorf("%+v after %v", r.Evidence, took)
				}
			})
		})
	}
}

func TestStopGraceIsBounded(t *testing.T) {
	for _, d := range []time.Duration{-2, -time.Second, sandbox.MaxStopGrace + 1} {
		c := command()
		c.StopGrace = d
		if _, err := newLocal(playing(sleep(0))).Start(t.Context(), c); sandbox.CauseOf(err) != sandbox.CauseInvalid || !strings.Contains(err.Error(), "stop_grace") {
			t.Errorf("%v: error %v", d, err)
		}
	}
}

// A container lives for the grace, too.
func TestStopGraceCountsForTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var left []time.Duration
		for _, grace := range []time.Duration{sandbox.NoStopGrace, 30 * time.Second} {
			engine, c := playing(func(*sandboxtest.Proc) int { return 0 }), command()
			c.StopGrace = grace
			run(t, engine, c)
			left = append(left, time.Until(engine.Specs()[0].Deadline))
		}
		if left[1]-left[0] != 30*time.Second {
			t.Errorf("%v", left)
		}
	})
}

// Once a bug: a command that had ended, and left what still wrote, could not be canceled while nobody read.
func TestCancelAfterTheEnd(t *testing.T) {
	for _, kill := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			engine := playing(func(p *sandboxtest.Proc) int {
				p.Start("yes", func(p *sandboxtest.Proc) int {
					for {
						fmt.Fprint(p.Stdout, "again\n")
						p.Sleep(time.Millisecond)
					}
				})
				p.Sleep(time.Minute)
				return 0
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			x, err := newLocal(engine).Start(ctx, command())
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
			if kill {
				x.Kill()
			} else {
				cancel()
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			wantNoneLeft(t, engine)
			if r, err := x.Wait(); err != nil || r.Cause != sandbox.CauseExited || len(r.Lingering) != 1 {
				t.Errorf("%s (%s), %d linger, %v", r.Cause, r.Message, len(r.Lingering), err)
			}
			if time.Since(began) > 2*time.Hour {
				t.Error("it took long")
			}
		})
	}
}
