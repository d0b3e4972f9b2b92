package local_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/sandboxtest"
)

func TestSessionLife(t *testing.T) {
	bubble(t, script{"long": sleep(2 * time.Hour), "serve": background("server")}, func(t *testing.T, s *stage) {
		l := s.runner()
		expire := func(want int) {
			t.Helper()
			if n, err := s.runner().ExpireSessions(t.Context()); n != want || err != nil {
				t.Errorf("%d sessions ended, error %v, want %d", n, err, want)
			}
		}
		long := in("long")
		long.Timeout, long.IdleTimeout = 3*time.Hour, sandbox.NoIdleTimeout
		x, err := l.Start(t.Context(), long)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		expire(0) // it runs
		if r, err := x.Wait(); err != nil || r.Status != sandbox.StatusSuccess {
			t.Fatalf("%+v, %v", r, err)
		}
		time.Sleep(29 * time.Minute)
		expire(0)
		succeeds(t, l, in("serve")) // which restarts its idle time
		time.Sleep(29 * time.Minute)
		expire(0)
		if i := s.info(t); i.IdleEnd != i.LastUsed.Add(30*time.Minute) || i.Deadline != i.Created.Add(8*time.Hour) {
			t.Errorf("%+v", i)
		}
		time.Sleep(time.Minute)
		expire(1)
		expire(0)
		wantNoneLeft(t, s.Engine)
		if i := s.info(t); i.Lost != "no command for 30m" {
			t.Errorf("%+v", i)
		}
		time.Sleep(23 * time.Hour)
		expire(0)
		if i := s.info(t); i.Lost != "no command for 30m" {
			t.Errorf("%+v", i)
		}
		time.Sleep(time.Hour)
		expire(0)
		if list, err := l.Sessions(t.Context()); len(list) > 0 || err != nil {
			t.Errorf("%+v, %v", list, err)
		}
		if r := succeeds(t, l, in("anew")); r.SessionLost != "" {
			t.Errorf("lost %q", r.SessionLost)
		}
	})
}

// Once a bug: where belljar was killed while it ended a session's container, or the engine did not end it, it
// ran on until session.max.
func TestLostSessionEnds(t *testing.T) {
	bubble(t, script{"long": sleep(time.Hour)}, func(t *testing.T, s *stage) {
		s.OnRemove = sandboxtest.Fail(errors.New("not now"))
		lost := ran(t, s.runner(), sandbox.StatusTimeout, sandbox.CauseWallTimeout, in("long", short)).SessionLost
		if n, err := s.runner().ExpireSessions(t.Context()); n != 0 || err == nil || len(s.Left()) != 1 {
			t.Errorf("%d sessions ended, error %v, though the engine ends none", n, err)
		}
		s.OnRemove = nil
		for _, want := range []int{1, 0} {
			if n, err := s.runner().ExpireSessions(t.Context()); n != want || err != nil {
				t.Errorf("%d sessions ended, error %v, want %d", n, err, want)
			}
			wantNoneLeft(t, s.Engine)
		}
		if i := s.info(t); i.Lost != lost {
			t.Errorf("lost %q, want %q", i.Lost, lost)
		}
		s.OnSessions = sandboxtest.Fail(errors.New("it was looked for again"))
		if _, err := s.runner().ExpireSessions(t.Context()); err != nil {
			t.Error(err)
		}
		s.OnSessions = nil
	})
}

// The engine ends a session's container at its deadline: the session says so.
func TestSessionPastItsDeadline(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *stage) {
		l := s.runner()
		succeeds(t, l, in("first"))
		if d := s.Specs()[0].Deadline; d != time.Now().Add(8*time.Hour) {
			t.Errorf("deadline %v", d)
		}
		time.Sleep(8*time.Hour + time.Second)
		s.Left()[0].Remove(t.Context())
		if r := succeeds(t, l, in("next")); !strings.HasPrefix(r.SessionLost, "session.max ended it at 2000-01-01T") {
			t.Errorf("lost %q", r.SessionLost)
		}
	})
}

func TestDeadlineDuringACommand(t *testing.T) {
	bubble(t, script{"long": func(p *sandboxtest.Proc) int { p.Sleep(8*time.Hour - time.Second/2); p.KillContainer(); return 0 }}, func(t *testing.T, s *stage) {
		r := ran(t, s.runner(), sandbox.StatusFatal, sandbox.CauseEngineLost, in("long", func(c *sandbox.Command) { c.Timeout, c.IdleTimeout = 9*time.Hour, sandbox.NoIdleTimeout }))
		if !strings.HasPrefix(r.SessionLost, "command long: session.max ended it at 2000-01-01T") {
			t.Errorf("lost %q", r.SessionLost)
		}
		s.Left()[0].Remove(t.Context())
	})
}

