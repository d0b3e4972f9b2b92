package userns

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"belljar/sandbox"
)

// Clone is a detached mount of an open directory, in which the files of user 0 belong to the range's
// first ID, and so on. Nothing in the directory changes. It is read-only, as all that may
// be shared must be, and without the mounts below the directory.
//
// It takes Linux 5.19, as it is to lie below an overlay, and a file system that knows such mounts: without, the error
// is ErrUnmapped.
func (r *Range) Clone(dir int) (tree int, err error) {
	if older(5, 19) {
		return -1, ErrUnmapped
	}
	namespace, err := r.Namespace()
	if err != nil {
		return -1, err
	}
	tree, err = unix.OpenTree(dir, "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return -1, missing(err, "cloning the mount of an image")
	}
	attr := unix.MountAttr{
		Attr_set:    unix.MOUNT_ATTR_IDMAP | unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV,
		Userns_fd:   uint64(namespace.Fd()),
		Propagation: unix.MS_PRIVATE,
	}
	err = unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &attr)
	if err == nil {
		return tree, nil
	}
	unix.Close(tree)
	if slices.Contains(unmapped, err) {
		return -1, ErrUnmapped
	}
	return -1, missing(err, "mapping the user IDs of an image")
}

// older reports whether the kernel is.
func older(major, minor int) bool {
	var u unix.Utsname
	var has [2]int
	unix.Uname(&u)
	n, _ := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &has[0], &has[1])
	return n == 2 && slices.Compare(has[:], []int{major, minor}) < 0
}

// ErrUnmapped is Clone's error where the kernel maps no user IDs of a directory's file system.
var ErrUnmapped = errors.New("this file system's user IDs cannot be mapped")

// unmapped are the errors that say so: without a mount_setattr(2), for a file system that knows no such mounts, and for one
// that belongs to another user namespace.
var unmapped = []error{unix.ENOSYS, unix.EINVAL, unix.EOPNOTSUPP, unix.EPERM}

// Namespace is a user namespace whose user 0 is the range's first ID. It is the range's until Close.
func (r *Range) Namespace() (*os.File, error) {
	if r.namespace != nil {
		return r.namespace, nil
	}
	namespace, err := newNamespace(r.First, r.Owner)
	if err != nil {
		return nil, missing(err, "making a user namespace")
	}
	r.namespace = namespace
	return namespace, nil
}

// newNamespace makes a user namespace. Only a process can make one, so a process is started, and
// ended before it runs anything: traced, it stops as soon as it executes.
func newNamespace(first, owner int) (*os.File, error) {
	runtime.LockOSThread() // the thread that traces is the one that may end it
	defer runtime.UnlockOSThread()
	mapping := []syscall.SysProcIDMap{{ContainerID: 0, HostID: first, Size: Size}}
	var process *os.Process
	err := asUser(owner, func() (err error) {
		process, err = os.StartProcess("/proc/self/exe", []string{"belljar-userns"}, &os.ProcAttr{
			Env: []string{},
			Sys: &syscall.SysProcAttr{
				Cloneflags: unix.CLONE_NEWUSER, UidMappings: mapping, GidMappings: mapping, GidMappingsEnableSetgroups: true,
				Ptrace: true, Pdeathsig: syscall.SIGKILL,
			},
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	// Not waited for yet, its PID is not another's.
	namespace, err := os.Open("/proc/" + strconv.Itoa(process.Pid) + "/ns/user")
	process.Kill()
	for { // the first news may be that it stopped
		state, waitErr := process.Wait()
		if waitErr != nil || state.Exited() || state.Sys().(syscall.WaitStatus).Signaled() {
			return namespace, err
		}
	}
}

// missing says what a host lacks.
func missing(err error, format string, args ...any) error {
	e := &sandbox.Error{Cause: sandbox.CauseEngine, Message: fmt.Sprintf(format, args...), Err: err}
	switch {
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.EOPNOTSUPP):
		e.Hint = "this needs a kernel with user namespaces, and images on a file system that an overlay can lie over, such as ext4, xfs or btrfs: move the state directory there"
	case errors.Is(err, unix.ENOSPC):
		e.Hint = "this host has as many user namespaces or mounts as it may: raise sysctl user.max_user_namespaces or fs.mount-max"
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		e.Hint = "root in a container needs belljar to run as root, with all capabilities, and user namespaces"
	}
	return e
}
