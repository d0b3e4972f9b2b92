// Package enginetest starts private Docker engines for tests that kill, stop
// and hang them. They share nothing with the host's engine: neither files nor containerd,
// network or cgroups.
//
// The one rule: an engine always runs in its own network namespace. An engine without
// a bridge deletes the docker0 that it finds, which belongs to the host's engine.
package enginetest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	startTimeout = 2 * time.Minute // for an engine to answer, also on a busy host
	stopTimeout  = 2 * time.Minute // for an engine to end before it is killed
	callTimeout  = time.Minute     // for one docker command
)

// Engine is a dockerd.
type Engine struct {
	Dir  string // all its files
	Host string // its address, for DOCKER_HOST
	name string
	cmd  *exec.Cmd
	own  bool // it has a mount namespace of its own

	killed bool // once, by SIGKILL
}

// New starts an engine with that daemon.json, and checks that nothing is left
// of it after the test. It needs root: without, the test is skipped, and fails in
// CI.
func New(t testing.TB, config string) *Engine {
	t.Helper()
	e := prepare(t, config)
	driver, err := exec.CommandContext(t.Context(), "docker", "info", "--format", "{{.Driver}}").Output()
	if err != nil {
		t.Fatalf("asking the host's engine for its storage driver: %v", err)
	}
	e.launch(t, nil, strings.TrimSpace(string(driver)))
	return e
}

