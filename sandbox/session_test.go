package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/sandboxtest"
)

// script is what the scripts of these tests do, by their text.
type script = map[string]func(p *sandboxtest.Proc) int

// stage is an engine, and the directory that all runners on it share.
type stage struct {
	*sandboxtest.Engine
	dir string
}

func newStage(t *testing.T, scripts script) *stage {
	engine := playing(func(p *sandboxtest.Proc) int {
		if play := scripts[p.Script]; play != nil {
			return play(p)
		}
		return 0
	})
	return &stage{engine, filepath.Join(t.TempDir(), "sessions")}
}

// runner is a belljar of its own.
func (s *stage) runner() *sandbox.Local {
	p := profile()
	p.Session = sandbox.SessionLife{Idle: 30 * time.Minute, Max: 8 * time.Hour}
	return &sandbox.Local{
		Engine: s.Engine, Images: &sandboxtest.Images{}, StateDir: s.dir,
		Profiles: map[string]sandbox.Profile{sandbox.DefaultProfile: p}, Admission: sandbox.Admission{MaxWait: time.Minute},
	}
}

// in is a command of the session dev.
func in(text string, change ...func(*sandbox.Command)) sandbox.Command {
	c := sandbox.Command{ID: strings.ReplaceAll(text, " ", "-"), Script: text, Session: "dev"}
	for _, change := range change {
		change(&c)
	}
	return c
}

func parallel(c *sandbox.Command)   { c.Parallel = true }
func endCommand(c *sandbox.Command) { c.OnTimeout = sandbox.EndCommand }
func short(c *sandbox.Command)      { c.Timeout = 10 * time.Second }

// ran runs a command that is to end with that status and cause.
func ran(t *testing.T, l *sandbox.Local, status sandbox.Status, cause sandbox.Cause, c sandbox.Command) sandbox.Result {
	t.Helper()
	r, err := sandbox.Run(t.Context(), l, c)
	if r.Status != status || r.Cause != cause || (err != nil) != (status == sandbox.StatusFatal) {
		t.Errorf("%s: %s, %s (%s), error %v; want %s, %s", c.Script, r.Status, r.Cause, r.Message, err, status, cause)
	}
	return r
}

func succeeds(t *testing.T, l *sandbox.Local, c sandbox.Command) sandbox.Result {
	t.Helper()
	return ran(t, l, sandbox.StatusSuccess, sandbox.CauseExited, c)
}

// done removes the session, and wants nothing left of it.
func (s *stage) done(t *testing.T) {
	t.Helper()
	l := s.runner()
	if err := l.RemoveSession(context.Background(), "dev"); err != nil && sandbox.CauseOf(err) != sandbox.CauseInvalid {
		t.Errorf("RemoveSession: %v", err)
	}
	wantNoneLeft(t, s.Engine)
	if files, _ := filepath.Glob(s.dir + "/*.json*"); len(files) > 0 {
		t.Errorf("files left: %q", files)
	}
}

// info is the one session that there is.
func (s *stage) info(t *testing.T) sandbox.SessionInfo {
	t.Helper()
	list, err := s.runner().Sessions(t.Context())
	if err != nil || len(list) != 1 {
		t.Fatalf("sessions %+v, error %v", list, err)
	}
	return list[0]
}

// wantRuns wants processes as "command of ID".
func wantRuns(t *testing.T, list []sandbox.Process, want ...string) {
	t.Helper()
	var got []string
	for _, p := range list {
		got = append(got, p.Command+" of "+p.CommandID)
	}
	if !slices.Equal(got, want) {
		t.Errorf("runs %q, want %q", got, want)
	}
}

// notices are the command's, before its start and after.
func notices(t *testing.T, l *sandbox.Local, c sandbox.Command) (before, after []string) {
	t.Helper()
	x, err := l.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	started := false
	for e := range x.Events() {
		switch {
		case e.Type == sandbox.EventStart:
			started = true
		case e.Type == sandbox.EventNotice && started:
			after = append(after, string(e.Data))
		case e.Type == sandbox.EventNotice:
			before = append(before, string(e.Data))
		}
	}
	return before, after
}

// bubble is a test in a bubble of its own, with a stage that is left empty.
func bubble(t *testing.T, scripts script, test func(t *testing.T, s *stage)) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, scripts)
		defer s.done(t)
		test(t, s)
	})
}

func background(command string) func(p *sandboxtest.Proc) int {
	return func(p *sandboxtest.Proc) int { p.Start(command, quiet); return 0 }
}

func quiet(p *sandboxtest.Proc) int { p.CloseOutput(); p.Sleep(10 * time.Hour); return 0 }

