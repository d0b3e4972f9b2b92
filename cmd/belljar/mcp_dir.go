package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"belljar/internal/ownfile"
	"belljar/sandbox"
)

const (
	// ownDirWait is how long other processes may take to make and remove theirs.
	ownDirWait = 10 * time.Second
)

// ownDir is a directory for this process alone. Its lock shows that the process lives.
type ownDir struct {
	path string
	lock *os.File
}

// makeOwnDir makes one in parent, and removes those of processes that were killed.
func makeOwnDir(parent string) (*ownDir, error) {
	d, err := newOwnDir(parent)
	if err != nil {
		return nil, &sandbox.Error{Cause: sandbox.CauseEngine, Message: "making a directory in the state directory", Err: err, Hint: "free disk space, or set XDG_STATE_HOME to a directory of yours"}
	}
	return d, nil
}

func newOwnDir(parent string) (*ownDir, error) {
	if err := ownfile.CheckDir(parent); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(parent), 0o700); err != nil {
		return nil, err
	}
	if err := ownfile.MakeDir(parent); err != nil {
		return nil, err
	}
	// A new directory has no lock for a moment, in which no one may look.
	all, err := lockFile(filepath.Join(parent, ".lock"), time.Now().Add(ownDirWait))
	if err != nil {
		return nil, err
	}
	defer all.Close()
	if err := sweepOwnDirs(parent); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(parent, "")
	if err != nil {
		return nil, err
	}
	lock, err := lockFile(filepath.Join(dir, ".lock"), time.Now())
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &ownDir{dir, lock}, nil
}

// remove is the last use.
func (d *ownDir) remove() error {
	defer d.lock.Close()
	return os.RemoveAll(d.path)
}

// sweepOwnDirs removes those without a process.
func sweepOwnDirs(parent string) error {
	list, err := os.ReadDir(parent)
	for _, entry := range list {
		if !entry.IsDir() {
			continue
		}
		dir := filepath.Join(parent, entry.Name())
		lock, errLock := lockFile(filepath.Join(dir, ".lock"), time.Time{})
		if ownfile.IsTaken(errLock) {
			continue
		}
		if errLock == nil {
			lock.Close()
		}
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}

// lockFile opens and locks a file. It tries until the deadline, at least once.
func lockFile(name string, deadline time.Time) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err = ownfile.LockUntil(f, ownfile.Exclusive, 0, deadline); err != nil {
		f.Close()
		return nil, fmt.Errorf("locking %s: %w", name, err)
	}
	return f, nil
}
