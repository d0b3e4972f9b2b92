package e2e

import (
	"archive/tar"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// mark is a file that a command makes in a directory of the host's, so that a
// test sees how far it is without the engine's help.
func mark(t *testing.T, what, file string) {
	t.Helper()
	eventually(t, what, func() bool {
		_, err := os.Stat(file)
		return err == nil
	})
}

// F1: the engine dies under a command. Its fate is unknown then, and that is
// said; what it wrote before is kept.
func engineKilled(t *testing.T) {
	d := privateEngine(t)
	dir, config := shared(t, "rw")
	p := begun(t, d.Use, "--config", config, "-v", dir+":/work", "echo partial; echo partial >&2; sleep 3; touch /work/ready; sleep 1000")
	mark(t, "command started", dir+"/ready")
	d.Signal(t, syscall.SIGKILL)
	a := p.wait(t)
	a.ended(t, 125, "engine_lost")
	a.says(t, "partial\npartial\n")
	if a.Status != "fatal" || a.ExitCode >= 0 || a.Signal != "" || a.Evidence.RemoveError == "" || a.Evidence.OOMKills > 0 {
		t.Errorf("%s", a.json)
	}
	d.Start(t)
	if left, err := d.Docker("ps", "-q"); left != "" || err != nil {
		t.Errorf("still runs: %q, %v", left, err)
	}
	// The next command does not stumble over what the last one left.
	askAs(t, d.Use, "echo again").says(t, "again\n")
	eventually(t, "nothing is left", func() bool {
		left, err := d.Left()
		return len(left) == 0 && err == nil
	})
}

// F3: an engine that does not answer does not keep belljar from ending, and
// executes the call once it continues.
func engineStopped(t *testing.T) {
	d := privateEngine(t)
	dir, config := shared(t, "rw")
	p := begun(t, d.Use, "--config", config, "-v", dir+":/work", "--idle-timeout", "20s", "echo partial; sleep 3; touch /work/ready; sleep 1000")
	mark(t, "command started", dir+"/ready")
	first, err := d.Docker("ps", "-q")
	if err == nil {
		first, err = d.Docker("inspect", "--format", "{{.State.Pid}}", first)
	}
	if err != nil {
		t.Fatal(err)
	}
	d.Signal(t, syscall.SIGSTOP)
	unanswered := begun(t, d.Use, "true")
	a := p.wait(t)
	a.ended(t, 124, "idle_timeout")
	a.says(t, "partial\n")
	if a.Evidence.RemoveError == "" {
		t.Errorf("that the container is still there is not said: %s", a.json)
	}
	eventually(t, "its processes are killed all the same", func() bool {
		_, err := os.Stat("/proc/" + first)
		return err != nil
	})
	unanswered.wait(t).ended(t, 125, "engine_error")
	d.Signal(t, syscall.SIGCONT)
	eventually(t, "late removal done", func() bool {
		left, err := d.Left()
		return len(left) == 0 && err == nil
	})
}

// F3-ended: a command that ended while the engine stood still has not run into a limit: how it ended is not known.
func endedUnheard(t *testing.T) {
	d := privateEngine(t)
	dir, config := shared(t, "rw")
	p := begun(t, d.Use, "--config", config, "-v", dir+":/work", "--timeout", "1m", "echo partial; sleep 3; touch /work/ready; while [ ! -e /work/go ]; do sleep 0.1; done; exit 7")
	mark(t, "command started", dir+"/ready")
	d.Signal(t, syscall.SIGSTOP)
	if err := os.WriteFile(dir+"/go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	a := p.wait(t)
	a.ended(t, 125, "engine_lost")
	a.says(t, "partial\n")
	if !strings.Contains(a.Message, "stopped answering") || a.Evidence.KilledBy != "" {
		t.Errorf("%s", a.json)
	}
	d.Signal(t, syscall.SIGCONT)
	eventually(t, "late removal done", func() bool {
		left, err := d.Left()
		return len(left) == 0 && err == nil
	})
}

// F4-ended: the same where the engine goes on, starts the command itself, and does not hear of its end.
func endedUntold(t *testing.T) {
	d := privateEngine(t)
	dir, config := shared(t, "rw")
	byExec := func(c *exec.Cmd) {
		d.Use(c)
		c.Env = append(c.Env, "BELLJAR_ENGINE_INIT=none")
	}
	p := begun(t, byExec, "--config", config, "-v", dir+":/work", "--timeout", "1m", "echo partial; sleep 3; touch /work/ready; while [ ! -e /work/go ]; do sleep 0.1; done; exit 7")
	mark(t, "command started", dir+"/ready")
	id, err := d.Docker("ps", "-q", "--no-trunc")
	if err != nil || id == "" {
		t.Fatalf("no container: %v", err)
	}
	shim := d.Shim(t, id)
	syscall.Kill(shim, syscall.SIGSTOP)
	t.Cleanup(func() { syscall.Kill(shim, syscall.SIGCONT) })
	if err := os.WriteFile(dir+"/go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	a := p.wait(t)
	a.ended(t, 125, "engine_lost")
	a.says(t, "partial\n")
	syscall.Kill(shim, syscall.SIGCONT)
	eventually(t, "late removal done", func() bool {
		left, err := d.Left()
		return len(left) == 0 && err == nil
	})
}

// F3-resumed: a pause of the engine's is no end of the command's.
func enginePaused(t *testing.T) {
	d := privateEngine(t)
	dir, config := shared(t, "rw")
	p := begun(t, d.Use, "--config", config, "-v", dir+":/work", "echo before; touch /work/ready; while [ ! -e /work/go ]; do sleep 0.1; done; echo after; touch /work/done; exit 7")
	mark(t, "command started", dir+"/ready")
	d.Signal(t, syscall.SIGSTOP)
	if err := os.WriteFile(dir+"/go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	mark(t, "command ended", dir+"/done")
	d.Signal(t, syscall.SIGCONT)
	a := p.wait(t)
	a.ended(t, 7, "")
	a.says(t, "before\nafter\n")
}

// F4: what kills a container from outside is not called out of memory.
func shimKilled(t *testing.T) {
	d := privateEngine(t)
	dir, config := shared(t, "rw")
	p := begun(t, d.Use, "--config", config, "-v", dir+":/work", "echo partial; sleep 3; touch /work/ready; sleep 1000")
	mark(t, "command started", dir+"/ready")
	id, err := d.Docker("ps", "-q", "--no-trunc")
	if err != nil || id == "" {
		t.Fatalf("no container: %v", err)
	}
	syscall.Kill(d.Shim(t, id), syscall.SIGKILL)
	a := p.wait(t)
	if a.code != 137 && a.code != 125 || a.Cause == "oom_killed" || a.Status == "success" || a.Evidence.OOMKills > 0 {
		t.Errorf("%s", a.json)
	}
	a.says(t, "partial\n")
}

// F4-stopped: a shim that stands still, or an init that somebody on the engine's host stopped, keeps no command from its
// end, nor belljar; that the container could not be removed is said, and it goes once the shim goes on.
func partsStopped(t *testing.T) {
	d := privateEngine(t)
	for _, part := range []string{"shim", "init"} {
		dir, config := shared(t, "rw")
		p := begun(t, d.Use, "--config", config, "-v", dir+":/work", "--timeout", "20s", "echo partial; sleep 3; touch /work/ready; sleep 1000")
		mark(t, "command started", dir+"/ready")
		id, err := d.Docker("ps", "-q", "--no-trunc")
		if err != nil || id == "" {
			t.Fatalf("no container: %v", err)
		}
		pid := d.Shim(t, id)
		if part == "init" {
			text, failed := d.Docker("inspect", "--format", "{{.State.Pid}}", id)
			if pid, err = strconv.Atoi(text); err != nil || failed != nil {
				t.Fatal(err, failed)
			}
		}
		syscall.Kill(pid, syscall.SIGSTOP)
		began := time.Now()
		a := p.wait(t)
		a.ended(t, 124, "wall_timeout")
		a.says(t, "partial\n")
		if took := time.Since(began); took > time.Minute {
			t.Errorf("%s: it took %v", part, took)
		}
		if stuck := part == "shim"; stuck != (a.Evidence.RemoveError != "") || a.Evidence.OOMKills > 0 {
			t.Errorf("%s: %s", part, a.json)
		}
		syscall.Kill(pid, syscall.SIGCONT)
		eventually(t, "removal done", func() bool {
			left, err := d.Left()
			return len(left) == 0 && err == nil
		})
	}
}

// F7: a missing image is reported with the way to get it.
func imageAbsent(t *testing.T) {
	a := ask(t, "--image", "belljar/nowhere", "--pull", "never", "true")
	a.ended(t, 125, "image_error")
	if !strings.Contains(a.Message, "belljar images") {
		t.Errorf("%s", a.Message)
	}
}

// F8: a shell that does not run is not a command that failed, and nothing
// waits for its end.
func badShell(t *testing.T) {
	for what, h := range map[string]tar.Header{
		"a directory":    {Typeflag: tar.TypeDir, Name: "bin/sh", Mode: 0o755},
		"not executable": {Name: "bin/sh", Mode: 0o644},
		"a loop":         {Typeflag: tar.TypeSymlink, Name: "bin/sh", Linkname: "sh"},
		"no program":     {Name: "bin/sh", Mode: 0o755},
	} {
		tree := newTree()
		tree.add(tar.Header{Typeflag: tar.TypeDir, Name: "bin/", Mode: 0o755}, nil)
		var content []byte
		if h.Typeflag == 0 {
			content = []byte("\x7fELF, but not really")
		}
		tree.add(h, content)
		a := ask(t, "--image", imageOf(t, tree, v1.Config{}), "true")
		if a.code != 125 || a.Cause != "image_error" {
			t.Errorf("%s: %s", what, a.json)
		}
	}
}

// F10: ending the container from outside may lose the exit status,
// and is distinguished from a command that kills itself.
func endedFromOutside(t *testing.T) {
	ways := [][]string{{"rm", "-f"}, {"kill"}, {"kill", "--signal", "TERM"}, {"stop"}}
	if onOCI() {
		ways = [][]string{nil} // the init's end; that of more parts has rows of its own
	}
	for _, how := range ways {
		dir, config := shared(t, "rw")
		p := begun(t, func(*exec.Cmd) {}, "--config", config, "-v", dir+":/work", "echo partial; sleep 3; touch /work/ready; sleep 1000")
		mark(t, "command started", dir+"/ready")
		if id := container(t, p.cmd.Process.Pid); onOCI() {
			kill(id)
		} else {
			exec.Command("docker", append(how, id)...).Run() // it may find it gone
		}
		a := p.wait(t)
		switch {
		case a.code == 125 && a.Cause == "engine_lost":
		case a.code == 137 && a.Cause == "signaled" && a.Evidence.KilledBy == "outside":
		default:
			t.Errorf("docker %v: %s", how, a.json)
		}
		a.says(t, "partial\n")
	}
}

// F11: the stream breaks, the engine lives on. That output was lost is said. The exit status
// of an exec is asked for; an init ends with its connection, and the command with it.
func streamCut(t *testing.T) {
	byExec := func(socket string) func(*exec.Cmd) {
		return func(c *exec.Cmd) {
			atEngine(socket)(c)
			c.Env = append(c.Env, "BELLJAR_ENGINE_INIT=none")
		}
	}
	byInit := func(socket string) func(*exec.Cmd) {
		return func(c *exec.Cmd) {
			atEngine(socket)(c)
			c.Env = append(c.Env, "BELLJAR_ENGINE_INIT="+binary)
		}
	}
	ended := askAs(t, byInit(proxied(t, socketDir(t), cut("lost\n"))), "echo first; sleep 1; echo lost; sleep 2")
	if lost := ended.code == 125 && ended.Cause == "engine_lost" || ended.code == 137 && ended.Evidence.KilledBy == "outside"; !lost || ended.Stdout != "first\n" {
		t.Errorf("by an init: %s", ended.json)
	}
	for what, test := range map[string]struct {
		script string
		code   int
	}{
		"the command goes on":  {"echo first; sleep 1; echo lost; sleep 2; exit 7", 7},
		"the command succeeds": {"echo first; sleep 1; echo lost; sleep 2", 0},
		"in the midst of much": {"echo first; sleep 1; yes lost | head -c 50000000; sleep 2; exit 7", 7},
	} {
		socket := proxied(t, socketDir(t), cut("lost\n"))
		a := askAs(t, byExec(socket), test.script)
		a.ended(t, test.code, "")
		if a.Evidence.OutputError == "" || a.Stdout != "first\n" {
			t.Errorf("%s: that output was lost is not said: %s", what, a.json)
		}
	}
	// Where it does not break, nothing of the kind is said.
	whole := proxied(t, socketDir(t), nil)
	for _, script := range []string{"echo first; exit 3", "exec >&- 2>&-; sleep 2; exit 3", "(sleep 5; echo late) & exit 3"} {
		a := askAs(t, atEngine(whole), script)
		a.ended(t, 3, "")
		if a.Evidence.OutputError != "" {
			t.Errorf("%s: %s", script, a.json)
		}
	}
}

// socketDir is a directory whose name is short enough for a socket's.
func socketDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "belljar-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// engineDown: no socket, and one that no one listens at.
func engineDown(t *testing.T) {
	needDocker(t)
	dir := socketDir(t)
	dead := dir + "/dead.sock"
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: dead, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	listener.SetUnlinkOnClose(false)
	listener.Close()
	for socket, want := range map[string]string{dir + "/none.sock": "the socket does not exist (install and start one", dead: "does not answer"} {
		unusable(t, atEngine(socket), want)
	}
}

// unusable is an engine that no command can be run on.
func unusable(t *testing.T, change func(*exec.Cmd), want string) {
	t.Helper()
	p := begun(t, change, "true")
	a := p.wait(t)
	a.ended(t, 125, "engine_error")
	for _, text := range []string{a.Message, p.stderr.String()} {
		if !strings.Contains(text, want) {
			t.Errorf("said %q, want %q", text, want)
		}
	}
	if strings.Count(p.stderr.String(), "\n") != 1 || a.Status != "fatal" || a.ExitCode != -2 {
		t.Errorf("stderr %q, %s", &p.stderr, a.json)
	}
}

// engineForbidden: the socket is there, and not for this user.
func engineForbidden(t *testing.T) {
	needDocker(t)
	as, dir := anyone(t)
	socket := dir + "/engine.sock"
	if err := os.Chmod(socket, 0o600); err != nil {
		t.Fatal(err)
	}
	unusable(t, as, "no permission to use the engine's socket unix://"+socket)
}

// engineVersions: an engine that is too old, and one that is asked for what it
// does not know.
func engineVersions(t *testing.T) {
	needDocker(t)
	socket := socketDir(t) + "/engine.sock"
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	old := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Api-Version", "1.40") })}
	go old.Serve(listener)
	defer old.Close()
	unusable(t, atEngine(socket), "is too old: the lock-down needs 1.41 (use Docker 20.10 or newer")
	for version, want := range map[string]string{"1.30": "is too old", "9.99": "9.99"} {
		unusable(t, func(c *exec.Cmd) { c.Env = append(os.Environ(), "DOCKER_API_VERSION="+version) }, want)
	}
}

// groupsReadOnly: without a daemon belljar makes the control groups itself. Where they are mounted read-only, it says so at
// once.
func groupsReadOnly(t *testing.T) {
	if !onOCI() {
		t.Skip("this is about an engine without a daemon")
	}
	needRoot(t, "mounting")
	readOnly := func(c *exec.Cmd) {
		const mounts = `mount --make-rprivate / && for d in /sys/fs/cgroup /sys/fs/cgroup/*/; do mountpoint -q $d && mount -o remount,bind,ro $d; done; exec "$@"`
		c.Args = append([]string{"unshare", "-m", "sh", "-c", mounts, "sh", c.Path}, c.Args[1:]...)
		c.Path = "/usr/bin/unshare"
	}
	began := time.Now()
	a := askAs(t, readOnly, "true")
	a.ended(t, 125, "engine_error")
	for _, want := range []string{"making a control group", "read-only file system", "mount -o remount,rw"} {
		if strings.Count(a.Message, want) != 1 {
			t.Errorf("%q is not said once: %s", want, a.Message)
		}
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it took %v", took)
	}
}
