package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"belljar/internal/ownfile"
	"belljar/sandbox"
)

// openOwn opens a file that only this user can access. One to write has no other name:
// through that, it could be written or kept elsewhere.
func openOwn(name string, flags int) (f *os.File, size int64, err error) {
	f, err = os.OpenFile(name, flags|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	switch {
	case errors.Is(err, syscall.ELOOP):
		return nil, 0, unsafe(name, "is a symbolic link", nameAnother)
	case errors.Is(err, fs.ErrNotExist) && flags&os.O_CREATE == 0:
		return nil, 0, err
	case err != nil:
		return nil, 0, failed(err, "opening", name)
	}
	about, err := f.Stat()
	if err != nil {
		err = failed(err, "checking", name)
	} else {
		err = checkOwn(name, about, flags&os.O_RDWR != 0)
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, about.Size(), nil
}

func checkOwn(name string, about fs.FileInfo, toWrite bool) error {
	is, ok := about.Sys().(*syscall.Stat_t)
	switch {
	case !about.Mode().IsRegular():
		return unsafe(name, "is not a regular file", nameAnother)
	case !ok || int(is.Uid) != os.Geteuid():
		return unsafe(name, "belongs to another user", nameAnother)
	case about.Mode().Perm()&0o077 != 0:
		return unsafe(name, fmt.Sprintf("is accessible to other users: its mode is %04o", about.Mode().Perm()), "chmod 600 "+name)
	case toWrite && is.Nlink > 1:
		return unsafe(name, fmt.Sprintf("has %d names, which are hard links", is.Nlink), fmt.Sprintf("remove the others: find / -xdev -inum %d", is.Ino))
	}
	return nil
}

const nameAnother = "choose another file: audit.file in sandbox.yaml"

func unsafe(name, what, hint string) error {
	return &sandbox.Error{Cause: sandbox.CauseEngine, Message: fmt.Sprintf("audit log: %q %s", name, what), Hint: hint}
}

// makeDir creates the directory of the file, and all missing ones above it.
// A user who can write one of them could replace the next, with an audit log of
// their own. So each is checked, link by link.
func makeDir(file string) error {
	at, err := ownfile.Walk(filepath.Dir(file), func(name string) (fs.FileInfo, error) {
		about, err := makeOne(name)
		if err != nil {
			return nil, failed(err, "creating the directory of", file)
		}
		return about, checkParent(name, about)
	})
	if _, refused := errors.AsType[*sandbox.Error](err); err != nil && !refused {
		return failed(err, "resolving the directory of", file)
	}
	if err != nil {
		return err
	}
	about, err := os.Lstat(at)
	if err != nil {
		return failed(err, "checking the directory of", file)
	}
	if owner, ok := about.Sys().(*syscall.Stat_t); !ok || int(owner.Uid) != os.Geteuid() {
		return unsafe(at, "belongs to another user", nameAnother)
	}
	return checkMode(at, about)
}

// makeOne checks a directory or a link, and creates a directory if nothing
// exists.
func makeOne(name string) (fs.FileInfo, error) {
	about, err := os.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		about, err = os.Lstat(name)
	}
	return about, err
}

// checkParent checks a directory on the way to the file. In a sticky
// directory, such as /tmp, no one else can remove this user's files.
func checkParent(name string, about fs.FileInfo) error {
	owner, ok := about.Sys().(*syscall.Stat_t)
	switch {
	case !ok || owner.Uid != 0 && int(owner.Uid) != os.Geteuid():
		return unsafe(name, "is above the audit log, and belongs to neither root nor this user", "chown root "+name+", or "+nameAnother)
	case about.Mode()&(fs.ModeSymlink|fs.ModeSticky) != 0:
		return nil
	}
	return checkMode(name, about)
}

// checkMode refuses files that others may write.
func checkMode(name string, about fs.FileInfo) error {
	if owner, ok := about.Sys().(*syscall.Stat_t); ok && isPrivate(owner, os.Geteuid()) {
		return nil
	}
	return unsafe(name, fmt.Sprintf("is writable by other users, who could replace the audit log: its mode is %04o", about.Mode().Perm()), "chmod go-w "+name+", or "+nameAnother)
}

// isPrivate reports whether only root and the user may write a file that one of them owns. A group with the same number as its user belongs to that
// user alone, by the convention that goes with an umask of 002. Kubernetes gives a volume to root, and to such a group (fsGroup).
func isPrivate(owner *syscall.Stat_t, user int) bool {
	own := int(owner.Gid) == user && (int(owner.Uid) == user || owner.Uid == 0)
	return owner.Mode&0o022 == 0 || owner.Mode&0o002 == 0 && own
}
