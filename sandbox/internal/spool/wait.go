package spool

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"belljar/internal/ownfile"
)

// Wait waits until no process writes a command's spool any more: its Ending is final
// then. Cancelling ctx gives up.
func (s Store) Wait(ctx context.Context, id string) error {
	name := filepath.Join(s.Path(id), noteName)
	file, err := os.Open(name)
	if err != nil {
		return nil //nolint:nilerr // its belljar died before it had written the note
	}
	defer file.Close()
	closing := watchFile(name)
	defer closing.close()
	for {
		written, err := ownfile.IsLocked(file, ownfile.Shared, 0)
		if err != nil || !written {
			return err
		}
		if _, err := os.Stat(name); err != nil {
			return errGone
		}
		if err := closing.wait(ctx); err != nil {
			return err
		}
	}
}

const (
	// lockPause is how long the kernel may take to release a lock after it told that
	// the file is closed.
	lockPause = time.Millisecond

	// unwatchedPause is between two looks at a file that cannot be watched: a user has a
	// limited number of inotify instances (inotify(7)).
	unwatchedPause = 200 * time.Millisecond
)

// watch is told when a file is closed by its writer, or removed.
type watch struct {
	file  *os.File // nil: the kernel watches no more files
	pause time.Duration
}

func watchFile(name string) *watch {
	w := &watch{pause: unwatchedPause}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return w
	}
	file := os.NewFile(uintptr(fd), "inotify")
	if _, err := unix.InotifyAddWatch(fd, name, unix.IN_CLOSE_WRITE|unix.IN_ATTRIB); err != nil {
		file.Close()
		return w
	}
	w.file = file
	return w
}

// wait returns when something may have happened. Once something did, that is soon again.
func (w *watch) wait(ctx context.Context) error {
	if w.file == nil {
		select {
		case <-time.After(w.pause):
			w.pause = min(2*w.pause, unwatchedPause)
		case <-ctx.Done():
		}
		return ctx.Err()
	}
	stop := context.AfterFunc(ctx, func() { w.file.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	event := make([]byte, unix.SizeofInotifyEvent+unix.NAME_MAX+1)
	if _, err := w.file.Read(event); err != nil && ctx.Err() == nil {
		return err
	}
	w.close()
	w.file, w.pause = nil, lockPause
	return ctx.Err()
}

func (w *watch) close() {
	if w.file != nil {
		w.file.Close()
	}
}
