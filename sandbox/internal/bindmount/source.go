package bindmount

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"belljar/sandbox"
	"belljar/sandbox/internal/failure"

	"golang.org/x/sys/unix"
)

// Identity identifies a file whatever its name.
type Identity struct{ dev, ino uint64 }

// Source is what is mounted, made safe from a command with a writable mount,
// which could put a link into the engine's way (renameat2(2), RENAME_EXCHANGE)
// between the policy check and the mount.
type Source struct {
	Path   string // for the engine
	Judged Identity
	bind   string // ours of it, or ""
}

// Sources makes the sources of mounts safe. release removes the binds, once
// the container has its own.
func (h Binder) Sources(mounts []sandbox.Mount) (all []Source, release func(), err error) {
	release = func() {
		for _, b := range all {
			Unbind(b.bind)
		}
	}
	for _, m := range mounts {
		b, err := h.Source(m)
		if err != nil {
			release()
			return nil, nil, err
		}
		all = append(all, b)
	}
	return all, release, nil
}

// Source makes a bind of a mount's source. If that is impossible, the source must be one
// that no command could replace it.
func (h Binder) Source(m sandbox.Mount) (Source, error) {
	fd, id, err := OpenSource(m.Source)
	if err != nil {
		return Source{}, err
	}
	defer unix.Close(fd)
	path, err := h.Bind(fd)
	switch {
	case err == nil:
		return Source{path, id, path}, nil
	case m.Steady:
		return Source{m.Source, id, ""}, nil
	case failure.Shortage(err):
		return Source{}, shortage(err, m.Source)
	}
	return Source{}, &sandbox.Error{
		Cause: sandbox.CauseDenied, Err: err,
		Message: fmt.Sprintf("mount source %q is in a directory that commands can write to: one could replace it during the mount", m.Source),
		Hint:    "mount that directory itself, or set mode ro in its mounts.allow rule, or run belljar as root on the engine's host",
	}
}

// OpenSource opens a mount's source. Its path was resolved for the policy check: if there
// is a link in it now, something was swapped.
func OpenSource(source string) (fd int, id Identity, err error) {
	fd, id, mode, err := open(unix.AT_FDCWD, source, unix.RESOLVE_NO_SYMLINKS)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, id, &sandbox.Error{Cause: sandbox.CauseInvalid, Message: fmt.Sprintf("mount source %q does not exist", source), Hint: "create it first"}
	}
	if kind := mode & unix.S_IFMT; err == nil && kind != unix.S_IFDIR && kind != unix.S_IFREG {
		unix.Close(fd)
		err = errors.New("it is neither a directory nor a regular file")
	}
	if err != nil {
		return 0, id, changed(err, "mount source %q changed after the policy check", source)
	}
	return fd, id, nil
}

func changed(err error, format, source string) error {
	if failure.Shortage(err) {
		return shortage(err, source)
	}
	return &sandbox.Error{Cause: sandbox.CauseDenied, Err: err, Message: fmt.Sprintf(format, source), Hint: "make sure that nothing writes to the directories above the source"}
}

// shortage is where it is not known whether anything changed.
func shortage(err error, source string) error {
	return failure.New(err, "opening mount source %q", source).Hint("see: belljar doctor")
}

// Target is where a command asked for a mount or tmpfs.
type Target struct{ What, Path string }

// Targets are those of the mounts, in their order, and then of tmpfs.
func Targets(spec sandbox.Spec) (all []Target) {
	for _, m := range spec.Mounts {
		all = append(all, Target{"mount target", m.Target})
	}
	for _, dir := range spec.Tmpfs {
		all = append(all, Target{"tmpfs", dir})
	}
	return all
}

// LinkError refuses a target that goes through a link: the policy checked the path as it
// was written.
func (t Target) LinkError() error {
	return &sandbox.Error{
		Cause:   sandbox.CauseDenied,
		Message: fmt.Sprintf("%s %q goes through a symbolic link in the image or in another mount", t.What, t.Path),
		Hint:    "use the path that the link points to",
	}
}

// CheckMounted compares what was mounted in a running container, below its root, with what
// the policy checked.
func CheckMounted(root *os.File, spec sandbox.Spec, judged []Source) error {
	for i, t := range Targets(spec) {
		fd, id, _, err := open(int(root.Fd()), strings.TrimPrefix(t.Path, "/"), unix.RESOLVE_IN_ROOT|unix.RESOLVE_NO_SYMLINKS)
		if err == nil {
			unix.Close(fd)
		}
		switch {
		case errors.Is(err, unix.ELOOP):
			return t.LinkError()
		case i < len(judged) && (err != nil || id != judged[i].Judged):
			return changed(err, "mount source %q changed while it was mounted", spec.Mounts[i].Source)
		case err != nil:
			return &sandbox.Error{Cause: sandbox.CauseEngine, Err: err, Message: fmt.Sprintf("checking %s %q in the container", t.What, t.Path), Hint: "see: belljar doctor"}
		}
	}
	return nil
}

// open opens a file to identify it, not to read it.
func open(dir int, path string, resolve uint64) (fd int, id Identity, mode uint32, err error) {
	fd, err = unix.Openat2(dir, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: resolve})
	if err != nil {
		return 0, id, 0, err
	}
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil {
		unix.Close(fd)
		return 0, id, 0, err
	}
	return fd, Identity{s.Dev, s.Ino}, s.Mode, nil
}
