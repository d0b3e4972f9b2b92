package main

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"belljar/sandbox"

	"golang.org/x/sys/unix"
)

// readInput reads a file that the command line names, up to a size, until ctx is
// done. It waits for a FIFO, such as a shell's <(…), but not in a system call
// that no signal ends.
func readInput(ctx context.Context, name string, most int64) ([]byte, error) {
	file, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	about, err := file.Stat()
	if err != nil {
		return nil, err
	}
	return readOpened(ctx, file, most, about.Mode()&fs.ModeNamedPipe != 0)
}

// tooLong is the allowed size that a file exceeds.
type tooLong int64

func (t tooLong) Error() string { return fmt.Sprintf("it is longer than %d bytes", int64(t)) }

// readStdin is readInput for stdin. Other processes have that open, too, so it is opened
// again, to read it without blocking; only a regular file has to keep its position.
func readStdin(ctx context.Context, most int64) ([]byte, error) {
	if about, err := os.Stdin.Stat(); err == nil && !about.Mode().IsRegular() {
		if file, err := os.OpenFile("/dev/stdin", os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0); err == nil {
			defer file.Close()
			return readOpened(ctx, file, most, false)
		}
	}
	return readOpened(ctx, os.Stdin, most, false)
}

func readOpened(ctx context.Context, file *os.File, most int64, wait bool) (text []byte, err error) {
	stop := context.AfterFunc(ctx, func() { file.SetReadDeadline(time.Unix(1, 0)) }) // no effect on a regular file
	defer stop()
	if wait {
		err = waitWriter(file)
	}
	if err == nil {
		text, err = io.ReadAll(io.LimitReader(file, most+1))
	}
	switch {
	case ctx.Err() != nil:
		return nil, &sandbox.Error{Cause: sandbox.CauseCanceled, Message: fmt.Sprintf("canceled while reading %q", file.Name())}
	case err != nil:
		return nil, err
	case int64(len(text)) > most:
		return text, tooLong(most)
	}
	return text, nil
}

// waitWriter waits for a FIFO's first writer: until then, it reads as if it were
// at its end (fifo(7)). For a pipe without a name that is the end.
func waitWriter(file *os.File) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	failed := raw.Read(func(fd uintptr) (ready bool) {
		var of unix.Statfs_t
		if err = unix.Fstatfs(int(fd), &of); err != nil || of.Type == unix.PIPEFS_MAGIC {
			return true
		}
		set := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		var n int
		n, err = unix.Poll(set, 0)
		return err != nil || n > 0
	})
	if failed != nil {
		return failed
	}
	return err
}
