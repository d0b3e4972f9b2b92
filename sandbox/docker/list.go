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
		return b.here()
	}
	return b.top(ctx)
}

// here lists from this host. Mostly nothing is left but the container's own
// processes, which are known from the last list, and of which none goes before
// the container does.
func (b *box) here() ([]sandbox.Process, error) {
	for try := 1; ; try++ {
		pids, err := b.group.pids()
		if err != nil {
			return nil, err
		}
		b.mu.Lock()
		own := b.own
		b.mu.Unlock()
		if len(pids) > 0 && slices.Equal(pids, own) {
			return nil, nil
		}
		list, own := processes(pids, b.mapped)
		b.mu.Lock()
		b.own = own
		b.mu.Unlock()
		again, err := b.group.pids()
		if missed := others(again, pids); err != nil || missed == 0 {
			return list, err
		} else if try == listTries {
			return list, fmt.Errorf("%w: %d of them", errMissed, missed)
		}
	}
}

// errMissed is of a list that lacks processes: one that starts another and ends,
// again and again, is never there to be looked at.
var errMissed = errors.New("processes came while others were looked at")

// others counts those that are in now and were not in before.
func others[T comparable](now, before []T) (n int) {
	for _, x := range now {
		if !slices.Contains(before, x) {
			n++
		}
	}
	return n
}

// listTries is how often processes are listed that come and go meanwhile.
const listTries = 8

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

// top asks the engine, which runs ps on its host.
func (b *box) top(ctx context.Context) ([]sandbox.Process, error) {
	table, err := b.engine.client.ContainerTop(ctx, b.id, []string{"-eo", "pid,ppid,pgid,uid,user,stat,etimes,rss,args"})
	if errdefs.IsNotFound(err) || errdefs.IsConflict(err) {
		return nil, nil // it ended, and everything in it
	}
	if err != nil {
		return nil, fmt.Errorf("asking the engine what runs: %w", err)
	}
	var list []sandbox.Process
	for _, row := range table.Processes {
		if p, uid, ok := parseTop(row); ok && uid != b.keeper {
			list = append(list, p)
		}
	}
	return list, nil
}

// parseTop reads a row of top. Its PIDs are the engine's host's; those inside
// the container are not known.
func parseTop(row []string) (p sandbox.Process, uid int, ok bool) {
	if len(row) < 9 || strings.HasPrefix(row[5], "Z") && !strings.Contains(row[5], "l") { // Zl has other threads
		return p, 0, false
	}
	number := func(i int) int64 { n, _ := strconv.ParseInt(row[i], 10, 64); return n }
	return sandbox.Process{
		HostPID: int(number(0)), User: row[4], State: row[5][:min(1, len(row[5]))],
		ElapsedSeconds: number(6), RSSBytes: number(7) << 10, Command: strings.Join(row[8:], " "),
	}, int(number(3)), true
}
