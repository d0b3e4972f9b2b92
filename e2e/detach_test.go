package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"belljar/sandbox"
)

// finished is how a belljar ended that ran to its end.
type finished struct {
	code           int
	stdout, stderr string
}

func belljarIn(t *testing.T, use func(*exec.Cmd), args ...string) finished {
	t.Helper()
	cmd := exec.Command(binary, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	use(cmd)
	return finished{exitCode(t, cmd.Run()), stdout.String(), stderr.String()}
}

// detached starts a command in the background, and is its ID.
func detached(t *testing.T, use func(*exec.Cmd), args ...string) string {
	t.Helper()
	r := belljarIn(t, use, append([]string{"run", "--detach"}, args...)...)
	id, rest, _ := strings.Cut(r.stdout, "\n")
	if r.code != 0 || r.stderr != "" || rest != "" || len(id) != 26 {
		t.Fatalf("%q: %+v", args, r)
	}
	return id
}

func waitedFor(t *testing.T, use func(*exec.Cmd), id string) (code int, r sandbox.Result) {
	t.Helper()
	got := belljarIn(t, use, "wait", "--format", "json", id)
	if err := json.Unmarshal([]byte(got.stdout), &r); err != nil || r.ID != id {
		t.Fatalf("%v: %+v", err, got)
	}
	return got.code, r
}

// supervisorOf is the process that a command's socket belongs to, 0 where that is gone.
func supervisorOf(state, id string) int {
	dir, err := os.Open(filepath.Join(spoolOf(state), id))
	if err != nil {
		return 0
	}
	defer dir.Close()
	conn, err := net.Dial("unix", fmt.Sprintf("/proc/self/fd/%d/control.sock", dir.Fd()))
	if err != nil {
		return 0
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0
	}
	pid := 0
	raw.Control(func(fd uintptr) {
		if peer, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int(peer.Pid)
		}
	})
	return pid
}

func TestDetach(t *testing.T) {
	needEngine(t)
	t.Parallel()
	state, use := ownState(t)
	dir, config := shared(t, "rw")
	id := detached(t, use, "--config", config, "-v", dir+":/work", "--description", "a job\x1b[2J", "echo out; echo err >&2; until [ -e go ]; do sleep 0.05; done; exit 3")

	pid := supervisorOf(state, id)
	if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); strings.ReplaceAll(string(line), "\x00", " ") != "belljar supervise " {
		t.Errorf("others see %q", line)
	}
	if at, _ := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)); at != "/" {
		t.Errorf("it stays in %q", at)
	}
	if session, err := unix.Getsid(pid); err != nil || session != pid {
		t.Errorf("its session is %d, %v", session, err)
	}
	ps := belljarIn(t, use, "ps")
	if !strings.Contains(ps.stdout, id+"   ") || !strings.Contains(ps.stdout, `a job\x1b[2J`) || !strings.Contains(ps.stdout, "echo out; ") {
		t.Errorf("%+v", ps)
	}
	var list struct {
		Commands []struct {
			ID      string
			Running bool
		}
	}
	if json.Unmarshal([]byte(belljarIn(t, use, "ps", "--format", "json").stdout), &list) != nil || len(list.Commands) != 1 || list.Commands[0].ID != id || !list.Commands[0].Running {
		t.Errorf("%+v", list)
	}
	early := make(chan finished)
	go func() { early <- belljarIn(t, use, "wait", id[:20]) }()
	if err := os.WriteFile(dir+"/go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	want := finished{3, "out\n", "err\n"}
	if got := <-early; got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := belljarIn(t, use, "wait", id); got != want {
		t.Errorf("afterwards: %+v, want %+v", got, want)
	}
	code, r := waitedFor(t, use, id)
	if code != 3 || r.ExitCode != 3 || r.Description != "a job\x1b[2J" || string(r.Stdout.Bytes()) != "out\n" || r.Container.ID == "" {
		t.Errorf("%d, %+v", code, r)
	}
	if got := belljarIn(t, use, "logs", id); got != (finished{0, "out\n", "err\n"}) {
		t.Errorf("%+v", got)
	}
	if got := belljarIn(t, use, "kill", id); got.code != 125 || !strings.Contains(got.stderr, "has ended") {
		t.Errorf("%+v", got)
	}
}

