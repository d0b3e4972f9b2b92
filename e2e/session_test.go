package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"belljar/sandbox"
)

// newSession is a name for one test, and how to use it: with a
// state directory of its own. The session is removed after the test.
func newSession(t *testing.T) (name string, use func(*exec.Cmd)) {
	t.Helper()
	needEngine(t)
	name = fmt.Sprintf("e2e-%d", time.Now().UnixNano())
	state := t.TempDir()
	use = func(c *exec.Cmd) { c.Env = append(os.Environ(), stateIn(t, state)) }
	t.Cleanup(func() {
		rm := exec.Command(binary, "session", "rm", name)
		use(rm)
		out, err := rm.CombinedOutput()
		if left := containersOf(name); err != nil || len(left) > 0 {
			t.Errorf("removing the session: %v: %s; left %q", err, out, left)
			removeSession(name)
		}
	})
	return name, use
}

// listed is the session in belljar session ls.
func listed(t *testing.T, use func(*exec.Cmd), name string) sandbox.SessionInfo {
	t.Helper()
	ls := exec.Command(binary, "session", "ls", "--format", "json")
	use(ls)
	out, err := ls.Output()
	var list struct{ Sessions []sandbox.SessionInfo }
	if err != nil || json.Unmarshal(out, &list) != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, s := range list.Sessions {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("session %q is not listed: %s", name, out)
	return sandbox.SessionInfo{}
}

// sessionAnswer is the session's part of a result.
type sessionAnswer struct {
	ID        string
	Lost      string            `json:"session_lost"`
	Lingering []sandbox.Process `json:"lingering"`
	Container sandbox.ContainerInfo
}

func (a answer) session(t *testing.T) (s sessionAnswer) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.json), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// asks runs a command in the session, whose container stays.
func asks(t *testing.T, use func(*exec.Cmd), args ...string) answer {
	t.Helper()
	return begun(t, use, args...).wait(t)
}

// Processes left by a killed belljar stay in the session, and are reported
// correctly.
func TestSessionSurvivesBelljar(t *testing.T) {
	t.Parallel()
	name, use := newSession(t)
	asks(t, use, "--session", name, "echo kept >/work/file").ended(t, 0, "")
	cmd := exec.Command(binary, "run", "--session", name, "--format", "ndjson", "sleep 1001 >/dev/null 2>&1 & until grep -q ^sleep /proc/$!/cmdline; do :; done; sleep 1002 & until grep -q ^sleep /proc/$!/cmdline; do :; done; echo started; wait")
	use(cmd)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() && !bytes.Contains(lines.Bytes(), []byte(`"data":"started`)) {
	}
	cmd.Process.Signal(syscall.SIGKILL)
	cmd.Wait()

	a := asks(t, use, "--session", name, "cat /work/file")
	a.ended(t, 0, "")
	a.says(t, "kept\n")
	s := a.session(t)
	if !s.Container.Reused || s.Lost != "" {
		t.Errorf("%s", a.json)
	}
	byCommand := map[string]string{}
	for _, p := range s.Lingering {
		byCommand[p.Command] = p.CommandID
	}
	first := byCommand["sleep 1001"]
	if first == "" || first == s.ID || byCommand["sleep 1002"] != first {
		t.Errorf("left running, by command: %q", byCommand)
	}
	for _, p := range listed(t, use, name).Runs {
		if p.CommandID != byCommand[p.Command] {
			t.Errorf("%q is of %q, and was of %q", p.Command, p.CommandID, byCommand[p.Command])
		}
	}
}

// Two belljars take turns, unless they are asked not to.
func TestSessionTurns(t *testing.T) {
	t.Parallel()
	name, use := newSession(t)
	meet := func(script string, flags ...string) []answer {
		var all [2]answer
		var wait sync.WaitGroup
		for i := range all {
			wait.Go(func() { all[i] = asks(t, use, append(flags, "--session", name, script)...) })
		}
		wait.Wait()
		return all[:]
	}
	made := 0
	for _, a := range meet("mkdir /work/busy && sleep 1 && rmdir /work/busy") {
		a.ended(t, 0, "")
		if !a.session(t).Container.Reused {
			made++
		}
	}
	if made != 1 {
		t.Errorf("%d containers made", made)
	}
	if onPods() {
		return // which one belljar at a time attaches to
	}
	// Each waits for the other.
	for _, a := range meet("mkdir /work/first || mkdir /work/second; until [ -e /work/second ]; do sleep 0.1; done", "--parallel") {
		a.ended(t, 0, "")
	}
}

// A signal removes a command from a session's queue.
func TestSignalWhileWaitingForTheTurn(t *testing.T) {
	t.Parallel()
	name, use := newSession(t)
	first := begun(t, use, "--session", name, "sleep 1000")
	eventually(t, "first one runs", func() bool { // a container is there before its command is
		ls := exec.Command(binary, "session", "ls", "--format", "json")
		use(ls)
		out, err := ls.Output()
		return err == nil && strings.Contains(string(out), `"command":"sleep 1000"`)
	})
	second := begun(t, use, "--session", name, "echo never")
	time.Sleep(5 * time.Second) // at any point once it handles signals, which a busy host delays
	second.cmd.Process.Signal(syscall.SIGINT)
	second.wait(t).ended(t, exitCanceled, "canceled")
	first.cmd.Process.Signal(syscall.SIGINT)
	first.wait(t).ended(t, exitCanceled, "canceled")
}

