package boxlink

import (
	"io"
	"net"
	"sync/atomic"
	"testing"

	"belljar/internal/boxinit"
	"belljar/internal/boxinit/boxinittest"
)

// Engines share links over connections of their own: what holds for one type holds for each.
func TestShared(t *testing.T) {
	t.Run("stdio", func(t *testing.T) {
		testShared(t, func() duplex {
			cmd := boxinittest.Command(t, boxinit.Config{Carrier: boxinit.Frames, UID: initUID})
			in, out := stdio(t, cmd)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			file(cmd.Stdin).Close()
			file(cmd.Stdout).Close()
			t.Cleanup(func() { cmd.Wait() })
			return duplex{out, in, out}
		})
	})
	t.Run("channel", func(t *testing.T) {
		_, all := channels(t)
		testShared(t, func() io.ReadWriteCloser {
			all = all[1:]
			return all[0]
		})
	})
}

func testShared[C io.ReadWriteCloser](t *testing.T, connect func() C) {
	var table Table[C]
	var yields atomic.Int64
	fresh := func(id string) *Shared[C] {
		t.Helper()
		s := &Shared[C]{Conn: connect(), Yield: func() { yields.Add(1) }}
		if err := s.Greet(within(t)); err != nil {
			t.Fatal(err)
		}
		table.Add(id, s)
		return s
	}

	first := fresh("a")
	if table.Use("a") != first || table.Use("b") != nil {
		t.Error("the link of a container is another's")
	}
	first.Release()
	if out, _, _ := run(t, first.Link, script("echo on", nil, nil)); out != "on\n" || first.Broken() || yields.Load() != 0 {
		t.Errorf("a user is left, and the link is of no use: %q, %d", out, yields.Load())
	}
	first.Release()
	if !first.Broken() || yields.Load() != 1 || table.Use("a") != nil {
		t.Errorf("the last user released it: broken %v, %d", first.Broken(), yields.Load())
	}

	// A broken one makes room for another, and its last user leaves that alone.
	broken := fresh("a")
	broken.Close()
	broken.Close()
	if table.Use("a") != nil || yields.Load() != 2 {
		t.Errorf("a broken link is given to a new user, or gave up its place %d times", yields.Load())
	}
	second := fresh("a")
	broken.Release()
	if table.Use("a") != second || yields.Load() != 2 {
		t.Error("the last user of a broken link ended the next one")
	}

	// The table's end ends all, and waits for who follows.
	followed := false
	second.Follow(func() {
		defer second.Release()
		<-second.Done()
		followed = true
	})
	table.Close()
	if !followed || !second.Broken() || yields.Load() != 3 {
		t.Errorf("followed %v, broken %v, %d", followed, second.Broken(), yields.Load())
	}
	second.Release()
	second.Release()
	if yields.Load() != 3 {
		t.Error("it was closed again")
	}
}

// A link that gets no answer is closed.
func TestGreetFails(t *testing.T) {
	ours, theirs := net.Pipe()
	theirs.Close()
	yielded := false
	s := &Shared[net.Conn]{Conn: ours, Yield: func() { yielded = true }}
	if err := s.Greet(within(t)); err == nil || !yielded {
		t.Errorf("error %v, yielded %v", err, yielded)
	}
}
