package docker

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"belljar/sandbox"

	"golang.org/x/sys/unix"
)

// bindDir is where root makes bind mounts for the engine to mount from. Each is made
// from an open file, so the engine mounts that file under every runtime, even if its
// path leads elsewhere by then.
const bindDir = "/run/belljar-mounts"

// binder makes these bind mounts, where this process may mount and the engine sees it.
type binder struct {
	owner owner
	err   error // why not
}

func (e *Engine) binder(mounts []sandbox.Mount) binder {
	h := binder{owner: e.owner}
	if len(mounts) == 0 {
		return h
	}
	if h.err = e.sharesMounts(); h.err == nil {
		h.err = privateDir(bindDir)
	}
	return h
}

// bindFile binds an open file or directory below bindDir.
func (h binder) bindFile(fd int) (path string, err error) {
	if h.err != nil {
		return "", h.err
	}
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil {
		return "", err
	}
	tree, err := unix.OpenTree(fd, "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return "", fmt.Errorf("binding it: %w", err)
	}
	defer unix.Close(tree)
	path = filepath.Join(bindDir, h.owner.bindPrefix()+rand.Text())
	if s.Mode&unix.S_IFMT == unix.S_IFDIR {
		err = os.Mkdir(path, 0o700)
	} else {
		err = os.WriteFile(path, nil, 0o600)
	}
	if err != nil {
		return "", err
	}
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, path, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		os.Remove(path)
		return "", fmt.Errorf("binding it: %w", err)
	}
	return path, nil
}

// unbind removes a bind. It removes nothing that something is mounted on.
func unbind(path string) {
	if path == "" {
		return
	}
	unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	os.Remove(path)
}

// bindPrefix is how the names of this process's bind mounts begin: PID namespace, PID
// and start time.
func (o owner) bindPrefix() string {
	_, namespace, _ := strings.Cut(o.host, "/")
	return namespace + "-" + o.process + "-"
}

// sweepBinds removes the bind mounts of processes that have ended.
func (o owner) sweepBinds() {
	entries, _ := os.ReadDir(bindDir) // missing, or another user's
	for _, entry := range entries {
		namespace, rest, _ := strings.Cut(entry.Name(), "-")
		process, _, _ := strings.Cut(rest, "-")
		boot, _, _ := strings.Cut(o.host, "/")
		if o.gone(boot+"/"+namespace, process) {
			unbind(filepath.Join(bindDir, entry.Name()))
		}
	}
}

// privateDir makes a directory of this user's own, or finds that it is.
func privateDir(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	var s unix.Stat_t
	if err := unix.Lstat(dir, &s); err != nil {
		return err
	}
	if s.Mode != unix.S_IFDIR|0o700 || int(s.Uid) != os.Geteuid() {
		return fmt.Errorf("%s is not a private directory of this user", dir)
	}
	return nil
}

// sharesMounts is an error where the engine does not see what this process
// mounts, or this process may not mount.
func (e *Engine) sharesMounts() error {
	if os.Geteuid() != 0 {
		return errors.New("only root can bind it")
	}
	conn, err := net.DialTimeout("unix", strings.TrimPrefix(e.Host(), "unix://"), time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) { peer, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil || failed != nil {
		return errors.Join(err, failed)
	}
	theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", peer.Pid))
	if err != nil {
		return fmt.Errorf("reading the engine's mount namespace: %w", err)
	}
	if ours, err := os.Readlink("/proc/self/ns/mnt"); err != nil || ours != theirs {
		return errors.New("the engine runs in another mount namespace")
	}
	return nil
}
