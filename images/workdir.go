package images

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// workdirs are named so, in the directory for temporary files.
const workdirs = "belljar-debian-"

// workdir is a directory that tools work in. It is locked for as long as one of
// them, or belljar, lives: what was killed is swept by the next.
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
		err = os.Chmod(path, 0o755) // apt's own user reads what it fetched
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("locking a build directory: %w", err), w.Close())
	}
	return w, nil
}

// Close removes the directory.
func (w *workdir) Close() error { return errors.Join(os.RemoveAll(w.path), w.lock.Close()) }

// sweepWorkdirs removes what killed ones left. A directory that was made this
// moment and not locked yet goes, too: its maker then fails to use it.
func sweepWorkdirs() {
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), workdirs+"*"))
	for _, path := range left {
		if lock := lockLeft(path); lock != nil {
			_ = os.RemoveAll(path) // what cannot be removed stays for its owner
			lock.Close()
		}
	}
}

// lockLeft locks a directory of ours that no one works in. Others may make
// directories next to it, or links.
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
