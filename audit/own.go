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

// openOwn opens a file that is this user's alone. One to write has no other name:
// through that, it could be written or kept where no one looks for it.
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

// makeDir makes the directory of the file, and all above it that are missing.
// Anyone who may write one of them could put another in its place, with an audit of
// their own. So each is looked at, link by link.
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

// makeOne looks at a directory, or a link, and makes a directory where there is
// nothing.
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

// checkParent looks at what the way to the file goes through. In a sticky
// directory, as /tmp is, no one else can take away what is this user's.
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

// checkMode refuses what others may write. A group that has the number of its
// user is that user's alone, by the convention that goes with an umask of 002.
func checkMode(name string, about fs.FileInfo) error {
	mode := about.Mode().Perm()
	owner, ok := about.Sys().(*syscall.Stat_t)
	private := ok && int(owner.Uid) == os.Geteuid() && owner.Gid == owner.Uid
	if mode&0o022 == 0 || mode&0o002 == 0 && private {
		return nil
	}
	return unsafe(name, fmt.Sprintf("is writable by other users, who could replace the audit log: its mode is %04o", about.Mode().Perm()), "chmod go-w "+name+", or "+nameAnother)
}
