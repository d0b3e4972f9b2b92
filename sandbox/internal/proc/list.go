package proc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"belljar/sandbox"
	"belljar/sandbox/internal/cgroup"
)

// Lister lists a container's processes by its control group: it knows their PIDs inside
// the container, and costs no process of its own.
type Lister struct {
	Group     *cgroup.Group
	KeeperUID int // who the container's own processes run as, in the container
	HostUID   int // the same, as this host numbers it: user namespaces map a range

	// Taken: commands may be that user, too. Then what is in the first process's session is the container's own, which no
	// command can join.
	Taken bool

	mu  sync.Mutex
	own []int // PIDs of the container's own processes
}

// Processes lists all but the container's own. Mostly only these are left,
// which the last list found and which run as long as the container. If processes start
// and end while the list is made, or load a program, they are frozen for it.
func (l *Lister) Processes(ctx context.Context) ([]sandbox.Process, error) {
	if l.idle() {
		return nil, nil
	}
	var now snapshot
	for range listTries {
		var err error
		if now, err = l.snapshot(); err != nil || now.exact && !now.loading {
			return now.list, err
		}
	}
	var frozen snapshot
	var failed error
	err := l.Group.WhileFreezing(ctx, func(all bool) bool {
		frozen, failed = l.snapshot()
		return all || frozen.exact && !frozen.loading || failed != nil
	})
	switch {
	case errors.Is(err, cgroup.ErrStayFrozen):
		return now.list, err
	case errors.Is(err, cgroup.ErrNotFrozen) && now.exact:
		return now.list, nil // none is missing
	case errors.Is(err, cgroup.ErrNotFrozen):
		return now.list, fmt.Errorf("%w, and %w", ErrMissed, err)
	}
	return now.before(frozen.list), errors.Join(failed, err)
}

// Prepare looks once, so that the next list is quick.
func (l *Lister) Prepare() { l.snapshot() }

// listTries is how many lists are made before changing processes are frozen.
const listTries = 3

// idle reports whether nothing runs but the container's own.
func (l *Lister) idle() bool {
	own := l.ownPIDs()
	if own == nil || l.Group.Tasks() != threads(own) {
		return false
	}
	pids, err := l.Group.Processes()
	return err == nil && slices.Equal(pids, own)
}

func (l *Lister) ownPIDs() []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.own
}

// snapshot is what ran at one moment.
type snapshot struct {
	list  []sandbox.Process
	exact bool // no process is missing, and all existed at the same time

	// loading is whether one is in execve(2): its old arguments are gone, and those of the program not there yet.
	loading bool
}

// snapshot is exact where two lists in a row have the same processes, and in between
// the kernel counted no tasks but theirs.
func (l *Lister) snapshot() (s snapshot, err error) {
	pids, err := l.Group.Processes()
	if err != nil {
		return s, err
	}
	var own []int
	s.list, own, s.loading = listProcesses(pids, l.HostUID, l.Taken)
	MapUsers(s.list, l.KeeperUID-l.HostUID)
	l.mu.Lock()
	l.own = own
	l.mu.Unlock()
	found := threads(pids)
	counted := l.Group.Tasks()
	dead := int64(0)
	if counted != found {
		dead = threads(zombies(pids))
	}
	again, err := l.Group.Processes()
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

// HasInside reports whether a process runs that the container of the group knows by that PID. Where that cannot be
// known it is true.
func HasInside(group *cgroup.Group, pid int, startTicks int64) bool {
	pids, err := group.Processes()
	for _, p := range pids {
		s, unread := ReadStat(p)
		if IsGone(unread) || unread == nil && (!s.Runs() || s.StartTicks != startTicks) {
			continue
		}
		inside, unread := ReadStatus(p)
		if unread == nil && inside.PID == pid || unread != nil && !IsGone(unread) {
			return true
		}
	}
	return err != nil
}
