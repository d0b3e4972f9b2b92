package executions

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/local"
	"belljar/sandbox/sandboxtest"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// runner runs play as every command, and keeps output in dir.
func runner(t *testing.T, dir string, play func(*sandboxtest.Proc) int) *local.Local {
	t.Helper()
	p := sandbox.Defaults().Profile
	p.Pool = sandbox.PoolSize{Max: sandbox.NoPool}
	l := local.New(&sandboxtest.Engine{Script: play}, &sandboxtest.Images{})
	l.Profiles = map[string]sandbox.Profile{sandbox.DefaultProfile: p}
	l.StateDir = dir
	t.Cleanup(l.Close)
	return l
}

func openBook(t *testing.T, dir string, l *local.Local) *Book {
	t.Helper()
	b, err := Open(Config{Runner: l, Logs: l, Dir: filepath.Join(dir, "executions"), Keep: time.Hour, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop, cancel := context.WithCancel(context.Background())
		cancel()
		b.Drain(stop)
		b.Close()
	})
	return b
}

func start(t *testing.T, b *Book, c sandbox.Command, r Request) *Execution {
	t.Helper()
	x, err := b.Start(t.Context(), c, r)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// follow reads the events after a number to the end.
func follow(t *testing.T, x *Execution, after uint64, hold bool) (list []sandbox.Event) {
	t.Helper()
	f := x.Follow(after, hold)
	defer f.Close()
	for {
		e, err := f.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatalf("after event %d: %v", after+uint64(len(list)), err)
		}
		if e.Seq != after+uint64(len(list))+1 {
			t.Fatalf("event %d comes after %d", e.Seq, after+uint64(len(list)))
		}
		list = append(list, e)
	}
}

// record is what the book knows of an execution that ended.
func record(t *testing.T, b *Book, id string) *Execution {
	t.Helper()
	for t.Context().Err() == nil {
		x, err := b.Find(id)
		if err != nil || x.State() != Ended {
			t.Fatalf("%v, %v", x, err)
		}
		if x.log == nil {
			return x
		}
		runtime.Gosched()
	}
	return nil
}

// lines are events as a client gets them.
func lines(t *testing.T, events []sandbox.Event) (list []string) {
	t.Helper()
	for _, e := range events {
		e.Time = time.UnixMicro(e.Time.UnixMicro()).UTC() // as the journal has it
		if e.Type == sandbox.EventResult {
			e.Time, e.Result = time.Time{}, &sandbox.Result{ID: e.Result.ID, Status: e.Result.Status, Stdout: e.Result.Stdout}
		}
		text, err := e.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, string(text))
	}
	return list
}

// writing is a command that writes on both streams.
func writing(p *sandboxtest.Proc) int {
	for i := range 50 {
		p.Stdout.Write([]byte(strings.Repeat("é", i) + "\n"))
		p.Stderr.Write([]byte("e\xff\x00" + strings.Repeat("x", i)))
	}
	return 7
}

// Whoever follows, whenever and from wherever, gets the same events.
func TestSameEvents(t *testing.T) {
	for _, encoding := range []sandbox.Encoding{sandbox.EncodingExact, sandbox.EncodingReplace} {
		dir := t.TempDir()
		l := runner(t, dir, writing)
		b := openBook(t, dir, l)
		x := start(t, b, sandbox.Command{Script: "write", Encoding: encoding}, Request{Owner: "a"})
		live := lines(t, follow(t, x, 0, true))
		if len(live) < 4 {
			t.Fatalf("%d events", len(live))
		}
		ended := record(t, b, x.ID)
		for after := range live {
			if diff := cmp.Diff(live[after:], lines(t, follow(t, ended, uint64(after), false))); diff != "" {
				t.Errorf("%s, after %d: %s", encoding, after, diff)
			}
			if diff := cmp.Diff(live[after:], lines(t, follow(t, x, uint64(after), true))); diff != "" {
				t.Errorf("%s, in memory after %d: %s", encoding, after, diff)
			}
		}
		if rest := follow(t, ended, uint64(len(live)), false); len(rest) != 0 {
			t.Errorf("%d events after the last", len(rest))
		}
	}
}

// streams are the bytes that events have.
func streams(events []sandbox.Event) (out, errs []byte, missing int64) {
	for _, e := range events {
		switch e.Type {
		case sandbox.EventStdout:
			out = append(out, e.Data...)
			missing += e.LeftOut
		case sandbox.EventStderr:
			errs = append(errs, e.Data...)
			missing += e.LeftOut
		}
	}
	return out, errs, missing
}

