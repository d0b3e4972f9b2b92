package cgroup

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// kernelLog is what the kernel says from one moment on (dev-kmsg in the kernel's ABI documents).
type kernelLog struct {
	mu     sync.Mutex
	fd     int             // -1 once it is closed
	killed map[string]bool // PIDs, because memory ran out
	missed bool            // some of it was overwritten before it was read
}

// firstNamespace is that of the PIDs in the kernel's log (PROC_PID_INIT_INO in include/linux/proc_ns.h).
const firstNamespace = "pid:[4026531836]"

// openKernelLog is nil where this process may not read the log, or has other PIDs than the log.
func openKernelLog() *kernelLog {
	if space, err := os.Readlink("/proc/self/ns/pid"); err != nil || space != firstNamespace {
		return nil
	}
	fd, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	if _, err := unix.Seek(fd, 0, unix.SEEK_END); err != nil {
		unix.Close(fd)
		return nil
	}
	return &kernelLog{fd: fd, killed: map[string]bool{}}
}

// says reports whether the kernel has killed a process because memory ran out, and whether that is known.
func (l *kernelLog) says(pid int) (killed, known bool) {
	if l == nil {
		return false, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var text [8192]byte // the longest that the kernel gives
	for l.fd >= 0 {
		n, err := unix.Read(l.fd, text[:])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EPIPE):
			l.missed = true
			continue
		case errors.Is(err, unix.EAGAIN): // that was all
			killed = l.killed[fmt.Sprint(pid)]
			return killed, killed || !l.missed
		case err != nil:
			return false, false
		}
		if pid, ok := killedByMemory(string(text[:n])); ok {
			l.killed[pid] = true
		}
	}
	return false, false
}

// killedByMemory reads such a record: "6,1160,5140900,-;Memory cgroup out of memory: Killed process 42 (tail) …".
// The first number is below 8 only where the kernel is who says it: what a process writes to the log is not.
func killedByMemory(record string) (pid string, ok bool) {
	head, text, _ := strings.Cut(record, ";")
	priority, _, _ := strings.Cut(head, ",")
	rest, ok := strings.CutPrefix(text, "Memory cgroup out of memory: Killed process ")
	if !ok || len(priority) != 1 || priority > "7" {
		return "", false
	}
	pid, _, ok = strings.Cut(rest, " ")
	return pid, ok
}

func (l *kernelLog) close() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fd >= 0 {
		unix.Close(l.fd)
		l.fd = -1
	}
}
