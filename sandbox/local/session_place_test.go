package local_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/local"
	"belljar/sandbox/sandboxtest"
)

func TestSessionIsMadeOnceAndFound(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *stage) {
		l := s.runner()
		var ids []string
		for i, runner := range []*local.Local{l, l, s.runner(), s.runner()} {
			r := succeeds(t, runner, in("echo"))
			if r.Session != "dev" || r.Container.Reused != (i > 0) || r.Container.Warm || r.SessionLost != "" {
				t.Errorf("command %d: session %q, %+v, lost %q", i, r.Session, r.Container, r.SessionLost)
			}
			ids = append(ids, r.Container.ID)
			runner.Close()
		}
		if made := s.Specs(); len(made) != 1 || made[0].Session != "dev" || len(slices.Compact(ids)) != 1 {
			t.Errorf("made %+v, used %q", made, ids)
		}
	})
}

// Each command gets everything of its own, and nothing of the previous one's.
func TestSessionCommandsAreTheirOwn(t *testing.T) {
	var told []sandbox.Exec
	bubble(t, script{"tell": func(p *sandboxtest.Proc) int { told = append(told, p.Exec); return 0 }}, func(t *testing.T, s *stage) {
		l := s.runner()
		succeeds(t, l, in("tell", func(c *sandbox.Command) { c.Dir, c.Env = "/tmp", []string{"A=1"} }))
		succeeds(t, l, in("tell", func(c *sandbox.Command) { c.Env = []string{"B=2"} }))
		succeeds(t, l, in("tell", func(c *sandbox.Command) { c.Env = []string{"RANDOM=3"} })) // no gate takes this variable
		for i, want := range []string{"/tmp A=1", "/work B=2", "/work RANDOM=3"} {
			dir, kv, _ := strings.Cut(want, " ")
			if x := told[i]; x.Dir != dir || !slices.Contains(x.Env, kv) || strings.Count(strings.Join(x.Env, " "), "=") != strings.Count(strings.Join(told[0].Env, " "), "=") {
				t.Errorf("command %d is told %q %q, want %q", i, x.Dir, x.Env, want)
			}
		}
	})
}

func TestSessionMismatch(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *stage) {
		l := s.runner()
		p := l.Profiles[sandbox.DefaultProfile]
		p.Policy = permissive{}
		l.Profiles[sandbox.DefaultProfile] = p
		first := succeeds(t, l, in("first"))
		dir := t.TempDir()
		for name, change := range map[string]func(c *sandbox.Command){
			"image":   func(c *sandbox.Command) { c.Image = "other" },
			"memory":  func(c *sandbox.Command) { c.Limits.Memory = 1 << 30 },
			"pids":    func(c *sandbox.Command) { c.Limits.Pids = 7 },
			"network": func(c *sandbox.Command) { c.Network = "bridge" },
			"runtime": func(c *sandbox.Command) { c.Runtime = "runsc" },
			"mounts":  func(c *sandbox.Command) { c.Mounts = []sandbox.Mount{{Source: dir, Target: "/mnt"}} },
		} {
			for _, runner := range []*local.Local{l, s.runner()} {
				runner.Profiles = l.Profiles
				r := ran(t, runner, sandbox.StatusFatal, sandbox.CauseInvalid, in("mismatch", change))
				if !strings.Contains(r.Message, `session "dev" has another image, limits,`) || !strings.HasSuffix(r.Message, "or remove it: belljar session rm dev)") || r.SessionLost != "" {
					t.Errorf("%s: %q, lost %q", name, r.Message, r.SessionLost)
				}
			}
		}
		// What is not the container's may differ.
		r := succeeds(t, l, in("same", func(c *sandbox.Command) {
			c.Dir, c.Timeout, c.Limits.Output, c.Env = "/tmp", time.Minute, 2048, []string{"A=1"}
		}))
		if r.Container.ID != first.Container.ID || len(s.Specs()) != 1 {
			t.Errorf("%+v", r.Container)
		}
	})
}

