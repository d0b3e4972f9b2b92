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

// holdDir is root's, for binds that the engine mounts from. A bind is made from
// an open file: whatever its path leads to by then, the engine gets that file,
// under every runtime.
const holdDir = "/run/belljar-mounts"

// holder makes such binds, where this process may and the engine sees them.
type holder struct {
	owner owner
	err   error // why not
}

func (e *Engine) holder(mounts []sandbox.Mount) holder {
	h := holder{owner: e.owner}
	if len(mounts) == 0 {
		return h
	}
	if h.err = e.sharesMounts(); h.err == nil {
		h.err = ownDir(holdDir)
	}
	return h
}

// hold binds an open file or directory below holdDir.
func (h holder) hold(fd int) (path string, err error) {
	if h.err != nil {
		return "", h.err
	}
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil {
		return "", err
	}
	tree, err := unix.OpenTree(fd, "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return "", fmt.Errorf("holding it by a bind: %w", err)
	}
	defer unix.Close(tree)
	path = filepath.Join(holdDir, h.owner.holds()+rand.Text())
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
		return "", fmt.Errorf("holding it by a bind: %w", err)
	}
	return path, nil
}

// letGo ends a bind. It removes nothing that something is mounted on.
func letGo(held string) {
	if held == "" {
		return
	}
	unix.Unmount(held, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	os.Remove(held)
}

// holds begins the names of what this process holds: PID namespace, PID and
// start time.
func (o owner) holds() string {
	_, namespace, _ := strings.Cut(o.host, "/")
	return namespace + "-" + o.process + "-"
}

// sweepHolds lets go of what processes that are gone held.
func (o owner) sweepHolds() {
	entries, _ := os.ReadDir(holdDir) // not there, or another user's
	for _, entry := range entries {
		namespace, rest, _ := strings.Cut(entry.Name(), "-")
		process, _, _ := strings.Cut(rest, "-")
		boot, _, _ := strings.Cut(o.host, "/")
		if o.gone(boot+"/"+namespace, process) {
			letGo(filepath.Join(holdDir, entry.Name()))
		}
	}
}

// ownDir makes a directory of this user's own, or finds that it is.
func ownDir(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	var s unix.Stat_t
	if err := unix.Lstat(dir, &s); err != nil {
		return err
	}
	if s.Mode != unix.S_IFDIR|0o700 || int(s.Uid) != os.Geteuid() {
		return fmt.Errorf("%s is not a directory of this user's alone", dir)
	}
	return nil
}

// sharesMounts is an error where the engine does not see what this process
// mounts, or this process may not mount.
func (e *Engine) sharesMounts() error {
	if os.Geteuid() != 0 {
		return errors.New("only root can hold it")
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
		return fmt.Errorf("looking at the engine's mounts: %w", err)
	}
	if ours, err := os.Readlink("/proc/self/ns/mnt"); err != nil || ours != theirs {
		return errors.New("the engine has mounts of its own")
	}
	return nil
}
