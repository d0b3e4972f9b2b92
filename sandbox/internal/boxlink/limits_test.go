package boxlink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"belljar/internal/boxinit"

	"golang.org/x/sys/unix"
)

// group moves an init's processes into a cgroup of their own, which ends with the test. Limits are those of v1.
func group(t testing.TB, controller string, pid int, limits map[string]string) {
	t.Helper()
	dir := filepath.Join("/sys/fs/cgroup", controller, "belljar-init-test-"+strconv.Itoa(os.Getpid()))
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil { // v2
		dir = filepath.Join("/sys/fs/cgroup", filepath.Base(dir))
		if limit, is := limits["memory.limit_in_bytes"]; is {
			limits = map[string]string{"memory.max": limit, "memory.swap.max": "0"}
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skipf("no cgroup of %s: %v", controller, err)
	}
	t.Cleanup(func() {
		for range 3000 { // its last processes may still be ending
			if os.Remove(dir) == nil {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Errorf("%s stays", dir)
	})
	for name, value := range limits {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(value), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// limited is a link to an init with such limits.
func limited(t testing.TB, controller string, limits map[string]string) *Link {
	t.Helper()
	in, out, cmd := session(t, boxinit.Config{Carrier: boxinit.Frames, UID: initUID, Deadline: 1 << 40})
	l := Frames(attach(in, out))
	t.Cleanup(func() { l.Close() })
	if err := l.Hello(within(t)); err != nil {
		t.Fatal(err)
	}
	children, err := os.ReadFile("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/task/" + strconv.Itoa(cmd.Process.Pid) + "/children")
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(children)))
	if err != nil {
		t.Fatal(err)
	}
	group(t, controller, pid, limits)
	t.Cleanup(func() { l.End(within(t)) }) // also where the test failed
	return l
}

// With no process left to be made the init still answers, lists and kills, and says why nothing starts.
func TestForkBomb(t *testing.T) {
	l := limited(t, "pids", map[string]string{"pids.max": strconv.Itoa(boxinit.Threads + 30)})
	full := 0
	for i := range 300 {
		text, bomb := "exec sleep 1000", i%30 == 0 // one may end by itself, where each of its shells cannot fork
		if bomb {
			text = "b() { b | b & }; b; sleep 1000"
		}
		p, err := l.Start(within(t), script(text, io.Discard, io.Discard))
		var refused *StartError
		switch {
		case err == nil && bomb:
			t.Cleanup(func() { p.Close() })
		case err == nil:
			l.Signal(within(t), p.PID(), p.StartTicks(), 9)
			p.Close()
		case errors.As(err, &refused) && refused.Reason == NoProcess:
			full++
		default:
			t.Fatal(err)
		}
		if !l.Answers(within(t)) {
			t.Fatalf("the init does not answer: %v", l.Err())
		}
	}
	if full == 0 {
		t.Error("the limit was not reached: this tests nothing")
	}
	if err := l.StopAll(within(t)); err != nil {
		t.Error(err)
	}
	if found := list(t, l); len(found.Processes) == 0 {
		t.Error("nothing is listed")
	}
	if err := l.KillAll(within(t)); err != nil {
		t.Error(err)
	}
	if out, _, _ := run(t, l, script("echo hi", nil, nil)); out != "hi\n" {
		t.Errorf("got %q", out)
	}
}

// Where memory runs out a command is killed, and not its init.
func TestMemory(t *testing.T) {
	l := limited(t, "memory", map[string]string{"memory.limit_in_bytes": "24m"})
	for range 3 {
		if _, _, code := run(t, l, script("exec tail /dev/zero", nil, nil)); code != 137 {
			t.Errorf("status %d", code)
		}
	}
	if out, _, _ := run(t, l, script("echo hi", nil, nil)); out != "hi\n" {
		t.Errorf("got %q", out)
	}
}

// Whatever an init did, it is small again afterwards.
func TestSmall(t *testing.T) {
	in, out, cmd := session(t, boxinit.Config{Carrier: boxinit.Frames, UID: initUID, Deadline: 1 << 40})
	l := Frames(attach(in, out))
	defer l.Close()
	if err := l.Hello(within(t)); err != nil {
		t.Fatal(err)
	}
	size := func() int { return anonymous(t, cmd) }
	before := size()
	for range 2 {
		status(t, start(t, l, script("head -c 50000000 /dev/zero", io.Discard, io.Discard)))
		s := script("cat", io.Discard, io.Discard)
		s.Stdin = io.LimitReader(endless{}, 10_000_000)
		status(t, start(t, l, s))
	}
	for range 50 {
		s := script(": "+strings.Repeat("x", 100_000), io.Discard, io.Discard)
		status(t, start(t, l, s))
		list(t, l)
	}
	for range 5_000 {
		if !l.Answers(within(t)) {
			t.Fatal(l.Err())
		}
	}
	if after := size(); after > 8<<10 || before > 4<<10 {
		t.Errorf("it had %d KiB, and then %d", before, after)
	} else {
		t.Logf("it had %d KiB, and then %d", before, after)
	}
}

// anonymous is the memory of an init that is no file's, in KiB.
func anonymous(t testing.TB, cmd *exec.Cmd) (kib int) {
	t.Helper()
	for line := range strings.Lines(initStatus(t, cmd)[0]) {
		if text, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kib, _ = strconv.Atoi(strings.Fields(text)[0])
		}
	}
	return kib
}

// A process that has too many files open to take a command's streams says so, and loses nothing else: the command is
// killed, others run on.
func TestTooManyFilesHere(t *testing.T) {
	each(t, func(t *testing.T, l *Link) {
		out := &watched{}
		other := script("while read -r l; do echo $l; done", out, io.Discard)
		in, typed := io.Pipe()
		other.Stdin = in
		p := start(t, l, other)
		var before unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
			t.Fatal(err)
		}
		null, err := os.Open(os.DevNull) // the next free number, at most
		if err != nil {
			t.Fatal(err)
		}
		few := before
		few.Cur = uint64(null.Fd()) + 1
		null.Close()
		restore := func() {
			if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
				t.Error(err)
			}
		}
		defer restore()
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
			t.Fatal(err)
		}
		_, err = l.Start(within(t), script("exec sleep 1000", io.Discard, io.Discard))
		restore()
		if l.files != nil && !errors.Is(err, unix.EMFILE) || l.files == nil && err != nil {
			t.Errorf("error %v", err)
		}
		io.WriteString(typed, "on\n")
		out.await(t, "on\n")
		typed.Close()
		if code := status(t, p); code != 0 {
			t.Errorf("status %d", code)
		}
		if got, _, _ := run(t, l, script("echo hi", nil, nil)); got != "hi\n" {
			t.Errorf("got %q", got)
		}
		if l.files != nil {
			if found := list(t, l); len(found.PIDs) > 0 {
				t.Errorf("it runs: %v", found)
			}
		}
	})
}