type permissive struct{}

func (permissive) Steers(name string) bool { return name == "PATH" }

func (permissive) AllowEnv(string) bool { return true }

func (permissive) CheckMount(sandbox.Mount) error { return nil }

func (permissive) Writable(string) bool { return false }

func (permissive) Hash() string { return "" }

func (permissive) JudgeScript(string, string, string) sandbox.Verdict {
	return sandbox.Verdict{Decision: sandbox.Allow}
}

func TestSessionIsMadeByOneOfMany(t *testing.T) {
	for name, runners := range map[string]int{"in one belljar": 1, "in four": 4} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, s *stage) {
				s.OnCreate = func(context.Context) error { time.Sleep(time.Second); return nil }
				l := s.runner()
				var all []sandbox.Execution
				for i := range 4 {
					if runners > 1 {
						l = s.runner()
					}
					x, err := l.Start(t.Context(), in(fmt.Sprint(i), parallel))
					if err != nil {
						t.Fatal(err)
					}
					all = append(all, x)
				}
				made := 0
				for _, x := range all {
					r, err := x.Wait()
					if err != nil {
						t.Error(err)
					}
					if !r.Container.Reused {
						made++
					}
				}
				if n := len(s.Specs()); n != 1 || made != 1 {
					t.Errorf("%d containers made, %d commands say so", n, made)
				}
			})
		})
	}
}

func TestSessionEngineFaults(t *testing.T) {
	for name, fault := range map[string]func(s *stage) *sandboxtest.Fault{
		"create": func(s *stage) *sandboxtest.Fault { return &s.OnCreate },
		"adopt":  func(s *stage) *sandboxtest.Fault { return &s.OnAdopt },
		"exec":   func(s *stage) *sandboxtest.Fault { return &s.OnExec },
		"list":   func(s *stage) *sandboxtest.Fault { return &s.OnSessions },
	} {
		for how, strike := range map[string]sandboxtest.Fault{
			"fails": sandboxtest.Fail(&sandbox.Error{Cause: sandbox.CauseEngine, Message: "not now", Hint: "none"}), "hangs": sandboxtest.Hang,
		} {
			t.Run(name+" "+how, func(t *testing.T) {
				bubble(t, script{"serve": background("server")}, func(t *testing.T, s *stage) {
					if name != "create" {
						succeeds(t, s.runner(), in("serve"))
					}
					l := s.runner()
					*fault(s) = strike
					r := ran(t, l, sandbox.StatusFatal, sandbox.CauseEngine, in("fails"))
					what := "opening the session's container"
					if name == "exec" && s.Way == sandbox.WayInit {
						what = "starting the command"
					}
					if how == "hangs" && !strings.Contains(r.Message, what+" took longer than 1m:") {
						t.Errorf("message %q", r.Message)
					}
					*fault(s) = nil
					next := succeeds(t, l, in("next"))
					if next.SessionLost != "" || len(s.Specs()) != 1 {
						t.Errorf("lost %q, %d made", next.SessionLost, len(s.Specs()))
					}
					if name != "create" {
						wantRuns(t, next.Lingering, "server of serve")
					}
				})
			})
		}
	}
}

// A container that was made for a command which then did not start is the
// session's all the same.
func TestSessionWhoseFirstCommandFails(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *stage) {
		l := s.runner()
		s.OnExec = sandboxtest.Fail(errors.New("not now"))
		ran(t, l, sandbox.StatusFatal, sandbox.CauseEngine, in("first"))
		s.OnExec = nil
		if r := succeeds(t, l, in("next")); r.SessionLost != "" || len(s.Specs()) != 1 {
			t.Errorf("lost %q, %d made", r.SessionLost, len(s.Specs()))
		}
	})
}

