package executions

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"belljar/cmd/internal/problem"
	"belljar/sandbox"
	"belljar/sandbox/local"
	"belljar/sandbox/sandboxtest"
)

// nobody answers no question, and says when one is asked.
type nobody chan struct{}

func (n nobody) Approve(ctx context.Context, _ sandbox.Question) (sandbox.Approval, error) {
	n <- struct{}{}
	<-ctx.Done()
	return sandbox.Approval{}, ctx.Err()
}

// asking is a Runner that asks about every command.
func asking(t *testing.T, dir string) *local.Local {
	l := runner(t, dir, func(*sandboxtest.Proc) int { return 0 })
	p := l.Profiles[sandbox.DefaultProfile]
	p.Policy = sandboxtest.Judge{}
	l.Profiles[sandbox.DefaultProfile] = p
	return l
}

// An execution that waits for an approval when its server dies is known to the next one.
func TestCrashWhileItWaits(t *testing.T) {
	dir, asked := t.TempDir(), make(nobody, 1)
	l := asking(t, dir)
	b := openBook(t, dir, l)
	l.Approver = b.Approver(asked)
	r := Request{Owner: "a", Key: "k", Body: []byte("body"), Detached: true}
	x := start(t, b, sandbox.Command{Script: "echo asked"}, r)
	<-asked
	if x.State() != Waiting {
		t.Errorf("it is %s", x.State())
	}
	text, err := os.ReadFile(x.file)
	if err != nil {
		t.Fatal(err)
	}
	b.Close()
	for n := len(text) - len(waitsLine); n <= len(text); n += len(waitsLine) {
		if err := os.WriteFile(x.file, text[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		again := openBook(t, dir, l)
		found, err := again.Find(x.ID)
		if waited := n == len(text); waited != (err == nil) {
			t.Fatalf("%d of %d bytes: %v", n, len(text), err)
		}
		if err == nil {
			result, notices, err := found.Ending(t.Context())
			if err != nil || len(notices) > 0 || result.Cause != sandbox.CauseEngineLost || result.ExitCode != sandbox.ExitNeverRan || !strings.Contains(result.Message, "before the command began") {
				t.Errorf("%+v, %v", result, err)
			}
			if events := follow(t, found, 0, false); len(events) != 1 || events[0].Result == nil {
				t.Errorf("%+v", events)
			}
			if same, err := again.Start(t.Context(), sandbox.Command{Script: "echo asked"}, r); err != nil || same.ID != x.ID {
				t.Errorf("its key: %v, %v", same, err)
			}
		}
		again.Close()
	}
}

// Once a bug: an execution that a client was told of was unknown, where its server was killed before there was a log.
func TestCrashAsItBegins(t *testing.T) {
	for name, events := range map[string]int{"without an event": 0, "with events": 3} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			l := runner(t, dir, writing)
			b := openBook(t, dir, l)
			r := Request{Owner: "a", Key: "k", Body: []byte("body"), Detached: true}
			x := start(t, b, sandbox.Command{Script: "write"}, r)
			follow(t, x, 0, true)
			b.Close()
			text, err := os.ReadFile(x.file)
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.SplitAfter(string(text), "\n")
			if lines[1] != beginsLine {
				t.Fatalf("line 2 is %q", lines[1])
			}
			crash := func() *Execution {
				if err := os.WriteFile(x.file, []byte(strings.Join(lines[:2+events], "")), 0o600); err != nil {
					t.Fatal(err)
				}
				b = openBook(t, dir, l)
				found, err := b.Find(x.ID)
				if err != nil {
					t.Fatal(err)
				}
				return found
			}
			if result, _, err := crash().Ending(t.Context()); err != nil || result.ExitCode != 7 {
				t.Errorf("with its log: %+v, %v", result, err)
			}
			b.Close()
			if err := os.RemoveAll(filepath.Join(dir, "spool", x.ID)); err != nil {
				t.Fatal(err)
			}
			found := crash()
			defer b.Close()
			result, _, err := found.Ending(t.Context())
			if err != nil || result.Cause != sandbox.CauseEngineLost || !strings.Contains(result.Message, "may have run") {
				t.Errorf("%+v, %v", result, err)
			}
			for after := range uint64(events + 2) {
				all := found.Follow(after, false)
				e, err := all.Next(t.Context())
				if after == uint64(events+1) {
					if !errors.Is(err, io.EOF) {
						t.Errorf("after the result: %+v, %v", e, err)
					}
				} else if err != nil || e.Result == nil || e.Seq != uint64(events+1) {
					t.Errorf("after event %d: %+v, %v", after, e, err)
				}
				all.Close()
			}
			if same, err := b.Start(t.Context(), sandbox.Command{Script: "write"}, r); err != nil || same.ID != x.ID {
				t.Errorf("its key: %v, %v", same, err)
			}
		})
	}
}