// prepare makes the engine's files.
func prepare(t testing.TB, config string) *Engine {
	t.Helper()
	switch {
	case os.Getuid() == 0:
	case os.Getenv("CI") != "":
		t.Fatal("an engine of one's own takes root")
	default:
		t.Skip("NOT TESTED: an engine of one's own takes root")
	}
	dir, err := os.MkdirTemp("", "belljar-") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	e := &Engine{Dir: dir, Host: "unix://" + dir + "/docker.sock", name: filepath.Base(dir)}
	t.Cleanup(func() { e.remove(t) })
	if err := os.WriteFile(dir+"/daemon.json", []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return e
}

// launch starts the engine by another program, if there are words for one.
func (e *Engine) launch(t testing.TB, by []string, driver string) {
	t.Helper()
	args := append(slices.Clone(by), "dockerd", "--config-file", e.Dir+"/daemon.json", "--data-root", e.Dir+"/data", "--exec-root", e.Dir+"/exec",
		"--pidfile", e.Dir+"/pid", "-H", e.Host, "--storage-driver", driver,
		"--containerd-namespace", e.name, "--containerd-plugins-namespace", e.name+"-plugins", "--cgroup-parent", "/"+e.name,
		"--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false", "--userland-proxy=false")
	e.cmd = exec.Command(args[0], args[1:]...)
	e.Start(t)
}

// Start starts the engine again, after it ended.
func (e *Engine) Start(t testing.TB) {
	t.Helper()
	if err := e.start(); err != nil {
		t.Fatal(err)
	}
}

func (e *Engine) start() error {
	log, err := os.OpenFile(e.Dir+"/log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(e.cmd.Args[0], e.cmd.Args[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: unix.CLONE_NEWNET}
	if e.own {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWNS
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	e.cmd = cmd
	for end := time.Now().Add(startTimeout); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if _, err := e.Docker("version"); err == nil {
			return nil
		}
	}
	text, _ := os.ReadFile(e.Dir + "/log")
	return fmt.Errorf("the private engine does not answer: %s", text[max(0, len(text)-2000):])
}

// Use makes a command use the engine.
func (e *Engine) Use(c *exec.Cmd) { c.Env = append(os.Environ(), "DOCKER_HOST="+e.Host) }

// Docker runs the docker command, and returns what it prints.
func (e *Engine) Docker(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	c := exec.CommandContext(ctx, "docker", args...)
	e.Use(c)
	out, err := c.Output()
	return strings.TrimSpace(string(out)), err
}

// Left are the engine's containers. If moby 20.10 was killed while
// it removed one, its successor removes it twice at once, and continues to list
// it.
func (e *Engine) Left() (ids []string, err error) {
	list, err := e.Docker("ps", "-aq")
	for _, id := range strings.Fields(list) {
		_, missing := e.Docker("inspect", id)
		if refused, ok := errors.AsType[*exec.ExitError](missing); !ok || !strings.Contains(string(refused.Stderr), "No such") {
			ids = append(ids, id)
		}
	}
	return ids, err
}

// Signal sends the engine a signal. After SIGKILL it waits for the end.
func (e *Engine) Signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	if err := e.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
	if s == unix.SIGKILL {
		e.cmd.Wait()
		e.killed = true
	}
}

// remove ends the engine and all that it started. A killed engine is started
// again first, so that it cleans up itself.
func (e *Engine) remove(t testing.TB) {
	if e.cmd != nil && e.cmd.ProcessState != nil {
		if err := e.start(); err != nil {
			t.Error(err)
		}
	}
	if e.cmd != nil && e.cmd.Process != nil && e.cmd.ProcessState == nil {
		e.stop(t)
	}
	for range 300 { // a shim ends after its container
		if len(e.processes()) == 0 {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	for _, pid := range e.processes() {
		args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		// An engine that is killed while it makes a container forgets its shim and its storage.
		if forgotten := e.killed && (strings.Contains(string(args), "shim") || strings.HasPrefix(string(args), "fuse-overlayfs")); !forgotten {
			t.Errorf("process %d is left: %q", pid, args)
		}
		unix.Kill(pid, unix.SIGKILL)
	}
	for _, mount := range e.mounts() {
		if err := unix.Unmount(mount, unix.MNT_DETACH); err != nil {
			t.Errorf("unmounting %s: %v", mount, err)
		}
	}
	if left := e.mounts(); len(left) > 0 {
		t.Errorf("mounts are left: %q", left)
		return // the files below may belong to others
	}
	e.removeGroups(t)
	if err := os.RemoveAll(e.Dir); err != nil {
		t.Error(err)
	}
}

// removeGroups removes the engine's control groups. One that is killed while it makes a container forgets
// what was to become its first process, too.
func (e *Engine) removeGroups(t testing.TB) {
	roots, _ := filepath.Glob("/sys/fs/cgroup/*/" + e.name)
	for _, root := range append(roots, "/sys/fs/cgroup/"+e.name) {
		var groups []string
		filepath.WalkDir(root, func(name string, of fs.DirEntry, err error) error {
			if err == nil && of.IsDir() {
				groups = append(groups, name)
			}
			return nil
		})
		for _, group := range slices.Backward(groups) {
			for range 100 { // a process that was killed leaves it soon
				pids, _ := os.ReadFile(group + "/cgroup.procs")
				for pid := range strings.FieldsSeq(string(pids)) {
					t.Logf("process %s was left in %s", pid, group)
					if n, err := strconv.Atoi(pid); err == nil && n > 1 {
						unix.Kill(n, unix.SIGKILL)
					}
				}
				if unix.Rmdir(group) == nil {
					break
				}
				time.Sleep(20 * time.Millisecond)
			}
		}
	}
}

// stop removes the engine's containers and ends it. One that hangs is killed.
func (e *Engine) stop(t testing.TB) {
	e.cmd.Process.Signal(unix.SIGCONT)
	if ids, _ := e.Docker("ps", "-aq"); ids != "" {
		t.Logf("containers that the test left: %q", ids)
		e.Docker(append([]string{"rm", "-f"}, strings.Fields(ids)...)...)
	}
	late := time.AfterFunc(stopTimeout, func() {
		t.Error("the private engine does not end")
		e.cmd.Process.Kill()
	})
	e.cmd.Process.Signal(unix.SIGTERM)
	e.cmd.Wait()
	late.Stop()
}

// processes are those that name this engine's directory or namespace, which
// no others do: containerd, its shims and their helpers.
func (e *Engine) processes() []int {
	entries, _ := os.ReadDir("/proc")
	var pids []int
	for _, entry := range entries {
		args, _ := os.ReadFile("/proc/" + entry.Name() + "/cmdline")
		if pid, err := strconv.Atoi(entry.Name()); err == nil && strings.Contains(string(args), e.name) && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Runs reports whether one of these processes has such a command line.
func (e *Engine) Runs(command string) bool {
	return slices.ContainsFunc(e.processes(), func(pid int) bool {
		args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return strings.Contains(strings.ReplaceAll(string(args), "\x00", " "), command)
	})
}

// Shim is the PID of the process that holds a container.
func (e *Engine) Shim(t testing.TB, container string) int {
	t.Helper()
	for _, pid := range e.processes() {
		args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if strings.Contains(string(args), "containerd-shim") && strings.Contains(string(args), container) {
			return pid
		}
	}
	t.Fatal("the container has no shim")
	return 0
}

// mounts are those below the engine's directory, the deepest first.
func (e *Engine) mounts() []string {
	text, _ := os.ReadFile("/proc/self/mountinfo")
	var list []string
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); strings.HasPrefix(fields[4], e.Dir+"/") {
			list = append(list, fields[4])
		}
	}
	slices.Reverse(list)
	return list
}
