package ownfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"belljar/sandbox"
)

// MakeDir creates a directory that no one else can read, or refuses an existing one that
// others can.
func MakeDir(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if err == nil || !errors.Is(err, fs.ErrExist) {
		return err
	}
	about, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	owner, ok := about.Sys().(*syscall.Stat_t)
	if !ok || !about.IsDir() || about.Mode().Perm() != 0o700 || int(owner.Uid) != os.Getuid() {
		return fmt.Errorf("%s is not a directory that only this user can access", dir)
	}
	return nil
}

// CheckDir refuses a directory of stateDir whose content others may replace, also by
// replacing a directory above it. A missing one is created later.
func CheckDir(dir string) error {
	return CheckDirOf("the state directory's", dir, "set XDG_STATE_HOME to a directory of yours")
}

// CheckDirOf is CheckDir for a directory of another use, with what to do instead.
func CheckDirOf(whose, dir, instead string) error {
	if dir == "" {
		return nil
	}
	refuseForeign := func(dir, wrong string) error {
		if wrong == "" {
			return nil
		}
		return &sandbox.Error{Cause: sandbox.CauseEngine, Message: fmt.Sprintf("%s %q %s", whose, dir, wrong),
			Hint: "if it is yours, run chmod go-w on it, or " + instead}
	}
	about, err := os.Lstat(dir)
	if err == nil {
		err = refuseForeign(dir, foreign(about, false))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// A link of the user's may lead to the directory above.
	if about, err = os.Stat(filepath.Dir(dir)); err == nil {
		err = refuseForeign(filepath.Dir(dir), foreign(about, true))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// foreign says why others can write a directory or, for one above, why they can replace
// its content. In a sticky directory no one can do that to other users' files.
// A group that has the number of a user belongs to that user alone, as with an
// umask of 002, or in a volume of Kubernetes' fsGroup, which is root's.
func foreign(about fs.FileInfo, above bool) string {
	owner, ok := about.Sys().(*syscall.Stat_t)
	mode := about.Mode()
	own := ok && (int(owner.Uid) == os.Geteuid() || above && owner.Uid == 0)
	switch {
	case !mode.IsDir():
		return "is a link or a file, not a directory"
	case !own:
		return "belongs to another user"
	case above && mode&fs.ModeSticky != 0:
		return ""
	case mode&0o002 != 0, mode&0o020 != 0 && owner.Gid != owner.Uid && int(owner.Gid) != os.Geteuid():
		return fmt.Sprintf("is writable by other users: its mode is %04o", mode.Perm())
	}
	return ""
}
