package cgroup

import (
	"errors"
	"io/fs"
	"math"
	"slices"

	"golang.org/x/sys/unix"
)

// ReadFile reads a whole file that the kernel makes up, which never blocks. So it needs no poller
// to watch it, which package os calls, and which takes longer than the kernel does for a number: a
// command's end waits for 20 such files.
func ReadFile(name string) ([]byte, error) { return ReadStart(name, math.MaxInt) }

// ReadStart is ReadFile, but for that many bytes at most.
func ReadStart(name string, most int) ([]byte, error) {
	fd, err := retried(func() (int, error) { return unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	text := make([]byte, 0, 1024)
	for len(text) < most {
		text = slices.Grow(text, 512)
		n, err := retried(func() (int, error) { return unix.Read(fd, text[len(text):min(cap(text), most)]) })
		if err != nil {
			return nil, &fs.PathError{Op: "read", Path: name, Err: err}
		}
		if n == 0 {
			break
		}
		text = text[:len(text)+n]
	}
	return text, nil
}

// retried calls f until no signal interrupts it.
func retried(f func() (int, error)) (n int, err error) {
	for {
		if n, err = f(); !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}
