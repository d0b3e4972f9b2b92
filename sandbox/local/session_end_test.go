package local_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/sandboxtest"
)

func TestSessionIsLostWithATimeout(t *testing.T) {
	for name, sameRunner := range map[string]bool{"in one belljar": true, "in the next": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, script{"long": say("partial"), "serve": background("server")}, func(t *testing.T, s *stage) {
				l := s.runner()
				first := succeeds(t, l, in("serve"))
				lost := ran(t, l, sandbox.StatusTimeout, sandbox.CauseWallTimeout, in("long", short))
				why := "command long: still running after 10s (timeout)"
				if lost.SessionLost != why || lost.Message != "still running after 10s (timeout); partial output kept" {
					t.Errorf("lost %q, message %q", lost.SessionLost, lost.Message)
				}
				wantRuns(t, lost.Lingering, "server of serve", "sh -c long of long")
				wantNoneLeft(t, s.Engine)
				if i := s.info(t); i.Lost != why || i.Container != "" || i.Runs != nil {
					t.Errorf("%+v", i)
				}
				if !sameRunner {
					l = s.runner()
				}
				before, after := notices(t, l, in("next"))
				if len(before) != 1 || before[0] != `session "dev" was lost, including its files and processes: `+why+"; creating a new container" || after != nil {
					t.Errorf("notices %q, and %q after the start", before, after)
				}
				again := succeeds(t, l, in("again"))
				if again.SessionLost != "" || again.Container.ID == first.Container.ID || !again.Container.Reused || len(s.Specs()) != 2 {
					t.Errorf("lost %q, %+v", again.SessionLost, again.Container)
				}
				wantRuns(t, again.Lingering)
			})
		})
	}
}

// One notice says whether the timeout ended the session or only the command.
func TestTimeoutReportsTheSession(t *testing.T) {
	for want, end := range map[string]func(*sandbox.Command){
		`session "dev" is lost, including its files and processes`:         func(*sandbox.Command) {},
		`1 of the command's processes were ended; session "dev" continues`: endCommand,
	} {
		bubble(t, script{"long": say("partial")}, func(t *testing.T, s *stage) {
			if before, after := notices(t, s.runner(), in("long", short, end)); len(before) > 0 || !slices.Equal(after, []string{want}) {
				t.Errorf("notices %q before the start and %q after, want %q", before, after, want)
			}
		})
	}
}

func TestNextResultReportsTheLoss(t *testing.T) {
	bubble(t, script{"long": say("")}, func(t *testing.T, s *stage) {
		l := s.runner()
		ran(t, l, sandbox.StatusTimeout, sandbox.CauseWallTimeout, in("long", short))
		if r := succeeds(t, l, in("next")); r.SessionLost != "command long: still running after 10s (timeout)" || r.Container.Reused {
			t.Errorf("lost %q, %+v", r.SessionLost, r.Container)
		}
		if r := succeeds(t, l, in("after")); r.SessionLost != "" {
			t.Errorf("lost %q", r.SessionLost)
		}
	})
}

// Every kind of end that is ours loses the session.
func TestSessionIsLostWithACancellation(t *testing.T) {
	bubble(t, script{"long": say("")}, func(t *testing.T, s *stage) {
		l := s.runner()
		r, _ := sandbox.Run(cancelAfter(t, time.Second), l, in("long"))
		wantFate(t, r, sandbox.StatusCanceled, sandbox.CauseCanceled, sandbox.ExitEnded)
		if want := "command long: canceled by the caller"; r.SessionLost != want || s.info(t).Lost != want {
			t.Errorf("lost %q, %q", r.SessionLost, s.info(t).Lost)
		}
	})
}

// Once a bug: a sidecar that was stopped ended, with a command that took too long, the session of it, which a killed one left.
func TestShutdownKeepsTheSession(t *testing.T) {
	bubble(t, script{"serve": background("server"), "long": say("")}, func(t *testing.T, s *stage) {
		l := s.runner()
		succeeds(t, l, in("serve"))
		ctx, cancel := context.WithCancelCause(t.Context())
		why := &sandbox.Error{Cause: sandbox.CauseCanceled, Message: "canceled: it is shutting down", Err: sandbox.ErrShutdown}
		time.AfterFunc(time.Second, func() { cancel(why) })
		r, _ := sandbox.Run(ctx, l, in("long"))
		wantFate(t, r, sandbox.StatusCanceled, sandbox.CauseCanceled, sandbox.ExitEnded)
		wantRuns(t, r.Evidence.Killed, "sh -c long of long")
		wantRuns(t, r.Lingering, "server of serve")
		if r.SessionLost != "" || !strings.Contains(r.Message, "shutting down") {
			t.Errorf("lost %q, %s", r.SessionLost, r.Message)
		}
		if next := succeeds(t, l, in("next")); next.Container.ID != r.Container.ID {
			t.Errorf("%+v", next.Container)
		}
	})
}

