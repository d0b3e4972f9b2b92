package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"belljar/sandbox"
	"belljar/sandbox/internal/proc"

	"golang.org/x/sys/unix"
)

// hostInspector asks the kernel, where the engine's processes are this host's.
type hostInspector struct {
	counter
	proc.Lister
	id      string // the container's
	first   int    // PID of the container's first process
	unwatch func() // see proc.Counter
}

func (h *hostInspector) prepare() {}
func (h *hostInspector) stop()    {}
func (h *hostInspector) close()   { h.unwatch() }

// processes implements inspector.
func (h *hostInspector) processes(ctx context.Context) ([]sandbox.Process, error) {
	return h.Processes(ctx)
}

// WaitsForInput reports whether one of the listed processes is blocked reading its stdin,
// and that comes from outside the container. It is false where this is not known for sure:
// it takes the kernel of this host, and root's right to look at other processes.
func (b *box) WaitsForInput(list []sandbox.Process) bool {
	h, ok := b.inspector.(*hostInspector)
	return ok && h.WaitForInput(list)
}

// signal implements hostAccess.
func (h *hostInspector) signal(p sandbox.Process, number unix.Signal) bool {
	return proc.Signal(p, number)
}

// killStopped implements hostAccess. The runtime's processes never stop
// by themselves. A process of the container that only has such a name stopped for
// another reason, and may be killed, too.
func (h *hostInspector) killStopped() (found bool) {
	pids, _ := h.Group.Processes()
	for _, pid := range pids {
		if s, err := proc.ReadStat(pid); err == nil && s.State == "T" && strings.HasPrefix(s.Comm, "runc:[") {
			found = proc.Signal(sandbox.Process{HostPID: pid, StartTicks: s.StartTicks}, unix.SIGKILL) || found
		}
	}
	return found
}

// killAll implements hostAccess.
func (h *hostInspector) killAll() { h.Group.Kill() }

// thaw implements hostAccess.
func (h *hostInspector) thaw() { h.Group.Thaw() }

// root implements hostAccess.
func (h *hostInspector) root() *os.File {
	root, err := os.Open(fmt.Sprintf("/proc/%d/root", h.first))
	if err != nil {
		return nil
	}
	return root
}

// runs implements hostAccess.
func (h *hostInspector) runs(pid int) (runs, known bool) {
	process, err := proc.ReadStat(pid)
	return err == nil && process.Runs(), true
}

// ended implements hostAccess. The engine reports it only after its clean-up.
func (h *hostInspector) ended() (ended, known bool) {
	init, err := proc.ReadStat(h.first)
	if err != nil || !init.Runs() || init.Exiting() {
		return true, true
	}
	status, err := proc.ReadStatus(h.first)
	return err != nil || status.Killed, true
}

// waitExit implements hostAccess.
func (h *hostInspector) waitExit(ctx context.Context, r *running) bool {
	pid := r.pid(ctx)
	if pid == 0 {
		return false
	}
	h.Prepare() // so that the list after its end is quick
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if errors.Is(err, unix.ESRCH) {
		return true
	}
	if err != nil {
		return false
	}
	process := os.NewFile(uintptr(fd), "pidfd")
	defer process.Close()
	// Another process may have got the PID since the engine reported it. From now on
	// the descriptor refers to one process only.
	group, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil || !strings.Contains(string(group), h.id) {
		return true
	}
	return proc.WaitEnd(ctx, process)
}