// A server that is killed leaves a journal that ends anywhere. The next one completes it,
// and what a client had stays what it was.
func TestAfterCrash(t *testing.T) {
	dir := t.TempDir()
	l := runner(t, dir, writing)
	b := openBook(t, dir, l)
	x := start(t, b, sandbox.Command{Script: "write"}, Request{Owner: "a", Key: "k", Body: []byte("body")})
	before := follow(t, x, 0, true)
	live := lines(t, before)
	wantOut, wantErr, _ := streams(before)
	whole, err := os.ReadFile(x.file)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	head := bytes.IndexByte(whole, '\n') + 1
	for n := head; n < len(whole); n += 31 {
		if err := os.WriteFile(x.file, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		again := openBook(t, dir, l)
		found, err := again.Find(x.ID)
		if err != nil {
			t.Fatal(err)
		}
		had := max(0, bytes.Count(whole[head:n], []byte("\n"))-1) // without beginsLine
		after := follow(t, found, 0, false)
		if diff := cmp.Diff(live[:had], lines(t, after)[:had]); diff != "" {
			t.Errorf("%d bytes: %s", n, diff)
		}
		out, errs, missing := streams(after)
		if !bytes.Equal(out, wantOut) || !bytes.Equal(errs, wantErr) || missing != 0 {
			t.Errorf("%d bytes: the output changed", n)
		}
		if last := after[len(after)-1]; last.Type != sandbox.EventResult || last.Result.ExitCode != 7 {
			t.Errorf("%d bytes: it ends with %+v", n, last)
		}
		same, err := again.Start(t.Context(), sandbox.Command{Script: "write"}, Request{Owner: "a", Key: "k", Body: []byte("body")})
		if err != nil || same.ID != x.ID {
			t.Fatalf("the key is forgotten: %v, %v", same, err)
		}
		if _, err := again.Start(t.Context(), sandbox.Command{Script: "write"}, Request{Owner: "a", Key: "k", Body: []byte("other")}); err == nil {
			t.Fatal("the key is good for another request")
		}
		again.Close()
	}
}

// Of many requests with one key one begins, and all get it.
func TestOneKey(t *testing.T) {
	dir := t.TempDir()
	release := make(chan struct{})
	l := runner(t, dir, func(*sandboxtest.Proc) int { <-release; return 0 })
	b := openBook(t, dir, l)
	ids := make(chan string, 40)
	for i := range 40 {
		owner := []string{"a", "b"}[i%2]
		go func() {
			x, err := b.Start(context.Background(), sandbox.Command{Script: "wait"}, Request{Owner: owner, Key: "k"})
			if err != nil {
				t.Error(err)
				ids <- ""
				return
			}
			ids <- x.ID
		}()
	}
	var all []string
	for range 40 {
		all = append(all, <-ids)
	}
	close(release)
	slices.Sort(all)
	if all = slices.Compact(all); len(all) != 2 {
		t.Errorf("two owners have %d executions", len(all))
	}
}

// What does not begin leaves the key to the next try.
func TestRefused(t *testing.T) {
	dir := t.TempDir()
	l := runner(t, dir, func(*sandboxtest.Proc) int { return 0 })
	refused := 0
	b := openBook(t, dir, l)
	b.Refused = func(sandbox.Command, error) { refused++ }
	r := Request{Owner: "a", Key: "k"}
	if _, err := b.Start(t.Context(), sandbox.Command{Script: ""}, r); sandbox.CauseOf(err) != sandbox.CauseInvalid {
		t.Fatalf("%v", err)
	}
	x := start(t, b, sandbox.Command{Script: "true"}, r)
	follow(t, x, 0, true)
	if refused != 1 {
		t.Errorf("%d refused", refused)
	}
	if _, err := b.Start(t.Context(), sandbox.Command{ID: x.ID, Script: "true"}, Request{Owner: "b"}); err == nil {
		t.Error("an ID is given twice")
	}
	b.Close()
	if left, _ := filepath.Glob(filepath.Join(b.Dir, "*.journal")); len(left) != 1 {
		t.Errorf("%d journals are left", len(left))
	}
}

// A follower that holds the command gets all of it, however slow it is; one that does not
// learns what it missed.
func TestHold(t *testing.T) {
	const size = 4 << 20
	dir := t.TempDir()
	l := runner(t, dir, func(p *sandboxtest.Proc) int {
		for i, n := 0, 0; n < size; i++ { // of many sizes
			some := min(1+i*i%40_000, size-n)
			p.Stdout.Write(bytes.Repeat([]byte{byte('a' + i%26)}, some))
			n += some
		}
		return 0
	})
	b := openBook(t, dir, l)
	limits := sandbox.Limits{Output: 64 << 10}
	x := start(t, b, sandbox.Command{Script: "flood", Limits: limits}, Request{Owner: "a"})
	out, _, missing := streams(follow(t, x, 0, true))
	if len(out) != size || missing != 0 {
		t.Errorf("%d bytes, %d missing", len(out), missing)
	}
	late := record(t, b, x.ID)
	kept, _, missing := streams(follow(t, late, 0, false))
	if int64(len(kept))+missing != size || missing < size-limits.Output-64<<10 || !bytes.HasPrefix(out, kept[:16<<10]) {
		t.Errorf("%d bytes and %d missing", len(kept), missing)
	}
}

// Draining cancels what does not end, and its result says why.
func TestDrain(t *testing.T) {
	dir := t.TempDir()
	l := runner(t, dir, func(p *sandboxtest.Proc) int { p.Stdout.Write([]byte("so far")); <-p.Killed; return 137 })
	b := openBook(t, dir, l)
	x := start(t, b, sandbox.Command{Script: "sleep"}, Request{Owner: "a", Key: "k"})
	f := x.Follow(0, true)
	defer f.Close()
	for {
		if e, err := f.Next(t.Context()); err != nil || e.Type == sandbox.EventStdout {
			break
		}
	}
	now, cancel := context.WithCancel(t.Context())
	cancel()
	b.Drain(now)
	r, err := x.Result(t.Context())
	if err != nil || r.Cause != sandbox.CauseCanceled || !strings.Contains(r.Message, "the sidecar is shutting down") || string(r.Stdout.Bytes()) != "so far" {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := b.Start(t.Context(), sandbox.Command{Script: "more"}, Request{Owner: "a"}); err == nil {
		t.Error("it begins something while it drains")
	}
	if same, err := b.Start(t.Context(), sandbox.Command{Script: "sleep"}, Request{Owner: "a", Key: "k"}); err != nil || same.ID != x.ID {
		t.Errorf("%v, %v: the key is known while it drains", same, err)
	}
}

// What is no longer kept is forgotten, with its key.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	l := runner(t, dir, writing)
	b := openBook(t, dir, l)
	x := start(t, b, sandbox.Command{Script: "write"}, Request{Owner: "a", Key: "k"})
	follow(t, x, 0, true)
	b.Sweep()
	if _, err := b.Find(x.ID); err != nil {
		t.Errorf("it is forgotten while it is kept: %v", err)
	}
	record(t, b, x.ID) // its result is on the disk, and no longer in memory
	if err := os.RemoveAll(filepath.Join(dir, "spool", x.ID)); err != nil {
		t.Fatal(err)
	}
	b.Sweep()
	if _, err := b.Find(x.ID); err == nil {
		t.Error("it is known when nothing is kept any more")
	}
	if again := start(t, b, sandbox.Command{Script: "write"}, Request{Owner: "a", Key: "k"}); again.ID == x.ID {
		t.Error("its key is known")
	}
}

func TestOneServer(t *testing.T) {
	dir := t.TempDir()
	l := runner(t, dir, writing)
	openBook(t, dir, l)
	if _, err := Open(Config{Runner: l, Logs: l, Dir: filepath.Join(dir, "executions"), Log: slog.New(slog.DiscardHandler)}); err == nil {
		t.Error("two servers have one directory")
	}
}

// Once a bug: on a new machine, there is no state directory yet.
func TestFirstStart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state", "belljar")
	b := openBook(t, dir, runner(t, dir, writing))
	if about, err := os.Stat(b.Dir); err != nil || about.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", about, err)
	}
}

