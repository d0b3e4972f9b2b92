package executions

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"belljar/cmd/internal/problem"
	"belljar/sandbox"
	"belljar/sandbox/sandboxtest"
)

// Parts that are sent again, in whole or in part, are typed once.
func TestInput(t *testing.T) {
	want := make([]byte, 100_000)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range want {
		want[i] = byte(random.Int())
	}
	i, err := NewInput([]byte("first "))
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan []byte)
	go func() {
		all, _ := io.ReadAll(i)
		got <- all
	}()
	for at := 0; at < len(want); {
		from := max(0, at-random.IntN(3000))
		to := min(len(want), at+random.IntN(5000))
		n, err := i.Write(t.Context(), int64(from), bytes.NewReader(want[from:to]), to == len(want))
		if err != nil || n != int64(max(at, to)) {
			t.Fatalf("%d to %d: %d, %v", from, to, n, err)
		}
		at = max(at, to)
	}
	if n, err := i.Write(t.Context(), int64(len(want)), strings.NewReader(""), true); err != nil || n != int64(len(want)) {
		t.Errorf("the end again: %d, %v", n, err)
	}
	if _, err := i.Write(t.Context(), int64(len(want)), strings.NewReader("more"), false); problem.Of(err).Code != problem.Conflict {
		t.Errorf("after the end: %v", err)
	}
	if all := <-got; string(all) != "first "+string(want) {
		t.Errorf("%d bytes arrived", len(all))
	}
	i.Close()
}

