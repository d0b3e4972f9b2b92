package images

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// workdirs have this name, in the directory for temporary files.
const workdirs = "belljar-debian-"

// workdir is a directory that tools work in. It is locked as long as one of
// them, or belljar, lives: the next run removes those of killed ones.
type workdir struct {
	path string
	lock *os.File
}

func newWorkdir() (*workdir, error) {
	sweepWorkdirs()
	path, err := os.MkdirTemp("", workdirs)
	if err != nil {
		return nil, fmt.Errorf("creating a build directory: %w", err)
	}
	w := &workdir{path: path}
	if w.lock, err = os.Open(path); err == nil {
		err = syscall.Flock(int(w.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err == nil {
		err = os.Chmod(path, 0o755) // apt's own user reads the downloads
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("locking a build directory: %w", err), w.Close())
	}
	return w, nil
}

// Close removes the directory.
func (w *workdir) Close() error { return errors.Join(os.RemoveAll(w.path), w.lock.Close()) }

// sweepWorkdirs removes those of killed processes. It also removes one that was just
// created and is not locked yet: its creator then fails to use it.
func sweepWorkdirs() {
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), workdirs+"*"))
	for _, path := range left {
		if lock := lockLeft(path); lock != nil {
			_ = os.RemoveAll(path) // the owner has to remove the rest
			lock.Close()
		}
	}
}

// lockLeft locks a directory of this user that no process uses. Others may create
// directories or links next to it.
func lockLeft(path string) *os.File {
	lock, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil
	}
	var info syscall.Stat_t
	if syscall.Fstat(int(lock.Fd()), &info) != nil || int(info.Uid) != os.Geteuid() ||
		syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		lock.Close()
		return nil
	}
	return lock
}