func TestEndCommandKeepsTheSession(t *testing.T) {
	bubble(t, script{
		"serve": background("server"),
		"long": func(p *sandboxtest.Proc) int {
			p.Start("child", quiet)
			fmt.Fprint(p.Stdout, "partial")
			p.Sleep(time.Hour)
			return 0
		},
	}, func(t *testing.T, s *stage) {
		l := s.runner()
		wantRuns(t, succeeds(t, l, in("serve")).Lingering, "server of serve")
		r := ran(t, l, sandbox.StatusTimeout, sandbox.CauseWallTimeout, in("long", short, endCommand))
		wantStream(t, "stdout", r.Stdout, "partial")
		wantRuns(t, r.Evidence.Killed, "sh -c long of long", "child of long")
		wantRuns(t, r.Lingering, "server of serve")
		if r.SessionLost != "" || s.info(t).Lost != "" {
			t.Errorf("lost %q, %q", r.SessionLost, s.info(t).Lost)
		}
		next := succeeds(t, l, in("next"))
		wantRuns(t, next.Lingering, "server of serve")
		if next.Container.ID != r.Container.ID || len(s.Specs()) != 1 {
			t.Errorf("%+v", next.Container)
		}
		wantRuns(t, s.info(t).Runs, "server of serve")
	})
}

// A command without a gate has processes as well.
func TestEndCommandOfAColdCommand(t *testing.T) {
	bubble(t, script{"long": say("")}, func(t *testing.T, s *stage) {
		l := s.runner()
		succeeds(t, l, in("first"))
		r := ran(t, l, sandbox.StatusTimeout, sandbox.CauseWallTimeout, in("long", short, endCommand, func(c *sandbox.Command) { c.Env = []string{"RANDOM=1"} }))
		wantRuns(t, r.Evidence.Killed, "sh -c long of long")
		if r.SessionLost != "" {
			t.Errorf("lost %q", r.SessionLost)
		}
	})
}

// A command is not killed for one in another belljar.
func TestEndCommandLeavesOtherBelljarsAlone(t *testing.T) {
	for name, env := range map[string][]string{"by gates": nil, "by an exec": {"RANDOM=1"}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, script{"other": sleep(time.Minute), "long": sleep(time.Hour)}, func(t *testing.T, s *stage) {
				x, err := s.runner().Start(t.Context(), in("other", parallel, func(c *sandbox.Command) { c.Env = env }))
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				r := ran(t, s.runner(), sandbox.StatusTimeout, sandbox.CauseWallTimeout, in("long", parallel, short, endCommand))
				if env != nil && s.Way == sandbox.WayExec {
					// Whose the other's processes are is not known here.
					if !strings.Contains(r.SessionLost, "it is unknown which command started process") || len(r.Evidence.Killed) > 0 {
						t.Errorf("lost %q, killed %+v", r.SessionLost, r.Evidence.Killed)
					}
					x.Wait()
					return
				}
				wantRuns(t, r.Evidence.Killed, "sh -c long of long")
				wantRuns(t, r.Lingering, "sh -c other of other")
				if r, err := x.Wait(); err != nil || r.Status != sandbox.StatusSuccess {
					t.Errorf("%+v, %v", r, err)
				}
			})
		})
	}
}

func TestEndCommandThatCannotBeProved(t *testing.T) {
	daemon := func(p *sandboxtest.Proc) int { p.Daemon("daemon", quiet); p.Sleep(time.Hour); return 0 }
	for name, test := range map[string]struct {
		scripts script
		fault   sandboxtest.Fault
		why     string
	}{
		"whose a process is, is not known": {script{"long": daemon}, nil, "command long: still running after 10s (timeout); could not confirm that its processes ended: it is unknown which command started process "},
		"the engine does not kill":         {script{"long": sleep(time.Hour)}, sandboxtest.Fail(errors.New("no kill today")), "could not confirm that its processes ended: no kill today"},
	} {
		t.Run(name, func(t *testing.T) {
			test.scripts["serve"] = background("server")
			bubble(t, test.scripts, func(t *testing.T, s *stage) {
				s.OnSignal = test.fault
				l := s.runner()
				succeeds(t, l, in("serve"))
				r := ran(t, l, sandbox.StatusTimeout, sandbox.CauseWallTimeout, in("long", short, endCommand))
				if !strings.Contains(r.SessionLost, test.why) || s.info(t).Lost != r.SessionLost {
					t.Errorf("lost %q, want %q", r.SessionLost, test.why)
				}
				wantNoneLeft(t, s.Engine)
				if next := succeeds(t, l, in("next")); next.SessionLost != r.SessionLost || next.Container.Reused {
					t.Errorf("%+v", next)
				}
			})
		})
	}
}