// Clients that an init may have no more files for wait until there is room, and cost it nothing meanwhile.
func TestNoRoomForClients(t *testing.T) {
	cmd, first, dial := listening(t, boxinit.Config{})
	begins(cmd, "ulimit -n 32")
	begin(t, cmd, first)
	init := child(t, cmd)
	var links []*Link
	for range 40 {
		links = append(links, dial())
	}
	waits := func(l *Link) bool {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		return l.Hello(ctx) != nil
	}
	if links[0].Hello(within(t)) != nil || !waits(links[39]) {
		t.Error("the limit does not bind: this tests nothing")
	}
	before := cpuTicks(t, init)
	time.Sleep(time.Second)
	if took := cpuTicks(t, init) - before; took > 20 {
		t.Errorf("it took %d ticks of processor time", took)
	}
	if _, err := first.Start(within(t), script("echo hi", io.Discard, io.Discard)); !errors.Is(err, unix.EMFILE) {
		t.Errorf("error %v", err)
	}
	stillServes(t, first)
	for _, l := range links {
		l.Close()
	}
	if err := dial().Hello(within(t)); err != nil {
		t.Error(err)
	}
	for ctx := within(t); ; { // those that waited are taken first, and have left
		p, err := first.Start(ctx, script("exit 3", io.Discard, io.Discard))
		if err == nil {
			if code := status(t, p); code != 3 {
				t.Errorf("status %d", code)
			}
			return
		}
		if !errors.Is(err, unix.EMFILE) || ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

// child is the PID of the init that a command runs.
func child(t testing.TB, cmd *exec.Cmd) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", cmd.Process.Pid))
	pid, wrong := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || wrong != nil {
		t.Fatal(err, wrong)
	}
	return pid
}

// cpuTicks is the processor time that a process took.
func cpuTicks(t testing.TB, pid int) (n int) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range strings.Fields(string(text[bytes.LastIndexByte(text, ')'):]))[12:14] {
		ticks, _ := strconv.Atoi(field)
		n += ticks
	}
	return n
}

// stillServes checks that an init which starts no more commands does all else.
func stillServes(t testing.TB, l *Link) {
	t.Helper()
	for range 5_000 { // it has garbage to collect
		if !l.Answers(within(t)) {
			t.Fatal(l.Err())
		}
	}
	for what, do := range map[string]func(context.Context) error{"stopping": l.StopAll, "continuing": l.ContinueAll} {
		if err := do(within(t)); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		list(t, l)
	}
}

// An init that holds the streams of as many commands as its files allow starts no more, and does all else.
func TestTooManyCommands(t *testing.T) {
	in, out, cmd := session(t, boxinit.Config{Carrier: boxinit.Frames, UID: initUID, Deadline: 1 << 40}, "ulimit -n 32")
	l := Frames(attach(in, out))
	defer l.Close()
	if err := l.Hello(within(t)); err != nil {
		t.Fatal(err)
	}
	var err error
	started := 0
	for ; err == nil && started < 30; started++ {
		_, err = l.Start(within(t), script("exec sleep 1000", io.Discard, io.Discard))
	}
	if !errors.Is(err, unix.EMFILE) || started < 4 {
		t.Fatalf("%d are started, error %v", started, err)
	}
	stillServes(t, l)
	if found := list(t, l); len(found.Processes) != started-1 {
		t.Errorf("%d are listed of %d", len(found.Processes), started-1)
	}
	if err := l.End(within(t)); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the init: %v", err)
	}
}
