package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// dockerd is an engine of a test's own, to be killed and stopped. Nothing of it
// is the host's: neither its files nor its containerd, network or cgroups.
type dockerd struct {
	dir, name, host string
	cmd             *exec.Cmd
}

// privateEngine starts an engine with the base image in it, and sees to it that
// nothing is left of it after the test.
func privateEngine(t *testing.T) *dockerd {
	t.Helper()
	return privateEngineWith(t, "{}")
}

// privateEngineWith has that in its daemon.json.
func privateEngineWith(t *testing.T, config string) *dockerd {
	t.Helper()
	needEngine(t)
	needRoot(t, "an engine of one's own")
	dir, err := os.MkdirTemp("", "belljar-") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	d := &dockerd{dir: dir, name: filepath.Base(dir), host: "unix://" + dir + "/docker.sock"}
	if err := os.WriteFile(dir+"/daemon.json", []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.vanish(t) })
	d.start(t)
	build := exec.Command(binary, "images", "build", "base")
	d.use(build)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the base image: %v: %s", err, out)
	}
	return d
}

func (d *dockerd) use(c *exec.Cmd) { c.Env = append(os.Environ(), "DOCKER_HOST="+d.host) }

func (d *dockerd) start(t *testing.T) {
	t.Helper()
	log, err := os.Create(d.dir + "/log")
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	d.cmd = exec.Command("dockerd", "--config-file", d.dir+"/daemon.json", "--data-root", d.dir+"/data", "--exec-root", d.dir+"/exec",
		"--pidfile", d.dir+"/pid", "-H", d.host, "--storage-driver", tool(t, "docker", "info", "--format", "{{.Driver}}"),
		"--containerd-namespace", d.name, "--containerd-plugins-namespace", d.name+"-plugins", "--cgroup-parent", "/"+d.name,
		"--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false", "--userland-proxy=false")
	d.cmd.Stdout, d.cmd.Stderr = log, log
	// A network namespace of its own: an engine without a bridge deletes the
	// docker0 that it finds, which is the host's engine's.
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: syscall.CLONE_NEWNET}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "private engine answers", func() bool {
		_, err := d.docker("version")
		return err == nil
	})
}

func (d *dockerd) docker(args ...string) (string, error) {
	c := exec.Command("docker", args...)
	d.use(c)
	out, err := c.Output()
	return strings.TrimSpace(string(out)), err
}

func (d *dockerd) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := d.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
	if s == syscall.SIGKILL {
		d.cmd.Wait()
	}
}

// vanish ends the engine and all that it started. One that was killed is
// started again: it knows best how to undo what it made.
func (d *dockerd) vanish(t *testing.T) {
	if d.cmd != nil && d.cmd.ProcessState != nil {
		d.restart(t)
	}
	if d.cmd != nil && d.cmd.ProcessState == nil {
		d.cmd.Process.Signal(syscall.SIGCONT)
		if ids, _ := d.docker("ps", "-aq"); ids != "" {
			t.Logf("containers that the faults left: %q", ids)
			d.docker(append([]string{"rm", "-f"}, strings.Fields(ids)...)...)
		}
		d.cmd.Process.Signal(syscall.SIGTERM)
		d.cmd.Wait()
	}
	for _, pid := range d.processes() {
		t.Errorf("process %d is left", pid)
		syscall.Kill(pid, syscall.SIGKILL)
	}
	for _, mount := range d.mounts() {
		if err := syscall.Unmount(mount, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmounting %s: %v", mount, err)
		}
	}
	if left := d.mounts(); len(left) > 0 {
		t.Errorf("mounts are left: %q", left)
		return // the files below may be others'
	}
	groups, _ := filepath.Glob("/sys/fs/cgroup/*/" + d.name)
	for _, group := range append(groups, "/sys/fs/cgroup/"+d.name) {
		syscall.Rmdir(group)
	}
	if err := os.RemoveAll(d.dir); err != nil {
		t.Error(err)
	}
}

// restart is start where t may be done already.
func (d *dockerd) restart(t *testing.T) {
	again := exec.Command(d.cmd.Args[0], d.cmd.Args[1:]...)
	again.SysProcAttr = d.cmd.SysProcAttr
	if err := again.Start(); err != nil {
		t.Error(err)
		return
	}
	d.cmd = again
	for range 300 {
		if _, err := d.docker("version"); err == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Error("the private engine does not start again")
}

// processes are those that name this engine's directory or namespace, which
// nobody else's do: containerd, its shims and their helpers.
func (d *dockerd) processes() []int {
	entries, _ := os.ReadDir("/proc")
	var pids []int
	for _, e := range entries {
		args, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if pid, err := strconv.Atoi(e.Name()); err == nil && strings.Contains(string(args), d.name) && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// runs tells whether one of these processes was started like that.
func (d *dockerd) runs(command string) bool {
	return slices.ContainsFunc(d.processes(), func(pid int) bool {
		args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return strings.Contains(strings.ReplaceAll(string(args), "\x00", " "), command)
	})
}

// shim is the PID of the process that holds a container.
func (d *dockerd) shim(t *testing.T, container string) int {
	t.Helper()
	for _, pid := range d.processes() {
		args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if strings.Contains(string(args), "containerd-shim") && strings.Contains(string(args), container) {
			return pid
		}
	}
	t.Fatal("the container has no shim")
	return 0
}

// mounts are those below the engine's directory, the deepest first.
func (d *dockerd) mounts() []string {
	text, _ := os.ReadFile("/proc/self/mountinfo")
	var list []string
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); strings.HasPrefix(fields[4], d.dir+"/") {
			list = append(list, fields[4])
		}
	}
	slices.Reverse(list)
	return list
}
