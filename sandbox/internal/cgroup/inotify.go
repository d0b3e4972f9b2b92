package cgroup

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// changes tells of changes to files. It is one for all groups of this process, because a user may have few (inotify(7),
// max_user_instances). It is open while anything is watched.
var changes inotify

type inotify struct {
	mu   sync.Mutex
	file *os.File
	of   map[int32][]*OOMEvents // by the number of the watch: a file has one, however many watch it
	read *sync.WaitGroup        // who reads the file
}

// watch has events told of the file's changes.
func (i *inotify) watch(name string, e *OOMEvents) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.file == nil {
		fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
		if err != nil {
			return fmt.Errorf("watching control groups: %w", err)
		}
		i.file, i.of = os.NewFile(uintptr(fd), "inotify"), map[int32][]*OOMEvents{}
		file := i.file
		i.read = &sync.WaitGroup{}
		i.read.Go(func() { i.tellFrom(file) })
	}
	watch, err := i.control(func(fd int) (int, error) { return unix.InotifyAddWatch(fd, name, unix.IN_MODIFY) })
	if err != nil {
		i.closeIdle()
		return fmt.Errorf("watching %s: %w", name, err)
	}
	e.watch = int32(watch)
	i.of[e.watch] = append(i.of[e.watch], e)
	return nil
}

// unwatch ends that.
func (i *inotify) unwatch(e *OOMEvents) {
	i.mu.Lock()
	rest := i.of[e.watch][:0:0]
	for _, other := range i.of[e.watch] {
		if other != e {
			rest = append(rest, other)
		}
	}
	i.of[e.watch] = rest
	if len(rest) == 0 {
		delete(i.of, e.watch)
		i.control(func(fd int) (int, error) { return unix.InotifyRmWatch(fd, uint32(e.watch)) }) // it went with its file, or now
	}
	read, idle := i.read, i.closeIdle()
	i.mu.Unlock()
	if idle {
		read.Wait()
	}
}

// closeIdle is called with the lock.
func (i *inotify) closeIdle() (idle bool) {
	if len(i.of) > 0 {
		return false
	}
	i.file.Close()
	i.file = nil
	return true
}

func (i *inotify) control(do func(fd int) (int, error)) (n int, err error) {
	conn, err := i.file.SyscallConn()
	if err != nil {
		return 0, err
	}
	if failed := conn.Control(func(fd uintptr) { n, err = do(int(fd)) }); failed != nil {
		return 0, failed
	}
	return n, err
}

// tellFrom tells what changes until the file is closed.
func (i *inotify) tellFrom(file *os.File) {
	text := make([]byte, 64<<10)
	for {
		n, err := file.Read(text)
		if err != nil {
			return
		}
		i.mu.Lock()
		for rest := text[:n]; len(rest) >= unix.SizeofInotifyEvent; {
			watch := int32(binary.NativeEndian.Uint32(rest))
			size := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(rest[12:]))
			rest = rest[min(size, len(rest)):]
			told := i.of[watch]
			if watch < 0 { // too much to be told: of anything
				for _, some := range i.of {
					told = append(told, some...)
				}
			}
			for _, e := range told {
				e.tell()
			}
		}
		i.mu.Unlock()
	}
}
