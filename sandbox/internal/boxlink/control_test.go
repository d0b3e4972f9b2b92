package boxlink

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"belljar/internal/boxinit"
	"belljar/internal/boxinit/boxinittest"
	"belljar/internal/boxinit/wire"
)

func list(t testing.TB, l *Link) Listing {
	t.Helper()
	found, err := l.List(within(t))
	if err != nil {
		t.Fatalf("listing: %v", err)
	}
	return found
}

// settled reports whether all in the list stand still. One that stops in the kernel, as in a fork, is for a moment
// neither: both texts are of the same list.
func settled(l Listing) bool {
	return len(l.Processes) == len(l.PIDs) && !slices.ContainsFunc(l.Processes, func(p Listed) bool {
		return !strings.Contains(p.Status, "State:\tT") && !strings.Contains(p.Status, "State:\tZ") &&
			!strings.Contains(p.Status, "State:\tD") && !strings.Contains(p.Stat, ") D ")
	})
}

// Processes that come and go are all listed once everything is stopped, and run on.
func TestStopAndList(t *testing.T) {
	each(t, func(t *testing.T, l *Link) {
		const fork = `b() { sleep 0.01; b & }; for i in 1 2 3 4 5; do b & done; echo ready; while :; do sleep 0.01; done`
		out := &watched{}
		start(t, l, script("trap 'echo on' CONT; "+fork, out, io.Discard))
		out.await(t, "ready\n")
		for range 20 {
			if err := l.StopAll(within(t)); err != nil {
				t.Fatal(err)
			}
			first := list(t, l)
			for ctx := within(t); !settled(first) && ctx.Err() == nil; { // on a busy host some may stop late
				first = list(t, l)
			}
			again := list(t, l)
			if len(first.Processes) != len(first.PIDs) || len(first.Processes) == 0 {
				t.Errorf("%d processes, then %d", len(first.Processes), len(first.PIDs))
			}
			for _, pid := range again.PIDs { // others had ended, and are reaped
				if !slices.Contains(first.PIDs, pid) {
					t.Errorf("process %s is new", pid)
				}
			}
			if !settled(first) {
				t.Errorf("some run: %+v", first)
			}
			if err := l.ContinueAll(within(t)); err != nil {
				t.Fatal(err)
			}
			out.await(t, "on\n")
		}
		if err := l.KillAll(within(t)); err != nil {
			t.Error(err)
		}
		if left := list(t, l); len(left.PIDs) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}

// Of thousands of processes with long arguments all are listed, within a bound: arguments are cut between two. The init
// needs little memory for it.
func TestListMany(t *testing.T) {
	in, out, cmd := session(t, boxinit.Config{Carrier: boxinit.Frames, UID: initUID, Deadline: 1 << 40})
	l := Frames(attach(in, out))
	defer l.Close()
	if err := l.Hello(within(t)); err != nil {
		t.Fatal(err)
	}
	const count = 3000
	s := script("mkfifo $0; i=0; while [ $i -lt "+strconv.Itoa(count-1)+" ]; do : <$0 & i=$((i+1)); done; echo all; : <$0", nil, io.Discard)
	begun, fifo := &watched{}, filepath.Join("/tmp", "belljar-init-"+strconv.Itoa(os.Getpid()))
	defer os.Remove(fifo)
	s.Stdout, s.Args = begun, append(s.Args, fifo)
	for range 300 {
		s.Args = append(s.Args, strings.Repeat("0", 12))
	}
	start(t, l, s)
	begun.await(t, "all\n")
	if err := l.StopAll(within(t)); err != nil {
		t.Fatal(err)
	}
	found := list(t, l)
	whole, cut, size := 0, 0, 0
	for _, p := range found.Processes {
		size += len(p.Stat) + len(p.Status) + len(p.Args)
		switch {
		case strings.HasSuffix(p.Args, "0\x00"):
			whole++
		case strings.HasSuffix(p.Args, "\x00…") && len(p.Args) <= 64:
			cut++
		default:
			t.Errorf("%q", p.Args)
		}
	}
	if len(found.Processes) != count || len(found.PIDs) != count || whole < 200 || cut < 2000 || size > 3<<20 {
		t.Errorf("%d processes, %d PIDs, %d whole, %d cut, %d bytes", len(found.Processes), len(found.PIDs), whole, cut, size)
	}
	if processes, err := l.Processes(within(t), initUID); len(processes) != count || err != nil {
		t.Errorf("%d processes, error %v", len(processes), err)
	}
	if kib := anonymous(t, cmd); kib > 32<<10 {
		t.Errorf("the init has %d KiB", kib)
	}
	if err := l.KillAll(within(t)); err != nil {
		t.Error(err)
	}
}

// More arguments than that are listed whole.
func TestListLong(t *testing.T) {
	l := frames(t)
	start(t, l, script("i=0; while [ $i -lt 300 ]; do sleep 1000 "+strings.Repeat("0 ", 1500)+"& i=$((i+1)); done; wait", io.Discard, io.Discard))
	for ctx := within(t); ; {
		found := list(t, l)
		if len(found.Processes) == 301 {
			for _, p := range found.Processes {
				if strings.HasSuffix(p.Args, "…") {
					t.Errorf("cut: %q", p.Args)
				}
			}
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("%d processes", len(found.Processes))
		}
	}
	if err := l.KillAll(within(t)); err != nil {
		t.Error(err)
	}
}

// A signal reaches the process that was meant, or none.
func TestSignal(t *testing.T) {
	each(t, func(t *testing.T, l *Link) {
		out := &watched{}
		p := start(t, l, script("trap 'echo got' USR1; echo ready; while :; do sleep 0.01; done", out, io.Discard))
		out.await(t, "ready\n")
		for _, c := range []struct {
			pid    int
			ticks  int64
			signal syscall.Signal
			want   error
		}{
			{p.PID(), p.StartTicks() + 1, syscall.SIGKILL, nil}, // another one's
			{p.PID(), p.StartTicks(), syscall.SIGUSR1, nil},
			{4000000, 1, syscall.SIGKILL, nil},
			{1, 0, syscall.SIGKILL, syscall.EPERM},
			{p.PID(), p.StartTicks(), 99, syscall.EINVAL},
		} {
			if err := l.Signal(within(t), c.pid, c.ticks, c.signal); !errors.Is(err, c.want) {
				t.Errorf("signal %d to %d: %v", c.signal, c.pid, err)
			}
		}
		out.await(t, "got\n")
		if err := l.Signal(within(t), p.PID(), p.StartTicks(), syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		if code := status(t, p); code != 137 {
			t.Errorf("status %d", code)
		}
	})
}

// What ends without its parent is reaped.
func TestReap(t *testing.T) {
	l := frames(t)
	run(t, l, script("i=0; while [ $i -lt 200 ]; do (sh -c : &); i=$((i+1)); done", nil, nil))
	for ctx := within(t); len(list(t, l).PIDs) > 0; {
		if ctx.Err() != nil {
			t.Fatal("there are zombies")
		}
	}
}

// A killed start is none, and a start that is canceled runs no further.
func TestCancel(t *testing.T) {
	each(t, func(t *testing.T, l *Link) {
		ctx, cancel := withCancel(t)
		cancel()
		if _, err := l.Start(ctx, script("exec sleep 1000", io.Discard, io.Discard)); !errors.Is(err, ctx.Err()) {
			t.Errorf("got %v", err)
		}
		for range 20 {
			ctx, cancel := withCancel(t)
			go cancel()
			if p, err := l.Start(ctx, script("exec sleep 1000", io.Discard, io.Discard)); err == nil {
				l.Signal(within(t), p.PID(), p.StartTicks(), syscall.SIGKILL)
				p.Close()
			}
		}
		dir := t.TempDir()
		for name, mode := range map[string]os.FileMode{filepath.Dir(dir): 0o711, dir: 0o777} {
			if err := os.Chmod(name, mode); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 100 { // a command that ran is never said not to have
			ctx, cancel := withCancel(t)
			go func() {
				time.Sleep(time.Duration(i) * 20 * time.Microsecond)
				cancel()
			}()
			file := filepath.Join(dir, strconv.Itoa(i))
			p, err := l.Start(ctx, script("echo >"+file, io.Discard, io.Discard))
			if err == nil {
				status(t, p)
				continue
			}
			run(t, l, script(":", nil, nil)) // by then it would have begun
			if _, missing := os.Stat(file); missing == nil {
				t.Errorf("%v, and yet it ran", err)
			}
		}
		for ctx := within(t); ; {
			found := list(t, l)
			if len(found.PIDs) == 0 {
				break
			}
			if ctx.Err() != nil {
				t.Fatalf("a canceled process runs: %q", found)
			}
		}
	})
}

// stdinOnce is an init whose stdin and stdout stay open between clients.
func session(t testing.TB, config boxinit.Config, first ...string) (in, out *os.File, cmd *exec.Cmd) {
	t.Helper()
	cmd = boxinittest.Command(t, config)
	begins(cmd, first...)
	in, out = stdio(t, cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	file(cmd.Stdin).Close()
	file(cmd.Stdout).Close()
	t.Cleanup(func() {
		in.Close()
		out.Close()
		cmd.Wait()
	})
	return in, out, cmd
}

// begins has the shell that becomes the init do something first.
func begins(cmd *exec.Cmd, scripts ...string) {
	last := &cmd.Args[len(cmd.Args)-1]
	*last = strings.Join(append(scripts, *last), "; ")
}

// attached is what a client of an engine has: its end does not reach the init.
type attached struct {
	in, out *os.File
	gone    chan struct{}
}

func attach(in, out *os.File) attached { return attached{in, out, make(chan struct{})} }

func (a attached) Write(p []byte) (int, error) { return a.in.Write(p) }

func (a attached) Read(p []byte) (int, error) {
	n, err := a.out.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = io.EOF
	}
	return n, err
}

func (a attached) Close() error { return a.out.SetReadDeadline(time.Unix(1, 0)) }

// A client follows another that died in the middle of a request, or of an answer.
func TestNextClient(t *testing.T) {
	t.Run("frames", func(t *testing.T) {
		in, out, _ := session(t, boxinit.Config{Carrier: boxinit.Frames, UID: initUID, Deadline: time.Now().Unix() + 60})
		nextClient(t, in, out)
	})
	t.Run("channels", func(t *testing.T) {
		first, all := channels(t)
		out := all[3].Reader.(*os.File)
		nextClient(t, all[3].WriteCloser.(*os.File), out)
		if got, _, _ := run(t, first, script("echo first", nil, nil)); got != "first\n" {
			t.Errorf("got %q", got)
		}
	})
}

func nextClient(t *testing.T, in, out *os.File) {
	first := Frames(attach(in, out))
	if err := first.Hello(within(t)); err != nil {
		t.Fatal(err)
	}
	s := script("while :; do echo old; done", io.Discard, io.Discard)
	s.Stdin, s.Around = &endless{}, &Around{Texts: []string{"/proc/uptime"}} // it ends when no one asks that any more
	p, err := first.Start(within(t), s)
	if err != nil {
		t.Fatal(err)
	}
	first.Close()
	p.Close()
	out.SetReadDeadline(time.Time{})
	in.WriteString("\x01\x02half a request\\") // and some that look like none
	second := Frames(attach(in, out))
	defer second.Close()
	if err := second.Hello(within(t)); err != nil {
		t.Fatal(err)
	}
	if got, _, code := run(t, second, script("echo new; exit 5", nil, nil)); got != "new\n" || code != 5 {
		t.Errorf("got %q, %d", got, code)
	}
	in.Write(append([]byte("\n"), first.nonce...)) // late, of the first
	in.WriteString("\n")
	if got, _, _ := run(t, second, script("echo new", nil, nil)); got != "new\n" {
		t.Errorf("got %q", got)
	}
	if found := list(t, second); len(found.Processes) == 0 {
		t.Error("the first client's process is gone")
	}
	if err := second.KillAll(within(t)); err != nil {
		t.Error(err)
	}
	whole := wire.AppendLine(nil, second.nonce, wire.Ping, 1, nil) // with what is special in a nonce escaped
	in.Write(append(whole[:len(whole)-1], "garbled\n"...))
	<-second.Done()
	if !errors.Is(second.Err(), ErrGarbled) {
		t.Errorf("got %v", second.Err())
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestDeadline(t *testing.T) {
	_, out, cmd := session(t, boxinit.Config{Carrier: boxinit.Frames, UID: initUID, Deadline: time.Now().Unix() + 1})
	if _, err := out.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("got %v", err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the init: %v", err)
	}
}

// Once a bug: where who made a container had no answer to that, and was killed, its init waited for a client until its deadline.
func TestLonelyInitEnds(t *testing.T) {
	greetedIn, greetedOut, _ := session(t, boxinit.Config{Carrier: boxinit.Frames, UID: initUID, Lonely: 1})
	l := Frames(attach(greetedIn, greetedOut))
	if err := l.Hello(within(t)); err != nil {
		t.Fatal(err)
	}
	in, out, cmd := session(t, boxinit.Config{Carrier: boxinit.Frames, UID: initUID, Lonely: 1})
	defer in.Close()
	if _, err := out.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("got %v", err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the init: %v", err)
	}
	if _, err := l.Texts(within(t), "/proc/1/stat"); err != nil {
		t.Errorf("one that was greeted: %v", err)
	}
	l.Close()
}

func TestEnd(t *testing.T) {
	in, out, cmd := session(t, boxinit.Config{Carrier: boxinit.Frames, UID: initUID, Deadline: time.Now().Unix() + 60})
	l := Frames(attach(in, out))
	defer l.Close()
	if err := l.Hello(within(t)); err != nil {
		t.Fatal(err)
	}
	p := start(t, l, script("trap '' TERM; sleep 1000", io.Discard, io.Discard))
	if err := l.End(within(t)); err != nil {
		t.Error(err)
	}
	if code := statusOpen(t, p); code != 137 {
		t.Errorf("status %d", code)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the init: %v", err)
	}
}

// All channels serve clients at once, each with its own processes: a slow reader of one does not hold up another, a
// client that leaves makes room for the next, and what it left running runs on.
func TestChannels(t *testing.T) {
	first, all := channels(t)
	var links []*Link
	for _, c := range all {
		links = append(links, hello(t, Frames(attach(c.WriteCloser.(*os.File), c.Reader.(*os.File)))))
	}
	stuck := &blocked{began: make(chan struct{}), until: make(chan struct{})}
	slow := start(t, links[0], script("head -c 5000000 /dev/zero", stuck, io.Discard))
	left := start(t, links[1], script("exec sleep 1000", io.Discard, io.Discard))
	<-stuck.began
	for i, l := range append(links, first) {
		if out, _, _ := run(t, l, script("echo "+strconv.Itoa(i), nil, nil)); out != strconv.Itoa(i)+"\n" {
			t.Errorf("channel %d: %q", i, out)
		}
	}
	close(stuck.until)
	if status(t, slow); stuck.n != 5_000_000 {
		t.Errorf("%d bytes came", stuck.n)
	}
	if err := links[1].Leave(within(t)); err != nil {
		t.Error(err)
	}
	links[1].Close()
	left.Close()
	all[1].Reader.(*os.File).SetReadDeadline(time.Time{})
	next := hello(t, Frames(attach(all[1].WriteCloser.(*os.File), all[1].Reader.(*os.File))))
	if found := list(t, next); len(found.Processes) != 1 || !strings.HasPrefix(found.Processes[0].Stat, strconv.Itoa(left.PID())) {
		t.Errorf("found %v", found)
	}
	if err := next.KillAll(within(t)); err != nil {
		t.Error(err)
	}
	first.Close()
	<-links[2].Done() // all end with the first
	if err := links[2].Err(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

// An init that listens takes many clients, and outlives the first one if that is asked for.
func TestListener(t *testing.T) {
	cmd, first, dial := listening(t, boxinit.Config{Deadline: time.Now().Unix() + 60})
	begin(t, cmd, first)
	second, third := hello(t, dial()), hello(t, dial())
	defer third.Close()
	left := start(t, second, script("echo $$; exec sleep 1000", io.Discard, io.Discard))
	for _, l := range []*Link{first, second, third} {
		if out, _, _ := run(t, l, script("echo hi", nil, nil)); out != "hi\n" {
			t.Errorf("got %q", out)
		}
	}
	second.Close()
	left.Close()
	if err := first.Stay(within(t)); err != nil {
		t.Fatal(err)
	}
	first.Close()
	if out, _, _ := run(t, third, script("echo hi", nil, nil)); out != "hi\n" {
		t.Errorf("got %q", out)
	}
	if found := list(t, third); len(found.Processes) != 1 || !strings.HasPrefix(found.Processes[0].Stat, strconv.Itoa(left.PID())) {
		t.Errorf("found %v", found)
	}
	if err := third.End(within(t)); err != nil {
		t.Error(err)
	}
}

// Without it, the end of the first connection is the end.
func TestListenerEnds(t *testing.T) {
	cmd, first, _ := listening(t, boxinit.Config{})
	begin(t, cmd, first) // waits for its end
}

// The last words of an init that cannot begin say why.
func TestWrongArguments(t *testing.T) {
	cmd := boxinittest.Command(t, boxinit.Config{Carrier: "none", UID: initUID})
	var words bytes.Buffer
	cmd.Stderr = &words
	if err := cmd.Run(); err == nil || words.String() != "belljar-init: its arguments are wrong\n" {
		t.Errorf("%v: %q", err, words.String())
	}
}
