package cgroup

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// OOMEvents tells when a group runs out of memory, as it does. What is counted is lost with the
// group, which goes as soon as its last process was killed.
type OOMEvents struct {
	group *Group
	log   *kernelLog // nil where this process may not read it

	// With version 1: a file of its own.
	file    *os.File
	mu      sync.Mutex
	fd      int // the file's, -1 once it is closed
	signals int

	// With version 2: its part of changes.
	watch   int32
	changed chan struct{}
	stopped chan struct{}
	stop    sync.Once
}

// OOMEvents begins to watch.
func (g *Group) OOMEvents() (*OOMEvents, error) {
	if g.Instead != "" {
		return nil, errors.New("the container has no control group")
	}
	if g.V2 != "" {
		events := &OOMEvents{group: g, fd: -1, changed: make(chan struct{}, 1), stopped: make(chan struct{})}
		if err := changes.watch(in(g.Memory, "memory.events"), events); err != nil {
			return nil, err
		}
		events.log = openKernelLog()
		return events, nil
	}
	control, err := os.Open(in(g.Memory, "memory.oom_control"))
	if err != nil {
		return nil, err
	}
	defer control.Close()
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, err
	}
	events := &OOMEvents{group: g, file: os.NewFile(uintptr(fd), "memory.oom_control"), log: openKernelLog(), fd: fd}
	line := fmt.Sprintf("%d %d", fd, control.Fd())
	if err := os.WriteFile(in(g.Memory, "cgroup.event_control"), []byte(line), 0); err != nil {
		events.Close()
		return nil, fmt.Errorf("watching control group %s: %w", g.Memory, err)
	}
	return events, nil
}

// tell ends Wait, or the next one.
func (e *OOMEvents) tell() {
	select {
	case e.changed <- struct{}{}:
	default: // it is told already
	}
}

// Wait waits for the next events, until Stop.
func (e *OOMEvents) Wait() error {
	if e.file == nil {
		select {
		case <-e.stopped:
			return os.ErrClosed
		case <-e.changed:
			return nil
		}
	}
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
	if n == 8 {
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
func (e *OOMEvents) Stop() {
	if e.file == nil {
		e.stop.Do(func() { close(e.stopped) })
		return
	}
	e.file.SetReadDeadline(time.Unix(1, 0))
}

// Close ends the watch.
func (e *OOMEvents) Close() error {
	e.log.close()
	if e.file == nil {
		changes.unwatch(e)
		return nil
	}
	e.mu.Lock()
	e.fd = -1
	e.mu.Unlock()
	return e.file.Close()
}