// What is refused is refused as without --detach, and nothing runs.
func TestDetachRefuses(t *testing.T) {
	needEngine(t)
	t.Parallel()
	_, use := ownState(t)
	none := configured(t, "spool: {age: 0}")
	for _, args := range [][]string{
		{"--image", "no-such-image", "--pull", "never", "true"}, {"--memory", "x", "true"}, {""}, {"-v", "/etc:/work", "true"},
		{"--config", asking(t, "1m"), "git push"}, {"--no-such-flag", "true"},
	} {
		plain := belljarIn(t, use, append([]string{"run"}, args...)...)
		got := belljarIn(t, use, append([]string{"run", "-d"}, args...)...)
		if got != plain || got.code == 0 {
			t.Errorf("%q: %+v, without -d %+v", args, got, plain)
		}
		inJSON := belljarIn(t, use, append([]string{"run", "--format", "json", "-d"}, args...)...)
		var r sandbox.Result
		if err := json.Unmarshal([]byte(inJSON.stdout), &r); err != nil || inJSON.code != plain.code || r.Message == "" || r.Cause == "" {
			t.Errorf("%q: %+v", args, inJSON)
		}
	}
	for want, args := range map[string][]string{
		"spool.age":   {"--config", none, "true"},
		"--safe":      {"--safe", "true"},
		"--template":  {"--template", "x"},
		"--output-fi": {"--output-file", "x", "true"},
		"--live view": {"--live", "view", "--format", "ndjson", "true"},
	} {
		if got := belljarIn(t, use, append([]string{"run", "-d"}, args...)...); got.code != 125 || !strings.Contains(got.stderr+got.stdout, want) {
			t.Errorf("%q: %+v", args, got)
		}
	}
	for _, l := range kept(t, use) {
		if l.Running {
			t.Errorf("%+v runs", l)
		}
	}
	if got := belljarIn(t, use, "supervise"); got.code != 125 || !strings.Contains(got.stderr, "belljar run --detach") {
		t.Errorf("%+v", got)
	}
}

// A person is asked at the terminal; the command is in the background only then.
func TestDetachAsks(t *testing.T) {
	needEngine(t)
	t.Parallel()
	a := sitDown(t, "run", "-d", "--config", asking(t, "1m"), "seq 3; sleep 0.5")
	a.sees(prompt)
	a.types("y\r")
	a.ends(0)
	a = sitDown(t, "run", "-d", "--config", asking(t, "1m"), "git push")
	a.sees(prompt)
	a.types("\x03")
	a.ends(exitCanceled)
	a = sitDown(t, "run", "-d", "-i", "cat")
	a.sees("-i and --detach exclude each other at a terminal")
	a.ends(125)
}