// Once a bug of sessionTurn.place: a container in which no gate opens is in no record,
// so that nothing ends it when it is idle.
func TestContainerWithoutAGateIsRecorded(t *testing.T) {
	for name, found := range map[string]bool{"made": false, "found without a record": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, s *stage) {
				if found {
					succeeds(t, s.runner(), in("first"))
					if err := os.Remove(s.dir + "/sessions/dev.json"); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Hour)
				}
				l, began := s.runner(), time.Now()
				s.OnExec = func(context.Context) error { time.Sleep(time.Second); return errors.New("not now") }
				ran(t, l, sandbox.StatusFatal, sandbox.CauseEngine, in("fails"))
				used := began.Add(time.Second)
				i := s.info(t)
				if i.Lost != "" || i.Container != s.Left()[0].Info().ID || !i.LastUsed.Equal(used) || !i.IdleEnd.Equal(used.Add(30*time.Minute)) {
					t.Errorf("%+v", i)
				}
				for _, want := range []int{0, 1} {
					if n, err := l.ExpireSessions(t.Context()); n != want || err != nil {
						t.Errorf("%d sessions ended after %v, error %v", n, time.Since(used), err)
					}
					time.Sleep(30 * time.Minute)
				}
				wantNoneLeft(t, s.Engine)
			})
		})
	}
}

// A session whose container is being made, which may take long, holds up neither the list nor the end of other ones.
func TestSessionsWhileOneIsMade(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *stage) {
		l := s.runner()
		succeeds(t, l, in("first"))
		for _, box := range s.Left() {
			box.End()
			box.Remove(context.Background())
		}
		succeeds(t, l, in("first", func(c *sandbox.Command) { c.ID, c.Session = "second", "other" }))
		time.Sleep(time.Hour)
		s.OnCreate = func(context.Context) error { time.Sleep(50 * time.Second); return nil }
		x, err := l.Start(t.Context(), in("next"))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		began := time.Now()
		if list, err := l.Sessions(t.Context()); err != nil || len(list) != 2 || list[0].Lost == "" || list[1].Lost != "" || time.Since(began) > 10*time.Second {
			t.Errorf("%+v after %v, error %v", list, time.Since(began), err)
		}
		if n, err := s.runner().ExpireSessions(t.Context()); n != 1 || err != nil || time.Since(began) > 10*time.Second {
			t.Errorf("%d sessions ended after %v, error %v", n, time.Since(began), err)
		}
		if r, err := x.Wait(); err != nil || r.SessionLost == "" {
			t.Errorf("%+v, error %v", r, err)
		}
		if err := l.RemoveSession(t.Context(), "other"); err != nil { // it is known as lost
			t.Error(err)
		}
	})
}

func TestSessionGoneAtTheLastMoment(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *stage) {
		succeeds(t, s.runner(), in("first"))
		s.OnAdopt = func(context.Context) error {
			for _, box := range s.Left() {
				box.End()
				box.Remove(context.Background())
			}
			return nil
		}
		if r := succeeds(t, s.runner(), in("next")); r.SessionLost == "" || r.Container.Reused {
			t.Errorf("lost %q, %+v", r.SessionLost, r.Container)
		}
		s.OnAdopt = nil
	})
}

// Over pods, one process at a time can have a session's container: who lists sessions has it for a moment.
func TestSessionThatAnotherProcessLooksAt(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *stage) {
		succeeds(t, s.runner(), in("first"))
		until := time.Now().Add(time.Second)
		s.OnAdopt = func(context.Context) error {
			if time.Now().Before(until) {
				return &sandbox.Error{Cause: sandbox.CauseBusy, Message: "another process has it"}
			}
			return nil
		}
		if r := succeeds(t, s.runner(), in("next")); !r.Container.Reused || r.SessionLost != "" {
			t.Errorf("lost %q, %+v", r.SessionLost, r.Container)
		}
		until = time.Now().Add(time.Hour)
		began := time.Now()
		ran(t, s.runner(), sandbox.StatusFatal, sandbox.CauseBusy, in("later"))
		if err := s.runner().RemoveSession(t.Context(), "dev"); sandbox.CauseOf(err) != sandbox.CauseBusy {
			t.Errorf("error %v", err)
		}
		if took := time.Since(began); took < 2*time.Second || took > 20*time.Second {
			t.Errorf("it was refused after %v", took)
		}
		s.OnAdopt = nil
	})
}

