package ownfile

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// The kinds of a lock.
const (
	Shared    = unix.F_RDLCK
	Exclusive = unix.F_WRLCK
)

// Lock locks one byte of a file, or fails at once: see IsTaken. The lock belongs to
// the open file (fcntl(2), F_OFD_SETLK), so that it excludes other goroutines, too.
// Closing the file releases it.
func Lock(f *os.File, kind int16, at int64) error {
	return unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: kind, Start: at, Len: 1})
}

// soon bounds how long LockSoon tries, and lockPause is between two tries.
const soon, lockPause = 2 * time.Second, 5 * time.Millisecond

// LockSoon is Lock for what one process has as long as it runs. It tries for a while: what a killed process was
// just starting has the file open, too, until its execve(2).
func LockSoon(f *os.File, kind int16, at int64) error {
	return LockUntil(f, kind, at, time.Now().Add(soon))
}

// LockUntil is Lock that tries until the deadline, at least once.
func LockUntil(f *os.File, kind int16, at int64, deadline time.Time) error {
	for ; ; time.Sleep(lockPause) {
		if err := Lock(f, kind, at); !IsTaken(err) || !time.Now().Before(deadline) {
			return err
		}
	}
}

// Unlock releases all locks of the open file.
func Unlock(f *os.File) error {
	return unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_UNLCK})
}

// UnlockAt releases one byte's lock, and keeps the open file's others.
func UnlockAt(f *os.File, at int64) error {
	return unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_UNLCK, Start: at, Len: 1})
}

// IsTaken reports whether Lock failed because the byte is locked.
func IsTaken(err error) bool {
	return errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES)
}

// IsLocked reports whether a lock held elsewhere on the byte excludes that kind.
func IsLocked(f *os.File, kind int16, at int64) (bool, error) {
	about := unix.Flock_t{Type: kind, Start: at, Len: 1}
	err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &about)
	return err == nil && about.Type != unix.F_UNLCK, err
}