func TestRemoveSession(t *testing.T) {
	t.Run("that is not there", func(t *testing.T) {
		bubble(t, nil, func(t *testing.T, s *stage) {
			for name, want := range map[string]string{"dev": `no session "dev" (see: belljar session ls; belljar ps also lists`, "../x": "session name", "": "session name"} {
				if err := s.runner().RemoveSession(t.Context(), name); sandbox.CauseOf(err) != sandbox.CauseInvalid || !strings.HasPrefix(err.Error(), want) {
					t.Errorf("%q: %v", name, err)
				}
			}
		})
	})
	t.Run("between commands", func(t *testing.T) {
		bubble(t, script{"serve": background("server")}, func(t *testing.T, s *stage) {
			l := s.runner()
			succeeds(t, l, in("serve"))
			s.done(t)
			if r := succeeds(t, l, in("next")); r.SessionLost != "" || r.Container.Reused {
				t.Errorf("lost %q, %+v: it was asked for", r.SessionLost, r.Container)
			}
		})
	})
	t.Run("during a command", func(t *testing.T) {
		bubble(t, script{"long": say("partial")}, func(t *testing.T, s *stage) {
			x, err := s.runner().Start(t.Context(), in("long"))
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			s.done(t)
			r, _ := x.Wait()
			wantStream(t, "stdout", r.Stdout, "partial")
			if r.Cause != sandbox.CauseSignaled && r.Cause != sandbox.CauseEngineLost || r.SessionLost != "it was removed" {
				t.Errorf("%s, %q, lost %q", r.Cause, r.Message, r.SessionLost)
			}
			if r := succeeds(t, s.runner(), in("next")); r.SessionLost != "" || r.Container.Reused {
				t.Errorf("lost %q, %+v", r.SessionLost, r.Container)
			}
		})
	})
	t.Run("that is open", func(t *testing.T) {
		bubble(t, script{"long": say("partial")}, func(t *testing.T, s *stage) {
			l := s.runner()
			l.Warm()
			defer l.Close()
			succeeds(t, l, in("first"))
			s.OnAdopt = sandboxtest.Fail(errors.New("it was opened again"))
			err := l.RemoveSession(t.Context(), "dev")
			synctest.Wait() // a spare gate may be just opening
			if err != nil || len(s.Left()) != 0 || l.LiveSessions() != 0 {
				t.Errorf("%v: %d containers, %d open sessions", err, len(s.Left()), l.LiveSessions())
			}
			s.OnAdopt = nil
			x, err := l.Start(t.Context(), in("long"))
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			if err := l.RemoveSession(t.Context(), "dev"); err != nil || len(s.Left()) != 0 {
				t.Errorf("%v: %d containers", err, len(s.Left()))
			}
			if r, _ := x.Wait(); r.SessionLost != "it was removed" {
				t.Errorf("lost %q", r.SessionLost)
			}
		})
	})
	t.Run("that the engine does not end", func(t *testing.T) {
		bubble(t, nil, func(t *testing.T, s *stage) {
			l := s.runner()
			succeeds(t, l, in("first"))
			for name, fault := range map[string]*sandboxtest.Fault{"adopt": &s.OnAdopt, "remove": &s.OnRemove} {
				*fault = sandboxtest.Fail(errors.New("it is paused"))
				if err := l.RemoveSession(t.Context(), "dev"); err == nil || len(s.Left()) != 1 {
					t.Errorf("%s fails, and the session is said to be removed: %v", name, err)
				}
				*fault = nil
			}
			if r := succeeds(t, l, in("next")); !r.Container.Reused {
				t.Error("a session that was not removed is forgotten")
			}
		})
	})
}

// Once a bug of sessions: each name that was ever used is remembered for ever.
func TestSessionsAreForgotten(t *testing.T) {
	for name, isWarm := range map[string]bool{"warm": true, "cold": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, s *stage) {
				l := s.runner()
				if isWarm {
					l.Warm()
				}
				defer l.Close()
				for i := range 1000 {
					c := in("x")
					c.ID, c.Session = "", fmt.Sprintf("s%d", i)
					succeeds(t, l, c)
					synctest.Wait()
					if n := l.LiveSessions(); n > 11 {
						t.Fatalf("%d sessions after %d", n, i+1)
					}
					if err := l.RemoveSession(t.Context(), c.Session); err != nil {
						t.Fatal(err)
					}
					if i%10 == 0 {
						time.Sleep(time.Minute)
					}
				}
				s.OnCreate = sandboxtest.Fail(errors.New("no"))
				ran(t, l, sandbox.StatusFatal, sandbox.CauseEngine, in("x"))
				s.OnCreate = nil
				time.Sleep(time.Minute)
				if n := l.LiveSessions(); n > 0 {
					t.Errorf("%d sessions are still known", n)
				}
			})
		})
	}
}