func TestCorruptRecord(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *stage) {
		l := s.runner()
		succeeds(t, l, in("first"))
		if err := os.WriteFile(s.dir+"/sessions/dev.json", []byte(`{"session":`), 0o600); err != nil {
			t.Fatal(err)
		}
		want := `reading the record of session "dev": unexpected EOF (remove it: belljar session rm dev)`
		if r := ran(t, l, sandbox.StatusFatal, sandbox.CauseEngine, in("next")); r.Message != want {
			t.Errorf("message %q", r.Message)
		}
		if list, err := l.Sessions(t.Context()); err != nil || len(list) != 1 || list[0].Lost != want {
			t.Errorf("%+v, error %v", list, err)
		}
		if _, err := l.ExpireSessions(t.Context()); err == nil || err.Error() != want {
			t.Errorf("error %v", err)
		}
		if err := l.RemoveSession(t.Context(), "dev"); err != nil {
			t.Error(err)
		}
		wantNoneLeft(t, s.Engine)
		if r := succeeds(t, l, in("next")); r.Container.Reused {
			t.Errorf("%+v", r.Container)
		}
	})
}

// Once a bug: a command whose end could not be recorded seemed to use the session for ever.
func TestRecordThatCannotBeReadAtTheEnd(t *testing.T) {
	bubble(t, script{"long": sleep(time.Minute)}, func(t *testing.T, s *stage) {
		l, name := s.runner(), s.dir+"/sessions/dev.json"
		x, err := l.Start(t.Context(), in("long"))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		before, err := os.ReadFile(name)
		if err = errors.Join(err, os.WriteFile(name, []byte("{"), 0o600)); err != nil {
			t.Fatal(err)
		}
		if r, err := x.Wait(); err != nil || r.Status != sandbox.StatusSuccess {
			t.Errorf("%s (%s), error %v", r.Status, r.Message, err)
		}
		if err := os.WriteFile(name, before, 0o600); err != nil {
			t.Fatal(err)
		}
		state, err := l.GiveUpSession(t.Context(), "dev")
		if err != nil {
			t.Fatal(err)
		}
		if err := l.TakeOverSession(t.Context(), "dev", state, nil); err != nil {
			t.Error(err)
		}
	})
}

// Without a record, a session is known from the engine.
func TestSessionWithoutARecord(t *testing.T) {
	bubble(t, script{"serve": background("server"), "long": sleep(time.Hour)}, func(t *testing.T, s *stage) {
		l := s.runner()
		succeeds(t, l, in("serve"))
		if err := os.Remove(s.dir + "/sessions/dev.json"); err != nil {
			t.Fatal(err)
		}
		i := s.info(t)
		if i.Lost != "" || i.LastUsed != i.Created || i.IdleEnd != i.Deadline || i.Image != "belljar/base" || len(i.Runs) != 1 {
			t.Errorf("%+v", i)
		}
		if r := succeeds(t, l, in("next")); !r.Container.Reused || r.SessionLost != "" || r.Lingering[0].CommandID != "" {
			t.Errorf("%+v, lost %q, %+v", r.Container, r.SessionLost, r.Lingering)
		}
		// What ran before is not taken for the one command's that the record knows.
		r := ran(t, l, sandbox.StatusTimeout, sandbox.CauseWallTimeout, in("long", short, endCommand))
		if !strings.Contains(r.SessionLost, "it is unknown which command started process") || len(r.Lingering) != 2 || r.Lingering[0].CommandID != "" {
			t.Errorf("lost %q, left %+v", r.SessionLost, r.Lingering)
		}
	})
}

