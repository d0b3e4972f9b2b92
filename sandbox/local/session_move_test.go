package local_test

import (
	"context"
	"io"
	"testing"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/local"
)

// A session goes from one process to another, which has a state directory of its own: with what was recorded of it, or, where the first was
// killed, without.
func TestSessionMoves(t *testing.T) {
	for name, test := range map[string]struct {
		killed  bool
		command string // that what is left is of
	}{"given up": {false, "serve"}, "killed": {true, ""}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, script{"serve": background("server"), "long": sleep(time.Minute)}, func(t *testing.T, s *stage) {
				from, to := s.runner(), s.runner()
				to.StateDir = t.TempDir()
				succeeds(t, from, in("serve"))
				time.Sleep(10 * time.Minute)
				x, err := from.Start(t.Context(), in("long"))
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				if _, err := from.GiveUpSession(t.Context(), "dev"); sandbox.CauseOf(err) != sandbox.CauseBusy {
					t.Errorf("while a command uses it: %v", err)
				}
				x.Wait()
				kept, err := s.Sessions(t.Context(), "dev")
				if err != nil || len(kept) != 1 {
					t.Fatalf("%+v, %v", kept, err)
				}
				state, err := from.GiveUpSession(t.Context(), "dev")
				if err != nil || len(state) == 0 {
					t.Fatalf("%q, %v", state, err)
				}
				if names, err := from.SessionNames(); err != nil || len(names) != 0 {
					t.Errorf("still known: %q, %v", names, err)
				}
				if ended, err := from.ExpireSession(t.Context(), "dev"); ended || err != nil { // once a bug
					t.Errorf("idle for who gave it up: %v, %v", ended, err)
				}
				if test.killed {
					state = nil
				}
				if err := to.TakeOverSession(t.Context(), "dev", state, &kept[0]); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Minute)
				if n, err := to.ExpireSessions(t.Context()); n != 0 || err != nil {
					t.Errorf("%d ended, %v", n, err)
				}
				if r := succeeds(t, to, in("next")); !r.Container.Reused || r.SessionLost != "" {
					t.Errorf("%+v, lost %q", r.Container, r.SessionLost)
				}
				list, err := to.Sessions(t.Context())
				if err != nil || len(list) != 1 || len(list[0].Runs) != 1 || list[0].Runs[0].CommandID != test.command {
					t.Errorf("%+v, %v", list, err)
				}
				time.Sleep(30 * time.Minute)
				if n, err := to.ExpireSessions(t.Context()); n != 1 || err != nil {
					t.Errorf("%d ended, %v", n, err)
				}
			})
		})
	}
}

// Once a bug: a session whose process was killed had the default profile's directory and idle time in the next one.
func TestKilledSessionKeepsItsProfile(t *testing.T) {
	bubble(t, script{}, func(t *testing.T, s *stage) {
		from, to, a := s.runner(), s.runner(), &auditor{}
		to.StateDir, to.Auditor = t.TempDir(), a
		p := from.Profiles[sandbox.DefaultProfile]
		p.Workdir, p.Session.Idle = "/data", 3*time.Hour
		from.Profiles["data"], to.Profiles["data"] = p, p
		succeeds(t, from, in("first", func(c *sandbox.Command) { c.Profile = "data" }))
		kept, err := s.Sessions(t.Context(), "dev")
		if err != nil || len(kept) != 1 {
			t.Fatalf("%+v, %v", kept, err)
		}
		if err := to.TakeOverSession(t.Context(), "dev", nil, &kept[0]); err != nil {
			t.Fatal(err)
		}
		_ = to.ReadFile(t.Context(), at("/data/f"), io.Discard) // which the fake has none of
		if len(a.records) == 0 || a.records[0].Path != "f" {
			t.Errorf("a file's path is of another directory: %+v", a.records)
		}
		for range 2 { // a command of another profile does not change that
			time.Sleep(2 * time.Hour)
			if n, err := to.ExpireSessions(t.Context()); n != 0 || err != nil {
				t.Errorf("%d ended, %v", n, err)
			}
			succeeds(t, to, in("next"))
		}
		time.Sleep(4 * time.Hour)
		if n, err := to.ExpireSessions(t.Context()); n != 1 || err != nil {
			t.Errorf("%d ended, %v", n, err)
		}
	})
}

func TestSessionMoveRefuses(t *testing.T) {
	l := &local.Local{}
	l.StateDir = t.TempDir()
	for name, state := range map[string]string{"../x": "", "dev": `{"session":"other"}`, "prod": "nonsense"} {
		if err := l.TakeOverSession(t.Context(), name, []byte(state), nil); err == nil {
			t.Errorf("%q with %q is taken over", name, state)
		}
	}
}

// Once a bug: the idle time of a session that another process had taken over went on here, and ended it there.
func TestSessionOfAnotherDoesNotExpire(t *testing.T) {
	bubble(t, script{}, func(t *testing.T, s *stage) {
		l, ours := s.runner(), false
		l.ExpireOnly(func(_ context.Context, name string) bool { return ours && name == "dev" })
		succeeds(t, l, in("first"))
		time.Sleep(time.Hour)
		if n, err := l.ExpireSessions(t.Context()); n != 0 || err != nil {
			t.Errorf("%d ended, %v", n, err)
		}
		if kept, err := s.Sessions(t.Context(), "dev"); err != nil || len(kept) != 1 {
			t.Errorf("%+v, %v", kept, err)
		}
		ours = true
		if n, err := l.ExpireSessions(t.Context()); n != 1 || err != nil {
			t.Errorf("%d ended, %v", n, err)
		}
	})
}
