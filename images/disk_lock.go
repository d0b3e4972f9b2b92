package images

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"syscall"
	"time"

	"belljar/internal/ownfile"
	"belljar/sandbox"
)

// The bytes of the lock file. Who needs several locks them in this order: pull,
// writing, unpack, index.
const (
	lockIndex   = 0 // index.json; held briefly
	lockWriting = 1 // shared by those that add images, exclusive for sweep
	lockPull    = 1000
	lockUnpack  = 2000

	lockStripes = 256 // names and IDs that share one only wait for each other
)

// stripe is the byte that a name or an ID locks, from the first one on.
func stripe(first int64, key string) int64 {
	h := fnv.New32a()
	h.Write([]byte(key))
	return first + int64(h.Sum32()%lockStripes)
}

// lock waits for a lock. A killed process releases its own.
func (d *Disk) lock(ctx context.Context, kind int16, at int64) (unlock func(), err error) {
	f, err := d.openLock()
	if err != nil {
		return nil, err
	}
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		err = ownfile.Lock(f, kind, at)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !ownfile.IsTaken(err) {
			f.Close()
			return nil, storing(err)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("waiting for another process in %q: %w", d.Dir, ctx.Err())
		}
	}
}

// tryLock is nil if the lock is taken.
func (d *Disk) tryLock(kind int16, at int64) (unlock func(), err error) {
	f, err := d.openLock()
	if err != nil {
		return nil, err
	}
	if err = ownfile.Lock(f, kind, at); err == nil {
		return func() { f.Close() }, nil
	}
	f.Close()
	if ownfile.IsTaken(err) {
		return nil, nil
	}
	return nil, storing(err)
}

func (d *Disk) openLock() (*os.File, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	open := func() (*os.File, error) { return os.OpenFile(d.path("lock"), os.O_RDWR|os.O_CREATE, 0o600) }
	f, err := open()
	if errors.Is(err, fs.ErrNotExist) {
		if err := d.create(); err != nil {
			return nil, err
		}
		f, err = open()
	}
	return f, storing(err)
}

// trouble are the failures that a disk or a file system has, whatever image is stored.
var trouble = []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EROFS, syscall.EACCES, syscall.EPERM, syscall.EMFILE, syscall.ENFILE,
	syscall.ENOMEM, syscall.EINTR, syscall.ESTALE, syscall.ETIMEDOUT}

func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// storing is err with what to do where images cannot be stored.
func storing(err error) error {
	if _, told := errors.AsType[*sandbox.Error](err); err == nil || told {
		return err
	}
	hint := "check the directory's permissions, or set XDG_STATE_HOME to a writable one"
	if isFull(err) {
		hint = "free disk space: `belljar images prune` removes images without a name"
	}
	return &sandbox.Error{Cause: sandbox.CauseEngine, Message: "storing images", Hint: hint, Err: err}
}

// refused blames the image, unless ctx was canceled or the disk failed.
func refused(ctx context.Context, err error, hint, format string, args ...any) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf(format+": %w", append(args, ctx.Err())...)
	}
	if _, ok := errors.AsType[*sandbox.Error](err); ok {
		return err
	}
	return blamed(err, hint, format, args...)
}

// blamed blames the image, unless the disk failed.
func blamed(err error, hint, format string, args ...any) error {
	for _, failure := range trouble {
		if errors.Is(err, failure) {
			return storing(err)
		}
	}
	return refuse(quoted{err}, hint, format, args...)
}
