package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"belljar/sandbox"
	"belljar/sandbox/internal/lockdown"

	"github.com/docker/docker/api/types/system"
	"golang.org/x/sys/unix"
)

// layerDriver is the storage driver whose containers can have a layer of ours. It keeps a container's own files in two
// directories next to each other, and has the kernel lay them over the image's, so that what is written counts for the
// container's memory.
const layerDriver = "overlay2"

// filesOnHost is how gVisor must be told to leave a container's files to the host. Otherwise it keeps them in a file of its own,
// and ends when that cannot grow.
const filesOnHost = "--overlay2=none"

// checkLayer refuses a writable root file system that could not be bounded.
func (e *Engine) checkLayer(info system.Info, runtime, network string) error {
	refuse := func(err error, what, hint string) error {
		return engineError(err, "limits.disk cannot bound a writable root file system: %s", what).As(sandbox.CauseInvalid).
			Hint(hint + "; or use engine.kind oci, or rootfs: read-only")
	}
	switch unseen := e.sharesMounts(); {
	case e.Dir == "":
		return refuse(nil, "it takes a state directory", "set XDG_STATE_HOME to a writable directory")
	case network != "none":
		return refuse(nil, "for a network, the engine gives a container files on its own disk, such as /etc/hosts", "use network: none")
	case unseen != nil:
		return refuse(unseen, "the engine must mount what belljar made for it", "run belljar as root on the engine's host")
	case info.Driver != layerDriver:
		return refuse(nil, "the engine's storage driver is "+info.Driver, `set "storage-driver": "`+layerDriver+`" in the engine's daemon.json`)
	case isGVisor(info, runtime) && !slices.Contains(info.Runtimes[runtime].Args, filesOnHost):
		return refuse(nil, "runtime "+runtime+" keeps the files itself", "add "+filesOnHost+" to its runtimeArgs in the engine's daemon.json")
	case !sharesKernel(runtime) && !isGVisor(info, runtime):
		return refuse(nil, "runtime "+runtime+" is not known", "use runc or runsc")
	}
	return nil
}

// boundRoot bounds what is written to the root file system of a container that has not been started: in place of the engine's
// directory for it there is one in memory. It goes with the container: to remove that, the engine unmounts what it
// finds there.
func (b *box) boundRoot(ctx context.Context) error {
	if b.spec.Limits.Disk == 0 {
		return nil
	}
	about, err := b.engine.inspect(ctx, b.id)
	if err != nil {
		return engineError(err, "inspecting the container").Hint("see: belljar doctor")
	}
	upper, work := about.GraphDriver.Data["UpperDir"], about.GraphDriver.Data["WorkDir"]
	dir := filepath.Dir(upper)
	if about.GraphDriver.Name != layerDriver || !filepath.IsAbs(upper) || dir != filepath.Dir(work) {
		return engineError(nil, "the engine's container has no layer of its own (storage driver %s)", about.GraphDriver.Name).As(sandbox.CauseInvalid).
			Hint("use engine.kind oci, or rootfs: read-only")
	}
	if err := mountLayer(dir, b.spec.Limits.Disk); err != nil {
		return engineError(err, "bounding the container's root file system").Hint("see: belljar doctor; or use engine.kind oci, or rootfs: read-only")
	}
	return nil
}

// mountLayer mounts a file system in memory over the directory of a container's layer, with what the engine put there.
func mountLayer(dir string, size int64) error {
	made, err := newMemory(size)
	if err != nil {
		return err
	}
	defer made.Close()
	if err := copyLayer(dir, made); err != nil {
		return fmt.Errorf("copying %s: %w", dir, err)
	}
	if err := unix.MoveMount(int(made.Fd()), "", unix.AT_FDCWD, dir, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mounting at %s: %w", dir, err)
	}
	return nil
}

// newMemory is a file system in memory, mounted nowhere.
func newMemory(size int64) (*os.File, error) {
	kind, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("making a file system in memory (this takes Linux 5.2): %w", err)
	}
	defer unix.Close(kind)
	for _, option := range [][2]string{{"size", strconv.FormatInt(size, 10)}, {"nr_inodes", strconv.FormatInt(lockdown.Inodes(size), 10)}, {"mode", "710"}} {
		if err := unix.FsconfigSetString(kind, option[0], option[1]); err != nil {
			return nil, fmt.Errorf("setting the %s of a file system in memory: %w", option[0], err)
		}
	}
	if err := unix.FsconfigCreate(kind); err != nil {
		return nil, fmt.Errorf("making a file system in memory: %w", err)
	}
	tree, err := unix.Fsmount(kind, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	if err != nil {
		return nil, fmt.Errorf("mounting a file system in memory: %w", err)
	}
	return os.NewFile(uintptr(tree), "layer"), nil
}

// copyLayer copies the directory of a layer that nothing was written to: the engine's notes about it, which are files, and
// the directories that are to be written to.
func copyLayer(from string, to *os.File) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, entry := range append(entries, nil) {
		name := "."
		if entry != nil {
			name = entry.Name()
		}
		if err := copyEntry(filepath.Join(from, name), int(to.Fd()), name); err != nil {
			return err
		}
	}
	return nil
}

// copyEntry copies an entry, or, where that is ".", what the directory itself is like.
func copyEntry(from string, to int, name string) error {
	var about unix.Stat_t
	if err := unix.Lstat(from, &about); err != nil {
		return err
	}
	switch kind := about.Mode & unix.S_IFMT; {
	case name == ".":
	case kind == unix.S_IFDIR:
		if err := checkUnused(from); err != nil {
			return err
		}
		if err := unix.Mkdirat(to, name, 0o700); err != nil {
			return err
		}
	case kind == unix.S_IFREG && about.Size <= maxUserFile:
		if err := copyFile(from, to, name); err != nil {
			return err
		}
	default:
		return fmt.Errorf("%s is neither a directory nor a small file", name)
	}
	return errors.Join(unix.Fchownat(to, name, int(about.Uid), int(about.Gid), unix.AT_SYMLINK_NOFOLLOW), unix.Fchmodat(to, name, about.Mode&0o7777, 0))
}

// checkUnused refuses a directory that has anything but the kernel's empty working directory.
func checkUnused(dir string) error {
	return filepath.WalkDir(dir, func(name string, of fs.DirEntry, err error) error {
		if err == nil && name != dir && (!of.IsDir() || filepath.Base(dir) != "work" || filepath.Dir(name) != dir) {
			err = fmt.Errorf("%s is there already", name)
		}
		return err
	})
}

func copyFile(from string, to int, name string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	fd, err := unix.Openat(to, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), name)
	_, err = file.Write(text)
	return errors.Join(err, file.Close())
}