// Once a bug: the end of a stdin that is shorter than what was received was told to have come, and
// the command waited for it.
func TestInputEndsTooEarly(t *testing.T) {
	i, err := NewInput(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer i.Close()
	if n, err := i.Write(t.Context(), 0, strings.NewReader("hello"), false); n != 5 || err != nil {
		t.Fatal(n, err)
	}
	if _, err := i.Write(t.Context(), 1, strings.NewReader("el"), true); problem.Of(err).Code != problem.Conflict {
		t.Errorf("an end at offset 3 of 5: %v", err)
	}
	for range 2 {
		if n, err := i.Write(t.Context(), 1, strings.NewReader("ello"), true); n != 5 || err != nil {
			t.Errorf("the end: %d, %v", n, err)
		}
	}
	if all, err := io.ReadAll(i); string(all) != "hello" || err != nil {
		t.Errorf("%q, %v", all, err)
	}
}

// Once a bug: an input was taken for one that its client could not read to its end, although the part
// that said so was refused, and the rest came.
func TestInputFails(t *testing.T) {
	const why = "the disk is gone"
	for name, test := range map[string]struct {
		offset       int64
		part         string
		ends, failed bool
		want         string
	}{
		"after what came":    {5, " you", true, true, "hello you"},
		"with what came":     {1, "ello", true, true, "hello"},
		"the end in between": {1, "el", true, true, "hello"},
		"nothing":            {0, "", true, true, "hello"},
		"with a gap":         {7, "x", false, false, "hello there"},
	} {
		i, err := NewInput(nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := i.Write(t.Context(), 0, strings.NewReader("hello"), false); err != nil {
			t.Fatal(err)
		}
		if _, err := i.Fail(t.Context(), test.offset, strings.NewReader(test.part), why); (problem.Of(err) == nil) != test.ends {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := i.Write(t.Context(), 5, strings.NewReader(" there"), true); (err == nil) == test.ends {
			t.Errorf("%s, then the rest: %v", name, err)
		}
		if _, err := i.Fail(t.Context(), 0, strings.NewReader(""), why); err != nil {
			t.Errorf("%s, after the end: %v", name, err)
		}
		if all, err := io.ReadAll(i); string(all) != test.want || (err != nil) != test.failed || test.failed && err.Error() != why {
			t.Errorf("%s: %q, %v", name, all, err)
		}
		i.Close()
	}
}

func TestInputRefuses(t *testing.T) {
	i, err := NewInput(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := i.Write(t.Context(), 5, strings.NewReader("x"), false); problem.Of(err).Code != problem.Conflict {
		t.Errorf("with a gap: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	reads := 0
	part := readerFunc(func(p []byte) (int, error) { // of which no pipe takes all
		if reads++; reads == 2 {
			cancel()
		}
		return len(p), nil
	})
	n, err := i.Write(ctx, 0, part, false)
	if !errors.Is(err, context.Canceled) || n == 0 {
		t.Errorf("a command that does not read: %d, %v", n, err)
	}
	i.Close()
	if _, err := i.Write(t.Context(), n, strings.NewReader("x"), false); problem.Of(err).Code != problem.Conflict {
		t.Errorf("after the command's end: %v", err)
	}
}

// A client that begins a part and does not send it does not keep its command from ending.
func TestInputEndsWithoutItsClient(t *testing.T) {
	b := openBook(t, t.TempDir(), runner(t, t.TempDir(), func(p *sandboxtest.Proc) int {
		p.Stdin.Read(make([]byte, 1))
		return 0
	}))
	i, err := NewInput(nil)
	if err != nil {
		t.Fatal(err)
	}
	x := start(t, b, sandbox.Command{Script: "play"}, Request{Owner: "a", Input: i})
	part, client := io.Pipe()
	written := make(chan error)
	go func() {
		_, err := i.Write(t.Context(), 0, part, false)
		written <- err
	}()
	client.Write([]byte("x"))
	if _, err := x.Result(t.Context()); err != nil {
		t.Error(err)
	}
	client.Write([]byte("y"))
	if err := <-written; problem.Of(err).Code != problem.Conflict {
		t.Error(err)
	}
}

// Who cannot wait for the turn to write leaves, and spoils nothing for the others.
func TestInputAppend(t *testing.T) {
	i, err := NewInput(nil)
	if err != nil {
		t.Fatal(err)
	}
	full := make([]byte, 1<<20)
	for range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		all := make(chan error)
		for range 2 {
			go func() { all <- i.Append(ctx, bytes.NewReader(full), false) }()
		}
		cancel()
		for range 2 {
			if err := <-all; !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
		}
	}
	got := make(chan int)
	go func() {
		all, _ := io.ReadAll(i)
		got <- len(bytes.TrimLeft(all, "\x00"))
	}()
	for n := range 3 {
		if err := i.Append(t.Context(), strings.NewReader("new"), n == 2); err != nil {
			t.Error(err)
		}
	}
	if n := <-got; n != 9 {
		t.Errorf("%d bytes", n)
	}
	if err := i.Append(t.Context(), strings.NewReader("x"), false); problem.Of(err).Code != problem.Conflict {
		t.Errorf("after the end: %v", err)
	}
	i.Close()
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// A follower that holds the command and does not read is cut off, and the command goes on.
func TestStalled(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		const size = 2 * inMemory
		l := runner(t, dir, func(p *sandboxtest.Proc) int {
			for range size / 4096 {
				p.Stdout.Write(make([]byte, 4096))
			}
			return 0
		})
		b := openBook(t, dir, l)
		began := time.Now()
		x := start(t, b, sandbox.Command{Script: "flood"}, Request{Owner: "a"})
		f := x.Follow(0, true)
		defer f.Close()
		if r, err := x.Result(t.Context()); err != nil || r.Stdout.Total != size {
			t.Errorf("%d bytes, %v", r.Stdout.Total, err)
		}
		if took := time.Since(began); took < StallTime || took > 2*StallTime {
			t.Errorf("it waited %v", took)
		}
		if _, err := f.Next(t.Context()); !errors.Is(err, ErrCut) {
			t.Errorf("%v", err)
		}
		out, _, _ := streams(follow(t, x, 0, true))
		if len(out) != size {
			t.Errorf("%d bytes when it follows again", len(out))
		}
	})
}

// The journal of a command that writes byte after byte stays small.
func TestManySmallEvents(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		const size = 4 * manyEvents
		l := runner(t, dir, func(p *sandboxtest.Proc) int {
			for range size {
				p.Stdout.Write([]byte("x"))
				time.Sleep(time.Millisecond)
			}
			return 0
		})
		b := openBook(t, dir, l)
		x := start(t, b, sandbox.Command{Script: "drip"}, Request{Owner: "a"})
		events := follow(t, x, 0, true)
		if out, _, missing := streams(events); len(out) != size || missing != 0 {
			t.Errorf("%d bytes, %d missing", len(out), missing)
		}
		if n := len(events); n < manyEvents || n > 2*manyEvents {
			t.Errorf("%d events", n)
		}
	})
}
