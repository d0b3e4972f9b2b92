package boxlink

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"belljar/internal/boxinit"
	"belljar/sandbox"
)

// A process of the same user that stops every other one can stop a start before its program
// runs. It is killed then, and everything else goes on.
func TestStuck(t *testing.T) {
	each(t, func(t *testing.T, l *Link) {
		out := &watched{}
		s := script("", out, io.Discard)
		s.Args = []string{"python3", "-c", "import os\nprint('ready', flush=True)\nwhile 1:\n try: os.kill(-1, 19)\n except OSError: pass"}
		left := start(t, l, s)
		out.await(t, "ready\n")
		busy := make(chan error)
		stop := make(chan struct{})
		go func() { // others are served meanwhile, and their garbage is too much
			for {
				select {
				case <-stop:
					busy <- nil
					return
				default:
				}
				s := script("echo "+strings.Repeat("x", 100<<10), io.Discard, io.Discard)
				s.Args[0] = "none"
				l.Start(within(t), s)
				if !l.Answers(within(t)) {
					busy <- errors.New("the init does not answer")
					return
				}
			}
		}()
		stuck := 0
		for until := time.Now().Add(2 * time.Minute); stuck == 0 && time.Now().Before(until); { // the moment is short
			s := script("exec sleep 1000", io.Discard, io.Discard)
			s.TTY = &sandbox.TerminalSize{} // makes it longer
			p, err := l.Start(within(t), s)
			var refused *StartError
			switch {
			case err == nil:
				l.Signal(within(t), p.PID(), p.StartTicks(), syscall.SIGKILL)
				status(t, p)
			case errors.As(err, &refused) && refused.Reason == Stuck:
				stuck++
			default:
				t.Error(err)
			}
		}
		close(stop)
		if err := <-busy; err != nil {
			t.Error(err)
		}
		if stuck == 0 {
			t.Error("none was stopped: this tests nothing")
		}
		l.Signal(within(t), left.PID(), left.StartTicks(), syscall.SIGKILL)
		status(t, left)
		if out, _, _ := run(t, l, script("echo hi", nil, nil)); out != "hi\n" {
			t.Errorf("got %q", out)
		}
	})
}

// What a command tries against its init does nothing.
func TestAttacks(t *testing.T) {
	l := frames(t)
	for name, text := range map[string]string{
		"signals":  `for s in $(seq 1 64); do kill -$s 1 2>/dev/null && echo sent $s; done`,
		"all":      `kill -TERM -1; kill -QUIT -1`,
		"files":    `ls -l /proc/1/fd /proc/1/task/*/fd 2>/dev/null`,
		"memory":   `head -c 1 /proc/1/mem /proc/1/environ /proc/1/maps /proc/1/auxv /proc/1/task/*/mem 2>/dev/null`,
		"links":    `ls /proc/1/exe/ /proc/1/root/ /proc/1/cwd/ 2>/dev/null; readlink /proc/1/exe /proc/1/root /proc/1/cwd`,
		"writes":   `for f in /proc/1/oom_score_adj /proc/1/comm /proc/1/attr/current /proc/1/task/1/comm /proc/1/timerslack_ns; do (echo 0 >$f) 2>/dev/null && echo $f; done`,
		"enters":   `nsenter -t 1 -a true 2>/dev/null && echo in`,
		"traces":   `python3 -c 'import ctypes; l = ctypes.CDLL(None); print("traced" if any(l.ptrace(r, 1, 0, 0) == 0 for r in (16, 0x4206)) else "", end="")'`,
		"renices":  `renice -n 19 -p 1 >/dev/null 2>&1 && echo reniced; prlimit -p 1 --nofile=1 2>/dev/null && echo limited`,
		"is it":    `cp /proc/$$/exe /tmp/belljar-init-sh; (exec -a /dev/belljar-init /tmp/belljar-init-sh -c :); rm -f /tmp/belljar-init-sh`,
		"descends": `ls /proc/self/fd | grep -v -e '^[012]$' | while read fd; do readlink /proc/self/fd/$fd; done | grep -v /proc/`,
	} {
		t.Run(name, func(t *testing.T) {
			s := script(text, nil, nil)
			s.Args[0] = "bash"
			if out, errs, _ := run(t, l, s); out != "" {
				t.Errorf("got %q, %q", out, errs)
			}
			if !l.Answers(within(t)) {
				t.Fatal("the init does not answer")
			}
		})
	}
}