func TestKillDetached(t *testing.T) {
	needEngine(t)
	t.Parallel()
	state, use := ownState(t)
	session := fmt.Sprintf("e2e-detach-%d", os.Getpid())
	t.Cleanup(func() { removeSession(session) })
	canceled := detached(t, use, "echo so far; sleep 1000")
	signaled := detached(t, use, `trap 'echo hup; exit 7' HUP; echo ready; while :; do sleep 0.05; done`)
	inSession := detached(t, use, "--session", session, "--on-timeout", "command", "echo first; sleep 1000")
	queued := detached(t, use, "--config", configured(t, "queue: {wait: 10m}"), "--session", session, "echo second; exit 5")
	lost := detached(t, use, "echo kept; sleep 1000")
	for id, text := range map[string]string{canceled: "so far\n", signaled: "ready\n", inSession: "first\n", lost: "kept\n"} {
		eventually(t, "output is there", func() bool { return merged(t, use, id) == text })
	}
	if r := belljarIn(t, use, "kill", canceled, inSession[:25]); r != (finished{0, canceled + "\n" + inSession + "\n", ""}) {
		t.Errorf("%+v", r)
	}
	if r := belljarIn(t, use, "kill", "-s", "hup", signaled); r.code != 0 {
		t.Errorf("%+v", r)
	}
	pid := supervisorOf(state, lost)
	syscall.Kill(pid, syscall.SIGKILL)
	for id, want := range map[string]struct {
		code   int
		cause  sandbox.Cause
		stdout string
	}{
		canceled:  {exitCanceled, sandbox.CauseCanceled, "so far\n"},
		inSession: {exitCanceled, sandbox.CauseCanceled, "first\n"},
		signaled:  {7, sandbox.CauseExited, "ready\nhup\n"},
		queued:    {5, sandbox.CauseExited, "second\n"},
		lost:      {125, sandbox.CauseEngineLost, "kept\n"},
	} {
		if code, r := waitedFor(t, use, id); code != want.code || r.Cause != want.cause || string(r.Stdout.Bytes()) != want.stdout {
			t.Errorf("%d, %+v, want %+v", code, r, want)
		}
	}
	eventually(t, "container gone", func() bool { return owned(pid) == "" })
	all := belljarIn(t, use, "wait", "--format", "ndjson", queued, canceled, lost, "none")
	if all.code != 5 || strings.Count(all.stdout, `"type":"result"`) != 4 || strings.Count(all.stdout, "\n") != 4 {
		t.Errorf("%+v", all)
	}
}

// Once a bug: where the ID could not be written, belljar said that the command never ran, and not which one runs.
func TestDetachedIDWithoutAReader(t *testing.T) {
	needEngine(t)
	t.Parallel()
	_, use := ownState(t)
	for _, format := range []string{"text", "json"} {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		r := belljarIn(t, func(c *exec.Cmd) { use(c); c.Stdout = full }, "run", "-d", "--format", format, "sleep 600")
		full.Close()
		words := strings.Fields(r.stderr)
		if r.code != 125 || len(words) < 3 || !strings.HasSuffix(r.stderr, " runs in the background, but writing its ID failed: write /dev/stdout: no space left on device\n") {
			t.Fatalf("%+v", r)
		}
		if got := belljarIn(t, use, "kill", words[2]); got.code != 0 {
			t.Errorf("%+v", got)
		}
		if code, r := waitedFor(t, use, words[2]); code != 130 || r.Cause != sandbox.CauseCanceled {
			t.Errorf("exit status %d, %s", code, r.Cause)
		}
	}
}

// Once a bug: a command that began, and was ended as nothing of it could be kept, was told as one that never ran.
func TestDetachWithoutASpool(t *testing.T) {
	needEngine(t)
	t.Parallel()
	state, use := ownState(t)
	if err := errors.Join(os.MkdirAll(filepath.Dir(spoolOf(state)), 0o700), os.Symlink(t.TempDir(), spoolOf(state))); err != nil {
		t.Fatal(err)
	}
	got := belljarIn(t, use, "run", "-d", "--format", "json", "sleep 600")
	var r sandbox.Result
	if err := json.Unmarshal([]byte(got.stdout), &r); err != nil || r.Cause != sandbox.CauseCanceled || r.ExitCode != sandbox.ExitEnded {
		t.Errorf("%v: %+v", err, got)
	}
	if got.code != 125 || !strings.Contains(got.stderr, "the output and the result of a detached command cannot be kept (") {
		t.Errorf("%+v", got)
	}
}

// Once a bug: belljar wait failed where its reader had read enough.
func TestWaitWhoseReaderLeaves(t *testing.T) {
	needEngine(t)
	t.Parallel()
	_, use := ownState(t)
	id := detached(t, use, "seq 100000; exit 3")
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out.Close()
	defer in.Close()
	if got := belljarIn(t, func(c *exec.Cmd) { use(c); c.Stdout = in }, "wait", id); got != (finished{code: 3}) {
		t.Errorf("%+v", got)
	}
}
