package local_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/local"
	"belljar/sandbox/sandboxtest"

	"github.com/google/go-cmp/cmp"
)

// filesStage has a session in which play is what moves files.
func filesStage(t *testing.T, play func(p *sandboxtest.Proc) int, test func(t *testing.T, l *local.Local, a *auditor)) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, script{"first": func(*sandboxtest.Proc) int { return 0 }})
		s.Script = func(next func(p *sandboxtest.Proc) int) func(p *sandboxtest.Proc) int {
			return func(p *sandboxtest.Proc) int {
				switch {
				case !strings.HasPrefix(p.Script, "# "):
					return next(p)
				case strings.Contains(p.Script, `exec rm -rf "./$T"`):
					begun(p)
					return 0
				}
				return play(p)
			}
		}(s.Script)
		defer s.done(t)
		l, a := s.runner(), &auditor{}
		defer l.Close()
		l.Auditor = a
		if r, err := sandbox.Run(t.Context(), l, in("first")); err != nil || r.ExitCode != 0 {
			t.Fatalf("%+v, %v", r, err)
		}
		test(t, l, a)
		list, err := l.Sessions(t.Context())
		if err != nil || len(list) != 1 || list[0].Lost != "" || len(list[0].Runs) > 0 {
			t.Errorf("sessions %+v, %v", list, err)
		}
		if err := l.RemoveSession(t.Context(), list[0].Name); err != nil {
			t.Error(err)
		}
	})
}

// begun says that it waits for its line, and reads it.
func begun(p *sandboxtest.Proc) {
	io.WriteString(p.Stdout, "\n")
	p.Stdin.Read(make([]byte, 1))
}

func at(path string) sandbox.SessionPath {
	return sandbox.SessionPath{Session: in("").Session, Path: path, Caller: sandbox.Caller{FrontEnd: "test", User: "ci"}}
}

// What hangs or trickles is ended after a known time, and the session stays.
func TestFilesTimes(t *testing.T) {
	for name, test := range map[string]struct {
		play  func(p *sandboxtest.Proc) int
		after time.Duration
		says  string
	}{
		"mute":                   {func(p *sandboxtest.Proc) int { p.Sleep(24 * time.Hour); return 0 }, 10 * time.Second, "the shell in the container does not answer"},
		"it says something else": {func(p *sandboxtest.Proc) int { io.WriteString(p.Stdout, "x"); p.Sleep(24 * time.Hour); return 0 }, 10 * time.Second, "the shell in the container does not answer"},
		"it hangs":               {func(p *sandboxtest.Proc) int { begun(p); p.Sleep(24 * time.Hour); return 0 }, time.Minute, "nothing moved for 1m"},
		"it trickles": {func(p *sandboxtest.Proc) int {
			begun(p)
			for {
				io.WriteString(p.Stdout, "x")
				p.Sleep(50 * time.Second)
			}
		}, time.Hour, "does not end within 1h"},
		"it complains": {func(p *sandboxtest.Proc) int {
			begun(p)
			for {
				io.WriteString(p.Stderr, "tar: \x1b[31m\n")
				p.Sleep(50 * time.Second)
			}
		}, time.Minute, "nothing moved for 1m"},
	} {
		t.Run(name, func(t *testing.T) {
			filesStage(t, test.play, func(t *testing.T, l *local.Local, _ *auditor) {
				began := time.Now()
				err := l.ReadFile(t.Context(), at("f"), io.Discard)
				if !strings.Contains(fmt.Sprint(err), test.says) {
					t.Errorf("error %v", err)
				}
				wantAfter(t, began, test.after+10*time.Millisecond) // it looks twice whether all are killed
			})
		})
	}
}

// Its end is not the copy's alone: what the container wrote comes whole, slowly.
func TestFilesSlow(t *testing.T) {
	play := func(p *sandboxtest.Proc) int {
		begun(p)
		if strings.Contains(p.Script, "exec cat") {
			for range 3 {
				io.WriteString(p.Stdout, "part ")
				p.Sleep(50 * time.Second)
			}
			return 0
		}
		text, _ := io.ReadAll(p.Stdin)
		if string(text) != "from the caller" {
			return 1
		}
		return 0
	}
	filesStage(t, play, func(t *testing.T, l *local.Local, _ *auditor) {
		var b bytes.Buffer
		if err := l.ReadFile(t.Context(), at("f"), &b); err != nil || b.String() != "part part part " {
			t.Errorf("%q, %v", &b, err)
		}
		from, to := io.Pipe()
		go func() {
			time.Sleep(10 * time.Minute) // longer than the container may
			io.WriteString(to, "from the caller")
			to.Close()
		}()
		if err := l.WriteFile(t.Context(), at("f"), 0o600, 15, from); err != nil {
			t.Error(err)
		}
		err := l.WriteFile(t.Context(), at("f"), 0o600, 16, strings.NewReader("from the caller"))
		if !strings.Contains(fmt.Sprint(err), "15 bytes instead of 16") {
			t.Error(err)
		}
		broken := errors.New("the disk is broken")
		if err := l.WriteFile(t.Context(), at("f"), 0o600, 16, io.MultiReader(strings.NewReader("x"), breaks{broken})); !errors.Is(err, broken) {
			t.Error(err)
		}
		if err := l.ReadFile(t.Context(), at("f"), breaks{broken}); !errors.Is(err, broken) {
			t.Error(err)
		}
	})
}

type breaks struct{ error }

func (f breaks) Read([]byte) (int, error)  { return 0, f.error }
func (f breaks) Write([]byte) (int, error) { return 0, f.error }