// Processes that keep coming cannot be proved gone.
func TestEndCommandOfAForkBomb(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, script{"bomb": sleep(time.Hour)})
		defer s.done(t)
		var bomb atomic.Bool
		// Whenever somebody looks, there is a new one.
		s.OnProcesses = func(context.Context) error {
			if bomb.Load() {
				return s.Left()[0].Fork("child")
			}
			return nil
		}
		l := s.runner()
		x, err := l.Start(t.Context(), in("bomb", short, endCommand))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		bomb.Store(true)
		r, err := x.Wait()
		if err != nil || !strings.Contains(r.SessionLost, "could not confirm that its processes ended: some were still running after 5s") {
			t.Errorf("lost %q, %v", r.SessionLost, err)
		}
		wantNoneLeft(t, s.Engine)
		bomb.Store(false)
	})
}

// slowSessions is an engine that takes a while to list sessions.
type slowSessions struct {
	*sandboxtest.Engine
	pause *atomic.Int64
}

func (e slowSessions) Sessions(ctx context.Context, name string) ([]sandbox.Kept, error) {
	time.Sleep(time.Duration(e.pause.Load()))
	return e.Engine.Sessions(ctx, name)
}

// Once a bug: a command whose container another one ended was told that the session was removed, if a third had
// a new one by then.
func TestSessionThatOthersEndAndBegin(t *testing.T) {
	bubble(t, script{"long": sleep(time.Hour), "longer": sleep(time.Hour)}, func(t *testing.T, s *stage) {
		var pause atomic.Int64
		l := s.runner()
		l.Engine = slowSessions{s.Engine, &pause}
		x, err := l.Start(t.Context(), in("longer", parallel))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		pause.Store(int64(30 * time.Second)) // so that it looks for its container late
		ran(t, s.runner(), sandbox.StatusTimeout, sandbox.CauseWallTimeout, in("long", parallel, short))
		if r := succeeds(t, s.runner(), in("third", parallel)); r.Container.Reused {
			t.Errorf("%+v", r.Container)
		}
		if r, _ := x.Wait(); r.SessionLost != "command long: still running after 10s (timeout)" {
			t.Errorf("%s (%s), lost %q", r.Cause, r.Message, r.SessionLost)
		}
	})
}

func TestSessionRemovedFromOutside(t *testing.T) {
	const why = "its container was removed by something other than belljar, the engine stopped, or it is on another engine"
	t.Run("between commands", func(t *testing.T) {
		bubble(t, nil, func(t *testing.T, s *stage) {
			l := s.runner()
			succeeds(t, l, in("first"))
			s.Left()[0].End()
			s.Left()[0].Remove(t.Context())
			if i := s.info(t); i.Lost != why {
				t.Errorf("%+v", i)
			}
			if r := succeeds(t, l, in("next")); r.SessionLost != why || r.Container.Reused {
				t.Errorf("lost %q, %+v", r.SessionLost, r.Container)
			}
		})
	})
	t.Run("during one", func(t *testing.T) {
		bubble(t, script{"killed": func(p *sandboxtest.Proc) int { p.KillContainer(); return 0 }}, func(t *testing.T, s *stage) {
			l := s.runner()
			succeeds(t, l, in("first"))
			r := ran(t, l, sandbox.StatusFatal, sandbox.CauseEngineLost, in("killed"))
			if r.SessionLost != "command killed: its container was ended, not by belljar" {
				t.Errorf("lost %q", r.SessionLost)
			}
			s.Left()[0].Remove(t.Context())
			if next := succeeds(t, l, in("next")); next.SessionLost != r.SessionLost {
				t.Errorf("lost %q, want %q", next.SessionLost, r.SessionLost)
			}
		})
	})
}

// The container of a command that was to be ended with it is not used again,
// though the engine did not end it.
func TestSessionWhoseEndFailed(t *testing.T) {
	for name, sameRunner := range map[string]bool{"in one belljar": true, "in the next": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, script{"long": sleep(time.Hour)}, func(t *testing.T, s *stage) {
				l := s.runner()
				s.OnRemove = sandboxtest.Fail(errors.New("not now"))
				r := ran(t, l, sandbox.StatusTimeout, sandbox.CauseWallTimeout, in("long", short))
				if r.Evidence.RemoveError == "" || r.SessionLost == "" {
					t.Errorf("%+v, lost %q", r.Evidence, r.SessionLost)
				}
				if !sameRunner {
					l = s.runner()
				}
				ran(t, l, sandbox.StatusFatal, sandbox.CauseEngine, in("next"))
				s.OnRemove = nil
				next := succeeds(t, l, in("next"))
				if next.Container.ID == r.Container.ID || next.SessionLost != r.SessionLost {
					t.Errorf("%+v, lost %q", next.Container, next.SessionLost)
				}
			})
		})
	}
}