// Once a bug: a result that could not be written was forgotten within minutes.
func TestSweepKeepsWhatIsInMemory(t *testing.T) {
	dir := t.TempDir()
	l := runner(t, dir, writing)
	b := openBook(t, dir, l)
	if err := os.WriteFile(filepath.Join(dir, "spool"), nil, 0o600); err != nil { // no directory
		t.Fatal(err)
	}
	x := start(t, b, sandbox.Command{Script: "write"}, Request{Owner: "a", Key: "k"})
	want := len(follow(t, x, 0, true))
	for b.Uses(x.Session) { // "": until it is no longer live
		time.Sleep(time.Millisecond)
	}
	b.Sweep()
	found, err := b.Find(x.ID)
	if err != nil {
		t.Fatal(err)
	}
	if r, _, err := found.Ending(t.Context()); err != nil || r.ExitCode != 7 {
		t.Errorf("%+v, %v", r, err)
	}
	if events := follow(t, found, 0, false); len(events) != want {
		t.Errorf("%d events, want %d", len(events), want)
	}
	b.Keep = 0
	b.Sweep()
	if _, err := b.Find(x.ID); err == nil {
		t.Error("it is never forgotten")
	}
}

// Once a bug: an ID that another server on the same spool has was accepted, and ended as
// invalid_command.
func TestIDOfAnotherServer(t *testing.T) {
	dir := t.TempDir()
	l := runner(t, dir, writing)
	x := start(t, openBook(t, dir, l), sandbox.Command{ID: "mine", Script: "write"}, Request{Owner: "a"})
	follow(t, x, 0, true)
	other, err := Open(Config{Runner: l, Logs: l, Dir: filepath.Join(t.TempDir(), "executions"), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	_, started := other.Start(t.Context(), sandbox.Command{ID: "mine", Script: "write"}, Request{Owner: "a"})
	_, held := other.Hold(t.Context(), sandbox.Command{ID: "mine", Script: "write"}, Request{Owner: "a"})
	for _, err := range []error{started, held} {
		if p, ok := errors.AsType[*problem.Problem](err); !ok || p.Code != problem.Conflict {
			t.Errorf("%v", err)
		}
	}
}

// Once a bug: a command that was held, began and had lost its caller ran on, although it was to be canceled then.
func TestHeldBeganFirst(t *testing.T) {
	dir := t.TempDir()
	b := openBook(t, dir, runner(t, dir, writing))
	left, leave := context.WithCancel(t.Context())
	leave()
	for range 20 {
		held, err := b.Hold(t.Context(), sandbox.Command{Script: "write"}, Request{Owner: "a"})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.StartHeld(t.Context(), held.ID, func(string) bool { return true }); err != nil {
			t.Fatal(err)
		}
		if x := held.Started(left); x == nil || x.ID != held.ID {
			t.Fatalf("%+v", x)
		}
		held.Close()
	}
	held, err := b.Hold(t.Context(), sandbox.Command{Script: "write"}, Request{Owner: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if x := held.Started(left); x != nil {
		t.Errorf("%+v", x)
	}
}

// A journal may be larger than the output that it describes: spool.total bounds both.
func TestJournalCounts(t *testing.T) {
	dir := t.TempDir()
	l := runner(t, dir, func(p *sandboxtest.Proc) int {
		for range 500 {
			p.Stdout.Write([]byte("o"))
			p.Stderr.Write([]byte("e"))
		}
		return 0
	})
	b := openBook(t, dir, l)
	x := start(t, b, sandbox.Command{Script: "drip"}, Request{Owner: "a"})
	follow(t, x, 0, true)
	x = record(t, b, x.ID)
	ours, err := os.Stat(x.file)
	if err != nil {
		t.Fatal(err)
	}
	beside, err := os.Stat(filepath.Join(dir, "spool", x.ID, "beside"))
	if err != nil || !os.SameFile(ours, beside) {
		t.Fatalf("it does not count: %v", err)
	}
	if logs, err := l.Logs(t.Context()); err != nil || len(logs) != 1 {
		t.Errorf("%+v, %v", logs, err)
	}
	if events := follow(t, x, 0, false); len(events) < 100 {
		t.Errorf("%d events", len(events))
	}
	x.count() // again, as after a crash
	l.Spool.Total = 1
	os.Remove(filepath.Join(dir, "spool", ".swept"))
	if err := l.SweepLogs(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.Sweep()
	if _, err := os.Stat(x.file); err == nil {
		t.Error("it stays after its output")
	}
}

// Once a bug: a journal whose first line was cut by a crash was warned of at each start.
func TestCutRecord(t *testing.T) {
	dir := t.TempDir()
	l := runner(t, dir, writing)
	b := openBook(t, dir, l)
	b.Close()
	for name, text := range map[string]string{"cut": `{"id":"x","ow`, "garbage": "\x00\x00\n", "none": "\n"} {
		file := filepath.Join(b.Dir, name+journalSuffix)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		openBook(t, dir, l).Close()
		if _, err := os.Stat(file); err == nil {
			t.Errorf("%s stays", name)
		}
	}
}