func TestUnwritableStateDir(t *testing.T) {
	s := newStage(t, nil)
	if err := os.WriteFile(s.dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := ran(t, s.runner(), sandbox.StatusFatal, sandbox.CauseEngine, in("x"))
	if !strings.HasPrefix(r.Message, "creating the sessions directory: ") || !strings.HasSuffix(r.Message, "(set XDG_STATE_HOME to a writable directory)") {
		t.Errorf("message %q", r.Message)
	}
	l := s.runner()
	l.StateDir = ""
	if _, err := l.Start(t.Context(), in("x")); sandbox.CauseOf(err) != sandbox.CauseInvalid || !strings.Contains(err.Error(), "set HOME or XDG_STATE_HOME") {
		t.Errorf("error %v", err)
	}
}

// Between commands a warm runner has a gate ready, which belongs to no command.
func TestSpareGate(t *testing.T) {
	var execs atomic.Int32
	bubbleBy(t, sandbox.WayExec, script{"serve": background("server"), "long": sleep(time.Hour)}, func(t *testing.T, s *stage) {
		s.OnExec = func(context.Context) error { execs.Add(1); return nil }
		warm := s.runner()
		warm.Warm()
		for i, want := range []int32{2, 3, 4} { // the first opens two, and each other one for the next
			r := succeeds(t, warm, in("serve"))
			if len(r.Lingering) != i+1 {
				t.Errorf("command %d: lingering %+v", i, r.Lingering)
			}
			synctest.Wait()
			if got := execs.Load(); got != want {
				t.Errorf("command %d: %d execs so far, want %d", i, got, want)
			}
		}
		wantRuns(t, s.info(t).Runs, "server of serve", "server of serve", "server of serve")
		// Another belljar sees no process in it either, and kills none.
		r := ran(t, s.runner(), sandbox.StatusTimeout, sandbox.CauseWallTimeout, in("long", short, endCommand))
		wantRuns(t, r.Evidence.Killed, "sh -c long of long")
		wantRuns(t, r.Lingering, "server of serve", "server of serve", "server of serve")
		before := execs.Load()
		succeeds(t, warm, in("again"))
		synctest.Wait()
		if got := execs.Load() - before; got != 1 {
			t.Errorf("the gate was not used: %d execs", got)
		}
		warm.Close()
		synctest.Wait()
		wantRuns(t, s.info(t).Runs, "server of serve", "server of serve", "server of serve")
		if len(s.Left()) != 1 {
			t.Error("Close ended the session")
		}
	})
}

// Where no gate answers, none is left, and the command needs none.
func TestSpareGateThatDoesNotAnswer(t *testing.T) {
	bubbleBy(t, sandbox.WayExec, nil, func(t *testing.T, s *stage) {
		l := s.runner()
		l.Warm()
		succeeds(t, l, in("first"))
		synctest.Wait()
		s.OnAnswer = sandboxtest.Fail(errors.New("no answer"))
		began := time.Now()
		r := succeeds(t, l, in("next"))
		if wantAfter(t, began, 14*time.Second); !r.Container.Reused { // two are asked for 2 s, and their ends waited for 5
			t.Errorf("%+v", r.Container)
		}
		l.Close()
		wantNoProcess(t, s)
	})
}

// wantNoProcess wants none in the session's container, not even a gate.
func wantNoProcess(t *testing.T, s *stage) {
	t.Helper()
	if list, err := s.Left()[0].Processes(t.Context()); err != nil || len(list) > 0 {
		t.Errorf("runs %+v, error %v", list, err)
	}
}

// Once a bug of sessionTurn.openGate: a shell that says too much gets no command,
// which is right, and left running with all that waits for it; and where none
// lasts, there is no command in the session any more.
func TestSessionWithOddGates(t *testing.T) {
	for name, gate := range map[string]func(p *sandboxtest.Proc) int{
		"killed":       func(*sandboxtest.Proc) int { return 137 },
		"no PID":       func(p *sandboxtest.Proc) int { fmt.Fprintln(p.Stdout, "hello"); p.Sleep(time.Hour); return 0 },
		"says more":    func(p *sandboxtest.Proc) int { fmt.Fprint(p.Stdout, "7\nhello\n"); p.Sleep(time.Hour); return 0 },
		"stands still": sleep(time.Hour),
	} {
		t.Run(name, func(t *testing.T) {
			bubbleBy(t, sandbox.WayExec, nil, func(t *testing.T, s *stage) {
				s.Gate = gate
				for i := range 3 {
					if r := succeeds(t, s.runner(), in("next")); r.Container.Reused != (i > 0) {
						t.Errorf("%+v", r.Container)
					}
				}
				wantNoProcess(t, s)
			})
		})
	}
}

// A gate that got its command and ends: the result blames it, and not the
// container, which lives and runs the next one.
func TestGateEndsWithItsCommand(t *testing.T) {
	bubbleBy(t, sandbox.WayExec, nil, func(t *testing.T, s *stage) {
		s.Gate = func(p *sandboxtest.Proc) int {
			fmt.Fprintln(p.Stdout, 7)
			for b := make([]byte, 1); ; {
				if p.Stdin.Read(b); b[0] != '\n' {
					return 137
				}
				fmt.Fprintln(p.Stdout)
			}
		}
		r := ran(t, s.runner(), sandbox.StatusFatal, sandbox.CauseEngineLost, in("first"))
		if !strings.Contains(r.Message, "waiting shell ended with SIGKILL") || r.SessionLost != "" {
			t.Errorf("%+v", r)
		}
		s.Gate = nil
		if r := succeeds(t, s.runner(), in("next")); !r.Container.Reused {
			t.Errorf("%+v", r.Container)
		}
	})
}

// Once a bug of sessionTurn: a session whose image has no shell is listed as one that was
// lost, from outside.
func TestSessionThatNeverBegan(t *testing.T) {
	for name, change := range map[string]func(*sandbox.Command){
		"by a gate":  func(*sandbox.Command) {},
		"by an exec": func(c *sandbox.Command) { c.TTY = &sandbox.TerminalSize{Rows: 24, Columns: 80} },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, s *stage) {
				s.OnExec = func(context.Context) error {
					for _, box := range s.Left() {
						box.End()
						box.Remove(context.Background())
					}
					return &sandbox.Error{Cause: sandbox.CauseImage, Message: "the image has no sh", Hint: "use another"}
				}
				l := s.runner()
				for range 2 {
					if r := ran(t, l, sandbox.StatusFatal, sandbox.CauseImage, in("x", change)); r.SessionLost != "" {
						t.Errorf("lost %q", r.SessionLost)
					}
					if list, err := l.Sessions(t.Context()); err != nil || len(list) > 0 {
						t.Errorf("%+v, error %v", list, err)
					}
				}
			})
		})
	}
}

