package local_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/local"
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
func (s *stage) runner() *local.Local {
	p := profile()
	p.Session = sandbox.SessionLife{Idle: 30 * time.Minute, Max: 8 * time.Hour}
	return &local.Local{
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

func parallel(c *sandbox.Command) { c.Parallel = true }

func endCommand(c *sandbox.Command) { c.OnTimeout = sandbox.EndCommand }

func short(c *sandbox.Command) { c.Timeout = 10 * time.Second }

// ran runs a command that is to end with that status and cause.
func ran(t *testing.T, l *local.Local, status sandbox.Status, cause sandbox.Cause, c sandbox.Command) sandbox.Result {
	t.Helper()
	r, err := sandbox.Run(t.Context(), l, c)
	if r.Status != status || r.Cause != cause || (err != nil) != (status == sandbox.StatusFatal) {
		t.Errorf("%s: %s, %s (%s), error %v; want %s, %s", c.Script, r.Status, r.Cause, r.Message, err, status, cause)
	}
	return r
}

func succeeds(t *testing.T, l *local.Local, c sandbox.Command) sandbox.Result {
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
	if files, _ := filepath.Glob(s.dir + "/sessions/*.json*"); len(files) > 0 {
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
func notices(t *testing.T, l *local.Local, c sandbox.Command) (before, after []string) {
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

// bubble is a test in bubbles of its own, with a stage that is left empty, in each way in which
// commands start.
func bubble(t *testing.T, scripts script, test func(t *testing.T, s *stage)) {
	for _, way := range ways {
		t.Run(way, func(t *testing.T) { bubbleBy(t, way, scripts, test) })
	}
}

// bubbleBy is that in one way.
func bubbleBy(t *testing.T, way string, scripts script, test func(t *testing.T, s *stage)) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, scripts)
		s.Way = way
		defer s.done(t)
		test(t, s)
	})
}

func background(command string) func(p *sandboxtest.Proc) int {
	return func(p *sandboxtest.Proc) int { p.Start(command, quiet); return 0 }
}

func quiet(p *sandboxtest.Proc) int { p.CloseOutput(); p.Sleep(10 * time.Hour); return 0 }

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
				scripts[fmt.Sprint(i)] = func(p *sandboxtest.Proc) int { return seen.play(p) }
			}
			bubble(t, scripts, func(t *testing.T, s *stage) {
				seen = &trace{}
				var runners []*local.Local
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
				all := []*local.Local{s.runner(), s.runner()}
				waiter := all[runners-1]
				first, err := all[0].Start(t.Context(), in("long"))
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				began := time.Now()
				r := ran(t, waiter, sandbox.StatusFatal, sandbox.CauseBusy, in("late"))
				wantAfter(t, began, time.Minute)
				if !strings.HasPrefix(r.Message, `busy: another command runs in session "dev", and did not end within 1m (retry after `) {
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
