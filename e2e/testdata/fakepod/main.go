// Command fakepod becomes the main process of a pod of a fake kubelet: in the namespaces that it was started in, as their first process,
// it makes a container's root and then runs belljar's init, as the pod asks for it. What is missing of a container: control groups,
// and a runtime's own seccomp profile.
//
//	fakepod '{"Root":"/tmp/root","Program":"/tmp/belljar","Args":["/dev/belljar-init","frames","65534","0","alone"],"UID":65534,"GID":65534}'
package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// pod is what fake-kubelets says of one.
type pod struct {
	Name     string
	Root     string            // a directory of the host, read-only in the pod
	Program  string            // belljar, which is mounted as the first of Args
	Args     []string          // the main process
	UID, GID int               // its user
	Tmpfs    map[string]string // directories in memory: their sizes
}

func main() {
	runtime.LockOSThread() // what it gives up is this thread's, which becomes the init
	var p pod
	err := json.Unmarshal([]byte(os.Args[1]), &p)
	if err == nil {
		err = p.enter()
	}
	fmt.Fprintln(os.Stderr, "fakepod:", err)
	os.Exit(125)
}

// enter returns only with an error.
func (p *pod) enter() error {
	for _, step := range []func() error{p.mountRoot, p.mountDev, p.mountProgram, p.mountTmpfs, p.pivot, p.restrict} {
		if err := step(); err != nil {
			return err
		}
	}
	return fmt.Errorf("running %q: %w", p.Args, unix.Exec(p.Args[0], p.Args, []string{"PATH=/usr/bin:/bin"}))
}

func mount(from, to, kind string, flags uintptr, options string) error {
	if err := unix.Mount(from, to, kind, flags, options); err != nil {
		return fmt.Errorf("mounting %s at %s: %w", from, to, err)
	}
	return nil
}

const readOnly = unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY | unix.MS_NOSUID

func (p *pod) mountRoot() error {
	unix.Umask(0)
	if err := mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := mount(p.Root, p.Root, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	for _, dir := range append(slices.Collect(maps.Keys(p.Tmpfs)), "/proc", "/dev") {
		if err := os.MkdirAll(p.Root+dir, 0o755); err != nil && !strings.HasPrefix(dir, "/dev/") {
			return err
		}
	}
	return mount("proc", p.Root+"/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
}

func (p *pod) mountDev() error {
	dev := p.Root + "/dev"
	if err := mount("tmpfs", dev, "tmpfs", unix.MS_NOSUID, "mode=755,size=64k"); err != nil {
		return err
	}
	for name, minor := range map[string]uint32{"null": 3, "zero": 5, "full": 7, "random": 8, "urandom": 9} {
		if err := unix.Mknod(dev+"/"+name, unix.S_IFCHR|0o666, int(unix.Mkdev(1, minor))); err != nil {
			return fmt.Errorf("making %s: %w", name, err)
		}
	}
	if err := os.Symlink("pts/ptmx", dev+"/ptmx"); err != nil {
		return err
	}
	if err := os.Mkdir(dev+"/pts", 0o755); err != nil {
		return err
	}
	return mount("devpts", dev+"/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620")
}

func (p *pod) mountProgram() error {
	at := p.Root + p.Args[0]
	if err := os.WriteFile(at, nil, 0o444); err != nil {
		return err
	}
	if err := mount(p.Program, at, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	return mount("", at, "", readOnly|unix.MS_NODEV, "")
}

func (p *pod) mountTmpfs() error {
	for _, dir := range slices.Sorted(maps.Keys(p.Tmpfs)) {
		at := p.Root + dir
		if err := os.MkdirAll(at, 0o755); err != nil {
			return err
		}
		if err := mount("tmpfs", at, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777,size="+p.Tmpfs[dir]); err != nil {
			return err
		}
	}
	return nil
}

// pivot makes the root the only one, pivot_root(2).
func (p *pod) pivot() error {
	if err := mount("", p.Root, "", readOnly|unix.MS_NODEV, ""); err != nil {
		return err
	}
	if err := unix.Chdir(p.Root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("changing the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leaving the old root: %w", err)
	}
	return unix.Chdir("/")
}

// restrict gives up all that PodSecurity calls restricted does not have.
func (p *pod) restrict() error {
	if err := unix.Sethostname([]byte(p.Name)); err != nil {
		return err
	}
	for c := uintptr(0); ; c++ {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err == unix.EINVAL {
			break // the kernel knows no more
		} else if err != nil {
			return fmt.Errorf("dropping capability %d: %w", c, err)
		}
	}
	if err := unix.Setgroups(nil); err != nil {
		return err
	}
	if err := unix.Setresgid(p.GID, p.GID, p.GID); err != nil {
		return err
	}
	if err := unix.Setresuid(p.UID, p.UID, p.UID); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	unix.Umask(0o022)
	return unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0) // another user's, the kernel had dropped it
}