// Once a bug: a parallel command that did not start closed the container that the others used.
func TestParallelCommandThatDoesNotStart(t *testing.T) {
	bubble(t, script{"long": func(p *sandboxtest.Proc) int { p.Sleep(time.Hour); return 0 }}, func(t *testing.T, s *stage) {
		var leave atomic.Pointer[context.CancelFunc] // of the caller of what is to be started
		s.OnExec = func(ctx context.Context) error {
			if leave := leave.Load(); leave != nil {
				(*leave)()
				<-ctx.Done()
			}
			return ctx.Err()
		}
		l := s.runner()
		succeeds(t, l, in("first"))
		x, err := l.Start(t.Context(), in("long", parallel, endCommand, short))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		leave.Store(&cancel)
		if r, _ := sandbox.Run(ctx, l, in("other", parallel)); r.Status != sandbox.StatusCanceled {
			t.Errorf("%s (%s)", r.Status, r.Message)
		}
		leave.Store(nil)
		r, err := x.Wait()
		if err != nil || r.Cause != sandbox.CauseWallTimeout || r.SessionLost != "" {
			t.Errorf("%s (%s), lost %q, %v", r.Cause, r.Message, r.SessionLost, err)
		}
		if r := succeeds(t, l, in("next")); !r.Container.Reused {
			t.Error("the session is another one")
		}
	})
}