// If the engine does not see belljar's directory, it creates /etc/hosts itself.
func TestStateThatTheEngineDoesNotSee(t *testing.T) {
	needEngine(t)
	t.Parallel()
	needRoot(t, "a mount namespace")
	dir := t.TempDir()
	out, err := exec.Command("unshare", "-m", "sh", "-c", `mount --make-rprivate / && mount -t tmpfs none "$1" && XDG_STATE_HOME="$1" exec "$2" run --format json 'nc -w 5 localhost 1; grep -c localhost /etc/hosts; ls /sys/class/net'`, "sh", dir, binary).CombinedOutput()
	if code := exitCode(t, err); code != 0 {
		t.Fatalf("exit %d: %s", code, out)
	}
	for _, want := range []string{`can't connect to remote host (127.0.0.1): Connection refused`, `"stdout":"2\nlo\n"`} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%s\nhas no %s", out, want)
		}
	}
}

// A command that ends as its session does says so, and not that something other than belljar killed it.
func TestSessionEndsDuringACommand(t *testing.T) {
	t.Parallel()
	t.Run("removed", func(t *testing.T) {
		t.Parallel()
		name, use := newSession(t)
		asks(t, use, "--session", name, "true").ended(t, 0, "")
		var all sync.WaitGroup
		all.Go(func() {
			a := asks(t, use, "--session", name, "touch begun; sleep 1000")
			if a.code == 137 && (a.Evidence.KilledBy != "belljar" || !strings.Contains(string(a.json), "killed with its container: the session was removed")) || a.code == 0 || strings.Contains(string(a.json), "other than belljar") {
				t.Errorf("exit status %d: %s", a.code, a.json)
			}
		})
		eventually(t, "the command runs", func() bool { return len(listed(t, use, name).Runs) > 0 })
		rm := exec.Command(binary, "session", "rm", name)
		use(rm)
		if out, err := rm.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		all.Wait()
		asks(t, use, "--session", name, "true").ended(t, 0, "") // for the cleanup
	})
	t.Run("max", func(t *testing.T) {
		t.Parallel()
		name, use := newSession(t)
		file := filepath.Join(t.TempDir(), "sandbox.yaml")
		if err := os.WriteFile(file, []byte("session: {max: 5s}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		a := asks(t, use, "--config", file, "--session", name, "--timeout", "5m", "sleep 1000")
		if a.code == 137 && (a.Evidence.KilledBy != "belljar" || !strings.Contains(string(a.json), "killed with its container: session.max ended it")) || a.code == 0 || strings.Contains(string(a.json), "other than belljar") ||
			strings.Contains(string(a.json), "connection to this process broke") {
			t.Errorf("exit status %d: %s", a.code, a.json)
		}
		asks(t, use, "--session", name, "true").ended(t, 0, "")
	})
}

// Once a bug: a command that could not start because the session has as many processes as it may was told as one that
// ran, with belljar run's exit status of a command that was killed.
func TestSessionWithoutRoom(t *testing.T) {
	t.Parallel()
	name, use := newSession(t)
	with := func(script string) []string {
		return []string{"--session", name, "--parallel", "--pids-limit", "32", script}
	}
	asks(t, use, with("i=0; while [ $i -lt 64 ]; do sleep 1000 >/dev/null 2>&1 & i=$((i+1)); done")...)
	before := len(listed(t, use, name).Runs)
	last := begun(t, use, with("exec sleep 1000")...) // where the first one was
	eventually(t, "the last one runs", func() bool { return len(listed(t, use, name).Runs) > before })
	var a answer
	eventually(t, "there is no room", func() bool {
		a = asks(t, use, with("echo ran")...)
		return a.code != 0
	})
	if a.code != 125 || a.Status != "fatal" || a.Cause != "pids_limit" || a.ExitCode != sandbox.ExitNeverRan || a.Stdout != "" {
		t.Errorf("%s", a.json)
	}
	if s := listed(t, use, name); s.Lost != "" || len(s.Runs) == 0 {
		t.Errorf("%+v", s)
	}
	last.cmd.Process.Signal(syscall.SIGTERM)
	last.wait(t)
}

// Once a bug: a session whose container does not answer could not be removed, and the error said to remove it.
func TestSilentSessionIsRemoved(t *testing.T) {
	needRoot(t, "stopping a container's first process")
	t.Parallel()
	name, use := newSession(t)
	a := asks(t, use, "--session", name, "setsid sleep 1000 >/dev/null 2>&1 &")
	eventually(t, "the first process is stopped", func() bool {
		for _, p := range listed(t, use, name).Runs {
			var first int
			stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.HostPID))
			if _, rest, ok := strings.Cut(string(stat), ") S "); ok {
				fmt.Sscan(rest, &first)
			}
			if first > 1 && syscall.Kill(first, syscall.SIGSTOP) == nil {
				return true
			}
		}
		return false
	})
	if r := belljarIn(t, use, "session", "rm", name); r != (finished{}) || len(containersOf(name)) > 0 {
		t.Errorf("%+v: %q is left of %s", r, containersOf(name), a.json)
	}
	asks(t, use, "--session", name, "echo again").ended(t, 0, "")
}
