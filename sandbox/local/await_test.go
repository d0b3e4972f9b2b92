package local_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/local"
	"belljar/sandbox/sandboxtest"

	"github.com/google/go-cmp/cmp"
)

// otherProcess is a Local as another process has it, with the same state.
func otherProcess(l *local.Local) *local.Local {
	return &local.Local{StateDir: l.StateDir, Spool: l.Spool}
}

func asJSON(t *testing.T, r sandbox.Result) string {
	t.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Anyone who waits for a command gets the result that its caller got.
func TestAwait(t *testing.T) {
	flood := func(p *sandboxtest.Proc) int {
		for i := range 3000 {
			fmt.Fprintf(p.Stdout, "line é %d\n", i)
			fmt.Fprintf(p.Stderr, "\xff\x00%d", i)
		}
		p.Daemon("sleep 100", sleep(time.Hour))
		return 7
	}
	for name, l := range map[string]*local.Local{
		"ended":      keeping(t, playing(func(p *sandboxtest.Proc) int { fmt.Fprint(p.Stdout, "out"); return 0 })),
		"much":       keeping(t, playing(flood)),
		"never ran":  keeping(t, &sandboxtest.Engine{OnCreate: func(context.Context) error { return errors.New("no") }}),
		"no output":  keeping(t, playing(func(*sandboxtest.Proc) int { return 137 })),
		"replaced":   keeping(t, playing(flood)),
		"no streams": keeping(t, playing(flood)),
	} {
		t.Run(name, func(t *testing.T) {
			c := command()
			c.ID, c.Description, c.Limits.Output = "waited-for", "for "+name, 4<<10
			switch name {
			case "replaced":
				c.Encoding = sandbox.EncodingReplace
			case "no streams":
				c.Streams = sandbox.StreamsNone
			}
			x, err := l.Start(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			want, failed := x.Wait()
			got, _, err := otherProcess(l).Await(t.Context(), x.ID())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(asJSON(t, want), asJSON(t, got)); diff != "" {
				t.Error(diff)
			}
			if failed != nil && (got.Error == nil || got.Error.Error() != failed.Error()) {
				t.Errorf("error %+v, want %v", got.Error, failed)
			}
			files, err := os.ReadDir(filepath.Join(l.StateDir, "spool", x.ID()))
			if err != nil || slices.ContainsFunc(files, func(f os.DirEntry) bool { return strings.Contains(f.Name(), "new") || f.Type() != 0 }) {
				t.Errorf("left over: %v, %v", files, err)
			}
		})
	}
}

// To wait is to wait, and can be given up.
func TestAwaitWaits(t *testing.T) {
	release := make(chan struct{})
	l := keeping(t, playing(func(p *sandboxtest.Proc) int {
		fmt.Fprint(p.Stdout, "so far")
		<-release
		return 3
	}))
	x, err := l.Start(t.Context(), command())
	if err != nil {
		t.Fatal(err)
	}
	for e := range x.Events() {
		if e.Type == sandbox.EventStdout {
			break
		}
	}
	brief, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if r, _, err := otherProcess(l).Await(brief, x.ID()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%+v, %v", r, err)
	}
	lost := otherProcess(l)
	lost.StateDir = t.TempDir()
	copyRunning(t, filepath.Join(l.StateDir, "spool", x.ID()), filepath.Join(lost.StateDir, "spool", x.ID()))
	wantLost(t, lost, x.ID(), "so far")

	type answer struct {
		code int
		err  error
	}
	answers := make(chan answer)
	const waiters = 20
	for range waiters {
		go func() {
			r, _, err := otherProcess(l).Await(t.Context(), x.ID())
			answers <- answer{r.ExitCode, err}
		}()
	}
	select {
	case a := <-answers:
		t.Errorf("while it runs: %+v", a)
	case <-time.After(100 * time.Millisecond):
	}
	close(release)
	x.Wait()
	for range waiters {
		if a := <-answers; a.code != 3 || a.err != nil {
			t.Errorf("%+v", a)
		}
	}
}

// copyRunning has a spool be as it is when its belljar is killed at this moment.
func copyRunning(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// wantLost wants a command that is not forgotten, and of which nothing is made up.
func wantLost(t *testing.T, l *local.Local, id, stdout string) {
	t.Helper()
	r, _, err := l.Await(t.Context(), id)
	if err != nil || r.Status != sandbox.StatusFatal || r.Cause != sandbox.CauseEngineLost || r.ExitCode != sandbox.ExitNeverRan || r.Error == nil || r.ID != id ||
		r.Command != "the script" || string(r.Stdout.Bytes()) != stdout || r.Stdout.Total != int64(len(stdout)) || r.Stdout.SHA256 != "" {
		t.Errorf("%+v, %v", r, err)
	}
}

// What was said beside the output is there for those who come later, too.
func TestAwaitNotices(t *testing.T) {
	l := keeping(t, playing(func(*sandboxtest.Proc) int { return 0 }))
	p := profile()
	p.Policy = verdict(sandbox.Verdict{Decision: sandbox.Allow, Withheld: []string{"a thing"}})
	l.Profiles["default"] = p
	x, err := l.Start(t.Context(), command())
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for e := range x.Events() {
		if e.Type == sandbox.EventNotice {
			want = append(want, string(e.Data))
		}
	}
	_, got, err := otherProcess(l).Await(t.Context(), x.ID())
	if err != nil || len(want) != 1 || !slices.Equal(got, want) {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}

// A result that could not be written costs its details, not the command's fate.
func TestAwaitWithoutResult(t *testing.T) {
	for _, all := range []bool{false, true} {
		l := keeping(t, playing(talk))
		x, err := l.Start(t.Context(), command())
		if err != nil {
			t.Fatal(err)
		}
		want, _ := x.Wait()
		note := filepath.Join(l.StateDir, "spool", x.ID(), "command.json")
		if err := os.Truncate(note, 4096); err != nil {
			t.Fatal(err)
		}
		if all {
			if err := os.Remove(note); err != nil {
				t.Fatal(err)
			}
		}
		got, _, err := otherProcess(l).Await(t.Context(), x.ID())
		if all { // as in the middle of its removal
			if err == nil && got.Cause == sandbox.CauseEngineLost {
				t.Errorf("%+v", got)
			}
			continue
		}
		if err != nil || got.Status != want.Status || got.Cause != want.Cause || got.ExitCode != 3 || got.Message == "" {
			t.Errorf("%+v, %v", got, err)
		}
		if diff := cmp.Diff(want.Stdout, got.Stdout); diff != "" {
			t.Error(diff)
		}
	}
	l := keeping(t, playing(nil))
	for _, id := range []string{"", "..", "none"} {
		if _, _, err := l.Await(t.Context(), id); sandbox.CauseOf(err) != sandbox.CauseInvalid {
			t.Errorf("%q: %v", id, err)
		}
	}
}
