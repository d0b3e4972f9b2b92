package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"belljar/sandbox"

	"golang.org/x/sys/unix"
)

// hostInspector asks the kernel, where the engine's processes are this host's: it
// knows the PIDs inside the container, and costs no process of its own.
type hostInspector struct {
	counter
	group     *cgroup
	id        string // the container's
	first     int    // PID of the container's first process
	keeperUID int    // in the container
	hostUID   int    // the same, as this host numbers it: user namespaces map a range

	mu  sync.Mutex
	own []int // PIDs of the container's own processes
}

func (h *hostInspector) prepare() {}
func (h *hostInspector) stop()    {}
func (h *hostInspector) close()   {}

// processes implements inspector. Mostly only the container's own processes are left,
// which the last list found and which run as long as the container. If processes start
// and end while the list is made, they are frozen for it.
func (h *hostInspector) processes(ctx context.Context) ([]sandbox.Process, error) {
	if h.idle() {
		return nil, nil
	}
	var now snapshot
	for range listTries {
		var err error
		if now, err = h.snapshot(); err != nil || now.exact {
			return now.list, err
		}
	}
	var frozen snapshot
	var failed error
	err := h.group.whileFreezing(ctx, func(all bool) bool {
		frozen, failed = h.snapshot()
		return all || frozen.exact || failed != nil
	})
	if errors.Is(err, errNotFrozen) {
		return now.list, fmt.Errorf("%w, and %w", errMissed, err)
	}
	return now.before(frozen.list), errors.Join(failed, err)
}

// listTries is how many lists are made before changing processes are frozen.
const listTries = 3

// idle reports whether nothing runs but the container's own, of one thread each.
func (h *hostInspector) idle() bool {
	h.mu.Lock()
	own := h.own
	h.mu.Unlock()
	if own == nil || h.group.tasks() != int64(len(own)) {
		return false
	}
	pids, err := h.group.pids()
	return err == nil && slices.Equal(pids, own)
}

// snapshot is what ran at one moment.
type snapshot struct {
	list  []sandbox.Process
	exact bool // no process is missing, and all existed at the same time
}

// snapshot is exact where two lists in a row have the same processes, and in between
// the kernel counted no tasks but theirs.
func (h *hostInspector) snapshot() (s snapshot, err error) {
	pids, err := h.group.pids()
	if err != nil {
		return s, err
	}
	var own []int
	s.list, own = listProcesses(pids, h.hostUID)
	for i := range s.list {
		s.list[i].UID += h.keeperUID - h.hostUID
	}
	h.mu.Lock()
	h.own = own
	h.mu.Unlock()
	found := threads(pids)
	counted := h.group.tasks()
	dead := int64(0)
	if counted != found {
		dead = threads(zombies(pids))
	}
	again, err := h.group.pids()
	s.exact = slices.Equal(pids, again) && counted == found+dead && threads(again) == found
	return s, err
}

// before is a list of frozen processes, each with its state before that, as
// far as it was seen. A process that is new was running: it had just begun.
func (s snapshot) before(frozen []sandbox.Process) []sandbox.Process {
	for i := range frozen {
		p := &frozen[i]
		p.State = "R"
		for _, earlier := range s.list {
			if earlier.HostPID == p.HostPID && earlier.StartTicks == p.StartTicks {
				p.State = earlier.State
			}
		}
	}
	return frozen
}

// signal implements hostAccess.
func (h *hostInspector) signal(p sandbox.Process, number unix.Signal) bool {
	return signalProcess(p, number)
}

// killStopped implements hostAccess. The runtime's processes never stop
// by themselves. A process of the container that only has such a name stopped for
// another reason, and may be killed, too.
func (h *hostInspector) killStopped() (found bool) {
	pids, _ := h.group.pids()
	for _, pid := range pids {
		if s, err := readStat(pid); err == nil && s.state == "T" && strings.HasPrefix(s.comm, "runc:[") {
			found = signalProcess(sandbox.Process{HostPID: pid, StartTicks: s.startTicks}, unix.SIGKILL) || found
		}
	}
	return found
}

// thaw implements hostAccess.
func (h *hostInspector) thaw() { h.group.thaw() }

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
	process, err := readStat(pid)
	return err == nil && process.runs(), true
}

// ended implements hostAccess. The engine reports it only after its clean-up.
func (h *hostInspector) ended() (ended, known bool) {
	init, err := readStat(h.first)
	if err != nil || !init.runs() || init.exiting() {
		return true, true
	}
	status, err := readStatus(h.first)
	return err != nil || status.killed, true
}

// waitExit implements hostAccess.
func (h *hostInspector) waitExit(ctx context.Context, r *running) bool {
	pid := r.pid(ctx)
	if pid == 0 {
		return false
	}
	h.snapshot() // so that the list after its end is quick
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
	return readable(ctx, process)
}
