package ownfile

import (
	"errors"
	"os"

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
