package cgroup

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// OOMEvents tells when a group runs out of memory, as it does. What is counted is lost with the
// group, which goes as soon as its last process was killed.
type OOMEvents struct {
	group *Group
	file  *os.File
	log   *kernelLog // nil where this process may not read it

	mu      sync.Mutex
	fd      int // the file's, -1 once it is closed
	signals int
}

// OOMEvents begins to watch.
func (g *Group) OOMEvents() (*OOMEvents, error) {
	if g.Instead != "" {
		return nil, errors.New("the container has no control group")
	}
	if g.V2 != "" {
		return g.inotify()
	}
	control, err := os.Open(filepath.Join(g.Memory, "memory.oom_control"))
	if err != nil {
		return nil, err
	}
	defer control.Close()
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, err
	}
	events := newOOMEvents(g, fd, "memory.oom_control")
	line := fmt.Sprintf("%d %d", fd, control.Fd())
	if err := os.WriteFile(filepath.Join(g.Memory, "cgroup.event_control"), []byte(line), 0); err != nil {
		events.Close()
		return nil, fmt.Errorf("watching control group %s: %w", g.Memory, err)
	}
	return events, nil
}

func newOOMEvents(g *Group, fd int, name string) *OOMEvents {
	return &OOMEvents{group: g, file: os.NewFile(uintptr(fd), name), log: openKernelLog(), fd: fd}
}

func (g *Group) inotify() (*OOMEvents, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	events := newOOMEvents(g, fd, "memory.events")
	if _, err := unix.InotifyAddWatch(fd, filepath.Join(g.Memory, "memory.events"), unix.IN_MODIFY); err != nil {
		events.Close()
		return nil, fmt.Errorf("watching control group %s: %w", g.Memory, err)
	}
	return events, nil
}

// Wait waits for the next events, until Stop.
func (e *OOMEvents) Wait() error {
	conn, err := e.file.SyscallConn()
	if err != nil {
		return err
	}
	return conn.Read(func(uintptr) bool { return e.take() })
}

// take takes what has happened, and reports whether something has.
func (e *OOMEvents) take() (some bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fd < 0 {
		return false
	}
	var text [4096]byte
	n, _ := unix.Read(e.fd, text[:])
	if n == 8 && e.group.V2 == "" {
		e.signals += int(binary.NativeEndian.Uint64(text[:8]))
	}
	return n > 0
}

// Signals is how many times the kernel has said that memory runs out, just before it killed for that. The end of the
// group counts once, too, a moment after its directory is gone. With version 2 it is not said, and 0.
func (e *OOMEvents) Signals() int {
	e.take()
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.signals
}

// Killed reports whether the kernel killed that process of this host because memory ran out, if its log tells, once
// the group is gone: who is in the group writes that line before it can leave.
func (e *OOMEvents) Killed(pid int) (killed, known bool) { return e.log.says(pid) }

// Stop ends Wait.
func (e *OOMEvents) Stop() { e.file.SetReadDeadline(time.Unix(1, 0)) }

// Close ends the watch.
func (e *OOMEvents) Close() error {
	e.log.close()
	e.mu.Lock()
	e.fd = -1
	e.mu.Unlock()
	return e.file.Close()
}