// A canceled copy ends at once, whatever the container does, and is recorded as one.
func TestFilesCanceled(t *testing.T) {
	for name, play := range map[string]func(p *sandboxtest.Proc) int{
		"before it begins": func(p *sandboxtest.Proc) int { p.Sleep(24 * time.Hour); return 0 },
		"in the middle": func(p *sandboxtest.Proc) int {
			begun(p)
			p.Trap("SIGTERM", "SIGINT", "SIGHUP")
			p.Sleep(24 * time.Hour)
			return 0
		},
	} {
		t.Run(name, func(t *testing.T) {
			filesStage(t, play, func(t *testing.T, l *local.Local, a *auditor) {
				for what, do := range map[string]func(context.Context) error{
					"read": func(ctx context.Context) error { return l.ReadTar(ctx, at("d"), io.Discard) },
					"write": func(ctx context.Context) error {
						from, to := io.Pipe()
						defer to.Close() // what was abandoned ends then
						return l.WriteTar(ctx, at("d"), from)
					},
				} {
					began := time.Now()
					if err := do(cancelAfter(t, 5*time.Second)); sandbox.CauseOf(err) != sandbox.CauseCanceled {
						t.Errorf("%s: %v", what, err)
					}
					if took := time.Since(began); took > 7*time.Second {
						t.Errorf("%s ended after %s", what, took)
					}
				}
				last := a.records[len(a.records)-1]
				if last.Type != "files_end" || !strings.Contains(last.Error, "canceled") {
					t.Errorf("recorded: %+v", last)
				}
			})
		})
	}
}

func TestFilesAudit(t *testing.T) {
	ran := 0
	play := func(p *sandboxtest.Proc) int { ran++; begun(p); io.WriteString(p.Stdout, "four"); return 0 }
	filesStage(t, play, func(t *testing.T, l *local.Local, a *auditor) {
		a.records = nil
		l.ReadFile(t.Context(), at("/work/./f"), io.Discard)
		l.ReadFile(t.Context(), at("../f"), io.Discard)
		if len(a.records) != 2 || a.records[0].ID == "" || a.records[0].ID != a.records[1].ID {
			t.Fatalf("records %+v", a.records)
		}
		want := sandbox.AuditRecord{Type: "files", Caller: at("").Caller, Session: at("").Session, Action: "ReadFile", Path: "f"}
		end := want
		end.Type, end.Bytes = "files_end", 4
		for i := range a.records {
			a.records[i].Time, a.records[i].ID = time.Time{}, ""
		}
		if diff := cmp.Diff([]sandbox.AuditRecord{want, end}, a.records); diff != "" {
			t.Error(diff)
		}
		watched := at("d")
		watched.Again = true
		if l.ListFiles(t.Context(), watched); len(a.records) != 2 {
			t.Errorf("a list for one who watches: %+v", a.records)
		}
		a.fail = func(sandbox.AuditRecord) error { return errFull }
		ran = 0
		if err := l.ReadFile(t.Context(), at("f"), io.Discard); !errors.Is(err, errFull) || ran > 0 {
			t.Errorf("%v; it ran %d times", err, ran)
		}
		l.AuditOnError = sandbox.AuditContinue
		if err := l.ReadFile(t.Context(), at("f"), io.Discard); err != nil || ran != 1 {
			t.Errorf("%v; it ran %d times", err, ran)
		}
	})
}

// What is refused is refused before anything runs.
func TestFilesRefused(t *testing.T) {
	ran := false
	filesStage(t, func(*sandboxtest.Proc) int { ran = true; return 0 }, func(t *testing.T, l *local.Local, _ *auditor) {
		for path, says := range map[string]string{
			"..": "has a", "a/../b": "has a", "/etc/passwd": "outside the workspace /work", "/": "outside", "/workshop": "outside", "a\x00b": "NUL", "\xff": "UTF-8",
			strings.Repeat("x/", 2049): "is longer", "": "is a directory", ".": "is a directory", "/work": "is a directory", "d/.": "is a directory",
		} {
			for what, err := range map[string]error{
				"read":   l.ReadFile(t.Context(), at(path), io.Discard),
				"write":  l.WriteFile(t.Context(), at(path), 0, 0, nil),
				"remove": l.RemoveFile(t.Context(), at(path)),
			} {
				if sandbox.CauseOf(err) != sandbox.CauseInvalid || !strings.Contains(err.Error(), says) {
					t.Errorf("%s %q: %v", what, path, err)
				}
			}
		}
		if ran {
			t.Error("something ran")
		}
	})
}

// Once a bug: a copy that took longer than the session's idle time lost the session.
func TestCopyIsUse(t *testing.T) {
	trickle := func(p *sandboxtest.Proc) int {
		begun(p)
		for range 45 {
			io.WriteString(p.Stdout, "x")
			p.Sleep(50 * time.Second)
		}
		return 0
	}
	filesStage(t, trickle, func(t *testing.T, l *local.Local, _ *auditor) {
		copied := make(chan error, 1)
		var out bytes.Buffer
		go func() { copied <- l.ReadFile(t.Context(), at("file"), &out) }()
		for range 36 {
			time.Sleep(time.Minute)
			if n, err := l.ExpireSessions(t.Context()); n > 0 || err != nil {
				t.Fatalf("%d expired, %v", n, err)
			}
		}
		if err := <-copied; err != nil || out.Len() != 45 {
			t.Errorf("%v, %q", err, &out)
		}
	})
}