func TestSessionIsMadeOnceAndFound(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *stage) {
		l := s.runner()
		var ids []string
		for i, runner := range []*sandbox.Local{l, l, s.runner(), s.runner()} {
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

// Each command is told all that is its own, and nothing of the last one's.
func TestSessionCommandsAreTheirOwn(t *testing.T) {
	var told []sandbox.Exec
	bubble(t, script{"tell": func(p *sandboxtest.Proc) int { told = append(told, p.Exec); return 0 }}, func(t *testing.T, s *stage) {
		l := s.runner()
		succeeds(t, l, in("tell", func(c *sandbox.Command) { c.Dir, c.Env = "/tmp", []string{"A=1"} }))
		succeeds(t, l, in("tell", func(c *sandbox.Command) { c.Env = []string{"B=2"} }))
		succeeds(t, l, in("tell", func(c *sandbox.Command) { c.Env = []string{"RANDOM=3"} })) // which no gate can be told
		for i, want := range []string{"/tmp A=1", "/work B=2", "/work RANDOM=3"} {
			dir, kv, _ := strings.Cut(want, " ")
			if x := told[i]; x.Dir != dir || !slices.Contains(x.Env, kv) || strings.Count(strings.Join(x.Env, " "), "=") != strings.Count(strings.Join(told[0].Env, " "), "=") {
				t.Errorf("command %d is told %q %q, want %q", i, x.Dir, x.Env, want)
			}
		}
	})
}

// trace is what commands of a session say of when they run.
type trace struct {
	mu           sync.Mutex
	begun        []string
	active, most int
}

func (tr *trace) play(p *sandboxtest.Proc) int {
	tr.mu.Lock()
	tr.begun = append(tr.begun, p.Script)
	tr.active++
	tr.most = max(tr.most, tr.active)
	tr.mu.Unlock()
	p.Sleep(10 * time.Second)
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.active--
	return 0
}

func TestSessionTurns(t *testing.T) {
	for name, test := range map[string]struct {
		runners  int
		parallel []bool // of each command, begun in this order
		most     int
		took     time.Duration
	}{
		"one at a time":          {1, []bool{false, false, false, false}, 1, 40 * time.Second},
		"also among belljars":    {2, []bool{false, false, false, false}, 1, 40 * time.Second},
		"beside each other":      {1, []bool{true, true, true}, 3, 10 * time.Second},
		"in different belljars":  {2, []bool{true, true, true}, 3, 10 * time.Second},
		"not beside a serial":    {1, []bool{false, true, true}, 2, 20 * time.Second},
		"nor in another belljar": {2, []bool{true, false}, 1, 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			seen, scripts := &trace{}, script{}
			for i := range test.parallel {
				scripts[fmt.Sprint(i)] = seen.play
			}
			bubble(t, scripts, func(t *testing.T, s *stage) {
				var runners []*sandbox.Local
				for range test.runners {
					runners = append(runners, s.runner())
				}
				began := time.Now()
				var all []sandbox.Execution
				for i, parallel := range test.parallel {
					c := in(fmt.Sprint(i))
					c.Parallel = parallel
					x, err := runners[i%test.runners].Start(t.Context(), c)
					if err != nil {
						t.Fatal(err)
					}
					all = append(all, x)
					synctest.Wait()
				}
				for _, x := range all {
					if r, err := x.Wait(); err != nil || r.Status != sandbox.StatusSuccess {
						t.Errorf("%s: %v", r.Message, err)
					}
				}
				// Another belljar's turn is asked for again and again.
				if took := time.Since(began).Truncate(time.Second); seen.most != test.most || took != test.took {
					t.Errorf("%d at once, in %v; want %d, in %v", seen.most, took, test.most, test.took)
				}
				if test.runners == 1 && !slices.IsSorted(seen.begun) && test.most == 1 {
					t.Errorf("begun in the order %q", seen.begun)
				}
				if n := len(s.Specs()); n != 1 {
					t.Errorf("%d containers made", n)
				}
			})
		})
	}
}

func TestSessionWait(t *testing.T) {
	for name, runners := range map[string]int{"in one belljar": 1, "in two": 2} {
		t.Run(name, func(t *testing.T) {
			bubble(t, script{"long": sleep(2 * time.Minute)}, func(t *testing.T, s *stage) {
				all := []*sandbox.Local{s.runner(), s.runner()}
				waiter := all[runners-1]
				first, err := all[0].Start(t.Context(), in("long"))
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				began := time.Now()
				r := ran(t, waiter, sandbox.StatusFatal, sandbox.CauseBusy, in("late"))
				wantAfter(t, began, time.Minute)
				if !strings.HasPrefix(r.Message, "busy: no turn within 1m0s (retry after ") {
					t.Errorf("message %q", r.Message)
				}
				began = time.Now()
				r, err = sandbox.Run(cancelAfter(t, 20*time.Second), waiter, in("canceled"))
				wantFate(t, r, sandbox.StatusCanceled, sandbox.CauseCanceled, sandbox.ExitNeverRan)
				if wantAfter(t, began, 20*time.Second); err != nil {
					t.Error(err)
				}
				if r, err := first.Wait(); err != nil || r.Status != sandbox.StatusSuccess {
					t.Errorf("%+v, %v", r, err)
				}
				succeeds(t, waiter, in("next"))
			})
		})
	}
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
			"user":    func(c *sandbox.Command) { c.User = sandbox.User{UID: 1000, GID: 1000} },
			"network": func(c *sandbox.Command) { c.Network = "bridge" },
			"runtime": func(c *sandbox.Command) { c.Runtime = "runsc" },
			"mounts":  func(c *sandbox.Command) { c.Mounts = []sandbox.Mount{{Source: dir, Target: "/mnt"}} },
		} {
			for _, runner := range []*sandbox.Local{l, s.runner()} {
				runner.Profiles = l.Profiles
				r := ran(t, runner, sandbox.StatusFatal, sandbox.CauseInvalid, in("mismatch", change))
				if !strings.Contains(r.Message, `session "dev" was made with another image, user,`) || !strings.HasSuffix(r.Message, "or remove it: belljar session rm dev)") || r.SessionLost != "" {
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

func (permissive) AllowEnv(string) bool           { return true }
func (permissive) CheckMount(sandbox.Mount) error { return nil }
func (permissive) Writable(string) bool           { return false }

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
				if len(before) != 1 || before[0] != `session "dev" was lost, with its files and processes: `+why+"; a new container is made" || after != nil {
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

// Whoever ends a session, or a command in it, is told at once, and once.
func TestTimeoutTellsOfTheSession(t *testing.T) {
	for want, end := range map[string]func(*sandbox.Command){
		`session "dev" is lost, with its files and processes`:                           func(*sandbox.Command) {},
		`1 of the command's processes were killed, and are gone; session "dev" goes on`: endCommand,
	} {
		bubble(t, script{"long": say("partial")}, func(t *testing.T, s *stage) {
			if before, after := notices(t, s.runner(), in("long", short, end)); len(before) > 0 || !slices.Equal(after, []string{want}) {
				t.Errorf("notices %q before the start and %q after, want %q", before, after, want)
			}
		})
	}
}

func TestNextCommandsResultTellsOfTheLoss(t *testing.T) {
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

// A command that no gate can be told has processes as well.
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
				if env != nil {
					// Whose the other's processes are is not known here.
					if !strings.Contains(r.SessionLost, "which command started process") || len(r.Evidence.Killed) > 0 {
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
		"whose a process is, is not known": {script{"long": daemon}, nil, "command long: still running after 10s (timeout); that its processes are gone could not be proved: which command started process "},
		"the engine does not kill":         {script{"long": sleep(time.Hour)}, sandboxtest.Fail(errors.New("no kill today")), "could not be proved: no kill today"},
	} {
		t.Run(name, func(t *testing.T) {
			test.scripts["serve"] = background("server")
			bubble(t, test.scripts, func(t *testing.T, s *stage) {
				s.OnKill = test.fault
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
		if err != nil || !strings.Contains(r.SessionLost, "that its processes are gone could not be proved: some were left, or new ones had come, after 5s") {
			t.Errorf("lost %q, %v", r.SessionLost, err)
		}
		wantNoneLeft(t, s.Engine)
		bomb.Store(false)
	})
}

func TestSessionRemovedFromOutside(t *testing.T) {
	const why = "its container was removed from outside, or ended with the engine"
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
			if r.SessionLost != "command killed: its container ended, not by belljar" {
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
		succeeds(t, l, in("serve")) // which begins its idle time anew
		time.Sleep(29 * time.Minute)
		expire(0)
		if i := s.info(t); i.IdleEnd != i.LastUsed.Add(30*time.Minute) || i.Deadline != i.Created.Add(8*time.Hour) {
			t.Errorf("%+v", i)
		}
		time.Sleep(time.Minute)
		expire(1)
		expire(0)
		wantNoneLeft(t, s.Engine)
		if i := s.info(t); i.Lost != "no command for 30m0s" {
			t.Errorf("%+v", i)
		}
		time.Sleep(23 * time.Hour)
		expire(0)
		if i := s.info(t); i.Lost != "no command for 30m0s" {
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

// The engine ends a session's container at its deadline: that is told as such.
func TestSessionPastItsDeadline(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *stage) {
		l := s.runner()
		succeeds(t, l, in("first"))
		if d := s.Specs()[0].Deadline; d != time.Now().Add(8*time.Hour) {
			t.Errorf("deadline %v", d)
		}
		time.Sleep(8*time.Hour + time.Second)
		s.Left()[0].Remove(t.Context())
		if r := succeeds(t, l, in("next")); !strings.HasPrefix(r.SessionLost, "its time was over at 2000-01-01T") {
			t.Errorf("lost %q", r.SessionLost)
		}
	})
}

func TestDeadlineDuringACommand(t *testing.T) {
	bubble(t, script{"long": func(p *sandboxtest.Proc) int { p.Sleep(8*time.Hour - time.Second/2); p.KillContainer(); return 0 }}, func(t *testing.T, s *stage) {
		r := ran(t, s.runner(), sandbox.StatusFatal, sandbox.CauseEngineLost, in("long", func(c *sandbox.Command) { c.Timeout, c.IdleTimeout = 9*time.Hour, sandbox.NoIdleTimeout }))
		if !strings.HasPrefix(r.SessionLost, "command long: its time was over at 2000-01-01T") {
			t.Errorf("lost %q", r.SessionLost)
		}
		s.Left()[0].Remove(t.Context())
	})
}

func TestRemoveSession(t *testing.T) {
	t.Run("that is not there", func(t *testing.T) {
		bubble(t, nil, func(t *testing.T, s *stage) {
			for name, want := range map[string]string{"dev": `no session "dev" (see: belljar session ls)`, "../x": "session name", "": "session name"} {
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
					if how == "hangs" && !strings.Contains(r.Message, "opening the session's container took more than 1m0s") {
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

func TestCorruptRecord(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *stage) {
		l := s.runner()
		succeeds(t, l, in("first"))
		if err := os.WriteFile(s.dir+"/dev.json", []byte(`{"session":`), 0o600); err != nil {
			t.Fatal(err)
		}
		want := `reading what is known of session "dev": unexpected EOF (remove it: belljar session rm dev)`
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

// Without a record, a session is known by what the engine tells of it.
func TestSessionWithoutARecord(t *testing.T) {
	bubble(t, script{"serve": background("server")}, func(t *testing.T, s *stage) {
		l := s.runner()
		succeeds(t, l, in("serve"))
		if err := os.Remove(s.dir + "/dev.json"); err != nil {
			t.Fatal(err)
		}
		i := s.info(t)
		if i.Lost != "" || i.LastUsed != i.Created || i.IdleEnd != i.Deadline || i.Image != "belljar/base" || len(i.Runs) != 1 {
			t.Errorf("%+v", i)
		}
		if r := succeeds(t, l, in("next")); !r.Container.Reused || r.SessionLost != "" {
			t.Errorf("%+v, lost %q", r.Container, r.SessionLost)
		}
	})
}

func TestUnwritableStateDir(t *testing.T) {
	s := newStage(t, nil)
	if err := os.WriteFile(s.dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := ran(t, s.runner(), sandbox.StatusFatal, sandbox.CauseEngine, in("x"))
	if !strings.HasPrefix(r.Message, "making the directory for sessions: ") || !strings.HasSuffix(r.Message, "(set XDG_STATE_HOME to one that can be written)") {
		t.Errorf("message %q", r.Message)
	}
	l := s.runner()
	l.StateDir = ""
	if _, err := l.Start(t.Context(), in("x")); sandbox.CauseOf(err) != sandbox.CauseInvalid || !strings.Contains(err.Error(), "set HOME or XDG_STATE_HOME") {
		t.Errorf("error %v", err)
	}
}

// Between commands a warm runner has a gate ready, which is nobody's process.
func TestSpareGate(t *testing.T) {
	var execs atomic.Int32
	bubble(t, script{"serve": background("server"), "long": sleep(time.Hour)}, func(t *testing.T, s *stage) {
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

func TestSpareGateThatDoesNotAnswer(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *stage) {
		l := s.runner()
		l.Warm()
		succeeds(t, l, in("first"))
		synctest.Wait()
		s.OnAnswer = sandboxtest.Fail(errors.New("no answer"))
		began := time.Now()
		r := succeeds(t, l, in("next"))
		if wantAfter(t, began, 7*time.Second); !r.Container.Reused { // it is asked for 2 s, and its end waited for 5
			t.Errorf("%+v", r.Container)
		}
		l.Close()
	})
}