// What is told at once of an end is what is told later, from the disk.
func TestEnding(t *testing.T) {
	dir := t.TempDir()
	l := runner(t, dir, func(p *sandboxtest.Proc) int {
		p.Stdout.Write(bytes.Repeat([]byte("output\x00"), 1000))
		return 3
	})
	b := openBook(t, dir, l)
	x := start(t, b, sandbox.Command{Script: "write", Limits: sandbox.Limits{Result: 1024}}, Request{Owner: "a"})
	now, notices, err := x.Ending(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	later, kept, err := record(t, b, x.ID).Ending(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	nowJSON, err := sandbox.JSON(now)
	laterJSON, errLater := sandbox.JSON(later)
	if diff := cmp.Diff(string(laterJSON), string(nowJSON)); diff != "" || now.ExitCode != 3 || err != nil || errLater != nil {
		t.Errorf("the result differs (%v, %v): %s", err, errLater, diff)
	}
	if !slices.Equal(notices, kept) {
		t.Errorf("notices %q, kept %q", notices, kept)
	}
}

// Once a bug: after the largest number came all events again.
func TestFollowAfterAll(t *testing.T) {
	dir := t.TempDir()
	b := openBook(t, dir, runner(t, dir, func(*sandboxtest.Proc) int { return 0 }))
	x := start(t, b, sandbox.Command{Script: "true"}, Request{Owner: "a"})
	<-x.Done()
	for _, x := range []*Execution{x, record(t, b, x.ID)} {
		f := x.Follow(math.MaxUint64, false)
		if e, err := f.Next(t.Context()); !errors.Is(err, io.EOF) {
			t.Errorf("%+v, %v", e, err)
		}
		f.Close()
	}
}
