package docker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"belljar/sandbox"

	"github.com/containerd/errdefs"
)

// Processes implements sandbox.Container. Where the engine's processes are this
// host's, the kernel is asked itself: it knows the PIDs inside the container,
// and costs no process of its own. Elsewhere the engine's top is, or, where even
// the engine's host does not see the processes, the container.
func (b *box) Processes(ctx context.Context) ([]sandbox.Process, error) {
	if !b.sharesKernel() {
		return b.listInside(ctx)
	}
	if b.group != nil {
		return b.here(ctx)
	}
	return b.top(ctx)
}

// here lists from this host. Mostly nothing is left but the container's own
// processes, which are known from the last list, and of which none goes before
// the container does. Processes that come and go while they are looked at are
// frozen for that.
func (b *box) here(ctx context.Context) ([]sandbox.Process, error) {
	if b.idle() {
		return nil, nil
	}
	var now snapshot
	for range listTries {
		var err error
		if now, err = b.snapshot(); err != nil || now.exact {
			return now.list, err
		}
	}
	var frozen snapshot
	var failed error
	err := b.group.whileFreezing(ctx, func(all bool) bool {
		frozen, failed = b.snapshot()
		return all || frozen.exact || failed != nil
	})
	if errors.Is(err, errNotFrozen) {
		return now.list, fmt.Errorf("%w, and %w", errMissed, err)
	}
	return now.before(frozen.list), errors.Join(failed, err)
}

// listTries is how often processes that come and go are listed as they are.
const listTries = 3

// idle tells whether nothing runs but the container's own, of one thread each.
func (b *box) idle() bool {
	b.mu.Lock()
	own := b.own
	b.mu.Unlock()
	if own == nil || b.group.tasks() != int64(len(own)) {
		return false
	}
	pids, err := b.group.pids()
	return err == nil && slices.Equal(pids, own)
}

// snapshot is what ran at one moment.
type snapshot struct {
	list  []sandbox.Process
	exact bool // it lacks none, and had all of them at once
}

// snapshot is exact where all processes that were found lived from the first
// look to the second, and in between the kernel counted no task but theirs.
func (b *box) snapshot() (s snapshot, err error) {
	pids, err := b.group.pids()
	if err != nil {
		return s, err
	}
	var own []int
	s.list, own = processes(pids, b.mapped)
	for i := range s.list {
		s.list[i].UID += b.keeper - b.mapped // user namespaces map a range
	}
	b.mu.Lock()
	b.own = own
	b.mu.Unlock()
	found := threads(pids)
	counted := b.group.tasks()
	dead := int64(0)
	if counted != found {
		dead = threads(zombies(pids))
	}
	again, err := b.group.pids()
	s.exact = slices.Equal(pids, again) && counted == found+dead && threads(again) == found
	return s, err
}

// before is a list of frozen processes, with the state that each had before, as
// far as it was seen. One that came since was running: it had just begun.
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

// errMissed is of a list that may lack processes: one that starts another and
// ends, again and again, is never there to be looked at.
var errMissed = errors.New("the list may lack processes: they came and went while it was made")

// others counts those that are in now and were not in before.
func others[T comparable](now, before []T) (n int) {
	for _, x := range now {
		if !slices.Contains(before, x) {
			n++
		}
	}
	return n
}

// sharesKernel tells whether a process in the container is one of the engine's
// host's. Under gVisor the engine's top lists other processes of the host.
func (b *box) sharesKernel() bool {
	return slices.Contains([]string{"", "runc", "crun", "io.containerd.runc.v2"}, b.runtime)
}

// processes are all but those of the keeper's user, which are own: the keeper
// and the engine's init.
func processes(pids []int, keeperUID int) (list []sandbox.Process, own []int) {
	up, inside := uptime(), map[int]int{}
	for _, pid := range pids {
		p, uid, ok := readProcess(pid, up)
		if !ok {
			continue
		}
		inside[pid] = p.PID
		if uid == keeperUID {
			own = append(own, pid)
			continue
		}
		list = append(list, p)
	}
	for i := range list {
		list[i].PPID = inside[list[i].PPID] // 0 where the parent is outside
	}
	slices.SortFunc(list, byPID)
	return list, own
}

func byPID(a, b sandbox.Process) int { return a.PID - b.PID }

// top asks the engine, which runs ps on its host. Whether it said all is known as
// it is of a snapshot: by what the engine counts between two lists. It is asked
// once: Docker 20.10 takes a second to count.
func (b *box) top(ctx context.Context) ([]sandbox.Process, error) {
	first, err := b.topOnce(ctx)
	if err != nil || first == nil {
		return nil, err
	}
	stats := b.stats(ctx)
	b.lastStats.Store(stats)
	second, err := b.topOnce(ctx)
	if err != nil || second == nil {
		return first.list, err
	}
	if stats.PidsStats.Current != second.tasks || !first.same(second) {
		return second.list, errMissed
	}
	return second.list, nil
}

// table is what one top says; nil where the container, and all in it, ended.
type table struct {
	list  []sandbox.Process
	pids  []int  // the engine's host's, of all
	tasks uint64 // threads of all
}

func (t *table) same(other *table) bool {
	return t.tasks == other.tasks && slices.Equal(t.pids, other.pids)
}

func (b *box) topOnce(ctx context.Context) (*table, error) {
	answer, err := b.engine.client.ContainerTop(ctx, b.id, []string{"-eo", "pid,ppid,pgid,uid,user,stat,nlwp,etimes,rss,args"})
	if errdefs.IsNotFound(err) || errdefs.IsConflict(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("asking the engine what runs: %w", err)
	}
	t := &table{}
	for _, row := range answer.Processes {
		p, uid, tasks, ok := parseTop(row)
		if !ok {
			continue
		}
		t.pids, t.tasks = append(t.pids, p.HostPID), t.tasks+tasks
		if uid != b.keeper {
			t.list = append(t.list, p)
		}
	}
	slices.Sort(t.pids)
	return t, nil
}

// parseTop reads a row of top. Its PIDs are the engine's host's; those inside
// the container are not known.
func parseTop(row []string) (p sandbox.Process, uid int, tasks uint64, ok bool) {
	if len(row) < 10 || strings.HasPrefix(row[5], "Z") && !strings.Contains(row[5], "l") { // Zl has other threads
		return p, 0, 0, false
	}
	number := func(i int) int64 { n, _ := strconv.ParseInt(row[i], 10, 64); return n }
	return sandbox.Process{
		HostPID: int(number(0)), UID: int(number(3)), User: row[4], State: row[5][:min(1, len(row[5]))],
		ElapsedSeconds: number(7), RSSBytes: number(8) << 10, Command: strings.Join(row[9:], " "),
	}, int(number(3)), uint64(number(6)), true
}