// A command has no capability and can get none, no group but its own, a session of its own,
// all signals at their default, and no file but its streams.
func TestIdentity(t *testing.T) {
	each(t, func(t *testing.T, l *Link) {
		var out, errs bytes.Buffer
		s := Start{Args: []string{"cat", "/proc/self/status", "/proc/self/oom_score_adj"}, Env: []string{"A=1"}, Dir: "/usr", UID: user, GID: 1234, Stdout: &out, Stderr: &errs}
		p := start(t, l, s)
		status(t, p)
		for _, want := range []string{
			"Uid:\t65534\t65534\t65534\t65534\n", "Gid:\t1234\t1234\t1234\t1234\n", "Groups:\t1234 \n", "NoNewPrivs:\t1\n", "NSsid:\t" + strconv.Itoa(p.PID()) + "\n",
			"CapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\nCapBnd:\t0000000000000000\nCapAmb:\t0000000000000000\n",
			"SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\nSigCgt:\t0000000000000000\n", "Umask:\t0022\n",
			"\n" + strconv.Itoa(ownScore(t)+400) + "\n",
		} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%q is not in %s", want, out.String())
			}
		}
		got, _, _ := run(t, l, Start{Args: []string{"env"}, Env: []string{"A=1", "B=x y\nz", "=", "PATH=/usr/bin:/bin"}, Dir: "/usr", UID: user, GID: user})
		if got != "A=1\nB=x y\nz\n=\nPATH=/usr/bin:/bin\n" {
			t.Errorf("the environment is %q", got)
		}
		if got, _, _ := run(t, l, Start{Args: []string{"pwd"}, Env: []string{"PATH=/bin"}, Dir: "/usr/bin", UID: user, GID: user}); got != "/usr/bin\n" {
			t.Errorf("it runs in %q", got)
		}
	})
}

func ownScore(t testing.TB) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/oom_score_adj")
	score, wrong := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || wrong != nil {
		t.Fatal(err, wrong)
	}
	return min(score, 600)
}

// initStatus is /proc/PID/status of all threads of the init, seen from outside.
func initStatus(t testing.TB, cmd *exec.Cmd) []string {
	t.Helper()
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	dir := "/proc/" + strings.TrimSpace(string(children)) + "/task"
	threads, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, thread := range threads {
		text, err := os.ReadFile(dir + "/" + thread.Name() + "/status")
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(text))
	}
	return all
}

// All threads of the init are of its own user, with three capabilities; there are no more than
// it says, and they do not get more.
func TestThreads(t *testing.T) {
	for _, text := range testThreads(t, boxinit.Config{Carrier: boxinit.Frames, UID: initUID, Deadline: 1 << 40}) {
		for _, want := range []string{"Uid:\t65533\t65533\t65533\t65533\n", "Gid:\t65533\t65533\t65533\t65533\n", "Groups:\t \n", "CapInh:\t0000000000000000\nCapPrm:\t00000000000000e0\nCapEff:\t00000000000000e0\n"} {
			if !strings.Contains(text, want) {
				t.Errorf("%q is not in %s", want, text)
			}
		}
	}
	testThreads(t, boxinit.Config{Carrier: boxinit.Frames, UID: user, Alone: true})
}

func testThreads(t *testing.T, config boxinit.Config) []string {
	t.Helper()
	in, out, cmd := session(t, config)
	l := Frames(attach(in, out))
	defer l.Close()
	if err := l.Hello(within(t)); err != nil {
		t.Fatal(err)
	}
	before := len(initStatus(t, cmd))
	for range 200 {
		p := start(t, l, script("head -c 300000 /dev/zero; kill -9 $$", io.Discard, io.Discard))
		list(t, l)
		status(t, p)
	}
	threads := initStatus(t, cmd)
	if len(threads) != before || before > boxinit.Threads {
		t.Errorf("%d threads at first, then %d", before, len(threads))
	}
	t.Logf("%d threads", before)
	return threads
}
