package executions

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"belljar/cmd/internal/problem"
	"belljar/sandbox"
	"belljar/sandbox/sandboxtest"

	"golang.org/x/sys/unix"
)

// full gives a running execution a journal that cannot grow, as on a full disk, with the lines that it has.
func full(t *testing.T, x *Execution) *os.File {
	t.Helper()
	x.log.mu.Lock()
	defer x.log.mu.Unlock()
	text, err := os.ReadFile(x.file)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.MemfdCreate("journal", unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "journal")
	t.Cleanup(func() { file.Close() })
	if _, err := file.Write(text); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_GROW); err != nil {
		t.Fatal(err)
	}
	x.log.file = file
	return file
}

// Once a bug: a server that started after the disk was full gave the rest of the output new numbers. A
// client that continued lost bytes, got some twice, or waited for ever.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	more := make(chan struct{})
	l := runner(t, dir, func(p *sandboxtest.Proc) int {
		p.Stdout.Write([]byte("before\n"))
		<-more
		for range 40 {
			p.Stdout.Write(bytes.Repeat([]byte("x"), mergeSize-1))
			p.Stderr.Write([]byte("e"))
		}
		return 7
	})
	b := openBook(t, dir, l)
	x := start(t, b, sandbox.Command{Script: "write"}, Request{Owner: "a"})
	late, live := x.Follow(0, false), x.Follow(0, true)
	defer late.Close()
	defer live.Close()
	next := func(f *Follower, want sandbox.EventType, seq uint64) {
		t.Helper()
		if e, err := f.Next(t.Context()); err != nil || e.Type != want || e.Seq != seq {
			t.Fatalf("%+v, %v, want %s with number %d", e, err, want, seq)
		}
	}
	for _, f := range []*Follower{late, live} {
		next(f, sandbox.EventStart, 1)
		next(f, sandbox.EventStdout, 2)
	}
	file := full(t, x)
	close(more)
	all := uint64(2)
	for e, err := live.Next(t.Context()); !errors.Is(err, io.EOF); e, err = live.Next(t.Context()) {
		if err != nil || e.Seq != all+1 {
			t.Fatalf("event %d after %d, %v", e.Seq, all, err)
		}
		all++
	}
	if all < 20 {
		t.Fatalf("%d events", all)
	}
	next(late, sandbox.EventNotice, 3)
	next(late, sandbox.EventResult, 4)
	if e, err := late.Next(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("after the result: %+v, %v", e, err)
	}
	record(t, b, x.ID)
	about, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	text := make([]byte, about.Size())
	if _, err := file.ReadAt(text, 0); err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(text, []byte(`"cut":true `)) {
		t.Fatalf("the record does not say it: %s", text)
	}
	b.Close()
	for range 2 { // also where the first server to find it has room
		if err := os.WriteFile(x.file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		again := openBook(t, dir, l)
		found, err := again.Find(x.ID)
		if err != nil {
			t.Fatal(err)
		}
		for after := range all + 1 {
			events := follow(t, found, after, false)
			last := len(events) - 1
			if last < 1 || events[last].Result == nil || events[last].Result.ExitCode != 7 || !strings.Contains(string(events[last-1].Data), "could not be recorded") || after >= 2 && last != 1 {
				t.Fatalf("after %d: %+v", after, events)
			}
		}
		again.Close()
	}
}

// Once a bug: what follows an event that there is not was an empty answer, or never came.
func TestCheckAfter(t *testing.T) {
	dir := t.TempDir()
	more := make(chan struct{})
	l := runner(t, dir, func(p *sandboxtest.Proc) int { p.Stdout.Write([]byte("one\n")); <-more; return 0 })
	b := openBook(t, dir, l)
	x := start(t, b, sandbox.Command{Script: "write"}, Request{Owner: "a"})
	f := x.Follow(0, true)
	defer f.Close()
	for range 2 {
		if _, err := f.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	check := func(x *Execution, after uint64, last, ok bool) {
		t.Helper()
		is, err := x.CheckAfter(after)
		if is != last || (err == nil) != ok || err != nil && problem.Of(err).Status != 422 {
			t.Errorf("after %d: %v, %v", after, is, err)
		}
	}
	check(x, 0, false, true)
	check(x, 2, false, true)
	check(x, 3, false, false)
	close(more)
	<-x.Done()
	ended := record(t, b, x.ID)
	for _, x := range []*Execution{x, ended} {
		check(x, 0, false, true)
		check(x, 2, false, true)
		check(x, 3, true, true)
		check(x, 4, false, false)
		check(x, 1<<64-1, false, false)
	}
}
