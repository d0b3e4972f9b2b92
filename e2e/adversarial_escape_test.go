package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// E7: the engine's socket is root on the host, in every way to reach it.
func engineSocketIsNotMounted(t *testing.T) {
	dir, config := shared(t, "rw")
	for link, target := range map[string]string{"socket": "/var/run/docker.sock", "parent": "/run"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, source := range []string{"/var/run/docker.sock", "/run/docker.sock", "/run", "/var/run", "/var", dir + "/socket", dir + "/parent"} {
		refused(t, 126, "", "--config", config, "-v", source+":/work/x")
	}
	// A command could have made the links, had the directory been mounted.
	_, elsewhere := shared(t, "rw")
	refused(t, 126, "protected path", "--config", elsewhere, "-v", dir+"/parent:/work/x")

	if !onDocker() {
		return
	}
	// An engine may listen elsewhere, in an allowed directory.
	socket := proxied(t, dir, nil)
	for _, source := range []string{dir, socket} {
		a := askAs(t, atEngine(socket), "--config", config, "-v", source+":/work", "ls /work")
		if a.code != 126 {
			t.Errorf("%s: exit status %d: %s", source, a.code, a.json)
		}
	}
}

// atEngine names another engine's socket.
func atEngine(socket string) func(*exec.Cmd) {
	return func(c *exec.Cmd) { c.Env = append(os.Environ(), "DOCKER_HOST=unix://"+socket) }
}

// E8: no rule can allow the system's own paths, so no rule has to refuse them.
func hostPathsAreNotMounted(t *testing.T) {
	refused(t, 125, "whole host", "--config", configured(t, "mounts: {allow: [{source: /}]}"))
	paths := []string{"/etc", "/etc/shadow", "/proc", "/sys", "/dev", "/var/lib/docker", "/var/lib", "/run"}
	config := configured(t, `mounts: {allow: [{source: /etc}, {source: /var, mode: rw}, {source: /run}]}`)
	for _, path := range append(paths, "/") {
		refused(t, 126, "protected path", "--config", config, "-v", path+":/work/x:ro")
	}
	dir, config := shared(t, "rw")
	for _, target := range []string{"/", "/proc", "/proc/sys", "/sys", "/dev", "/etc", "/bin", "/work/../etc"} {
		refused(t, 126, "protected target", "--config", config, "-v", dir+":"+target)
	}
}

// E9: options that would loosen the lock-down do not exist.
func nothingPrivileged(t *testing.T) {
	for _, line := range []string{"privileged: true", "cap_add: [SYS_ADMIN]", "devices: [/dev/sda]", "pid: host", "ipc: host", "security_opt: [seccomp=unconfined]"} {
		refused(t, 125, "unknown key", "--config", configured(t, line))
	}
	for _, flag := range []string{"--privileged", "--cap-add=ALL", "--device=/dev/sda", "--pid=host", "--ipc=host", "--uts=host", "--userns=host", "--cgroupns=host", "--security-opt=seccomp=unconfined"} {
		refused(t, 125, "unknown flag", flag)
	}
	for _, flag := range []string{"--network=host", "--network=container:x", "--user=0:0", "--user=root"} {
		refused(t, 125, "", flag)
	}
	refused(t, 125, "network", "--config", configured(t, "network: host"))
	refused(t, 125, "user", "--config", configured(t, `user: "0:0"`))
}

// E11: two sandboxes share nothing that both could write.
func nothingShared(t *testing.T) {
	cmd, _ := begin(t, "nothing shared")
	id := container(t, cmd.Process.Pid)
	if shared := fromHost(t, id); len(shared) > 0 {
		t.Errorf("mounted: %q", shared)
	}
	for _, kind := range []string{"ipc", "pid", "uts", "net", "mnt", "cgroup"} {
		if os.Getuid() != 0 {
			break // who may not look
		}
		if kind == "cgroup" && onPods() {
			continue // runtimes give a pod one only where control groups are of version 2
		}
		theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", first(id), kind))
		ours, alsoErr := os.Readlink("/proc/self/ns/" + kind)
		if err != nil || alsoErr != nil || theirs == ours {
			t.Errorf("its namespace is %s and ours %s, %v, %v", theirs, ours, err, alsoErr)
		}
	}
	if onDocker() {
		const asked = `{{len .HostConfig.Binds}}{{len .HostConfig.VolumesFrom}}{{len .HostConfig.Devices}} {{.HostConfig.IpcMode}} {{.HostConfig.PidMode}}{{.HostConfig.UTSMode}} {{.HostConfig.CgroupnsMode}}`
		if got := tool(t, "docker", "inspect", "--format", asked, id); got != "000 private  private" {
			t.Errorf("asked for %s", got)
		}
	}
	ask(t, "echo >>/etc/hosts").ended(t, 1, "")
	refused(t, 126, "mounts.allow", "-v", ".:/work:rw")
	ask(t, "rm -f /dev/null; ln -s /proc/sysrq-trigger /dev/null; ls -l /dev/null").says(t, ".*crw-rw-rw-.*")
	cmd.Process.Signal(syscall.SIGTERM)
	cmd.Wait()
}

// E12: a working directory can be a descriptor that the runtime left open, by
// its name or through a link in the image (CVE-2024-21626).
func noLeakedDescriptor(t *testing.T) {
	for _, dir := range []string{"/proc/self/fd/8", "/work/../proc/self/fd/7/../..", "/proc", "/sys/fs/cgroup", "/dev/fd/8"} {
		refused(t, 125, "file system of the kernel", "-w", dir)
	}
	tree := shellTree(t)
	for fd := range 13 {
		tree.link("leak"+strconv.Itoa(fd), "/proc/self/fd/"+strconv.Itoa(fd))
	}
	image := imageOf(t, tree, v1.Config{})
	for _, fd := range []int{3, 6, 7, 8, 9} {
		a := ask(t, "--image", image, "-w", "/leak"+strconv.Itoa(fd), "pwd; ls -d ../../../../../../var/lib/docker")
		if a.code != 125 || a.Stdout != "" {
			t.Errorf("descriptor %d: %s", fd, a.json)
		}
	}
}

// E13: system calls that a sandbox does not need.
func probeRefused(t *testing.T) {
	a := probed(t, "")
	a.ended(t, 0, "")
	lines := strings.Split(strings.TrimSpace(a.Stdout), "\n")
	if len(lines) < 20 {
		t.Errorf("the probe says only %q", a.Stdout)
	}
	for _, line := range lines {
		switch _, errno, _ := strings.Cut(line, " "); errno {
		case "EPERM", "ENOSYS", "EACCES":
		case "EAFNOSUPPORT", "DONE":
			// The init's filter says the former. It is the commands' user there, and no signal of theirs stops it.
			if !onPods() || errno == "DONE" && line != "kill_init DONE" {
				t.Error(line)
			}
		default:
			t.Error(line)
		}
	}
}

// E14: files that a command creates in a host directory never belong to root.
func noRootOwnedFile(t *testing.T) {
	dir, config := shared(t, "rw")
	ask(t, "--config", config, "-v", dir+":/work", "cp /bin/busybox /work/; chmod 4755 /work/busybox; chown 0 /work/busybox; /work/busybox cat /proc/self/status | grep ^Uid").
		says(t, `.*Uid:\t65534\t65534\t65534\t65534\n.*`)
	info, err := os.Stat(dir + "/busybox")
	if err != nil {
		t.Fatal(err)
	}
	if uid := info.Sys().(*syscall.Stat_t).Uid; uid != 65534 {
		t.Errorf("the file belongs to %d", uid)
	}
	ask(t, "cp /bin/busybox .; chmod 4755 busybox; grep -c ' /work .*nosuid' /proc/mounts").says(t, "1\n")
}

// E16: without a network no address can be reached, the host's included.
func nothingReached(t *testing.T) {
	addresses := []string{"169.254.169.254", "1.1.1.1", "192.168.1.1", "fd00:ec2::254"}
	interfaces, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range interfaces { // docker0 among them
		if ip, _, err := net.ParseCIDR(address.String()); err == nil && ip.IsGlobalUnicast() {
			addresses = append(addresses, ip.String())
		}
	}
	a := ask(t, "for a in "+strings.Join(addresses, " ")+`; do nc -w 5 $a 80 </dev/null && echo REACHED; nc -u -w 1 $a 53 </dev/null && echo REACHED; done; cat /proc/net/route /proc/net/arp | grep -v -e Iface -e HW; ls /sys/class/net`)
	if strings.Contains(a.Stdout, "REACHED") || a.Stdout != "lo\n" && !onPods() { // its interface is the cluster's, but no socket is to be had
		t.Errorf("stdout %q, stderr %q", a.Stdout, a.Stderr)
	}
}

// E17: the host's processes are invisible, and the keeper is inaccessible.
func ownProcessesOnly(t *testing.T) {
	a := ask(t, "ls -d /proc/[0-9]* | wc -l; cd /proc/1; (cat environ maps; ls -A root/ cwd/; ls -A fd) 2>/dev/null; true")
	count, err := strconv.Atoi(strings.TrimSpace(a.Stdout))
	if err != nil || count > 10 {
		t.Errorf("sees %q", a.Stdout)
	}
}
