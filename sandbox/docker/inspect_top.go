package docker

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"belljar/sandbox"
	"belljar/sandbox/internal/proc"

	"github.com/containerd/errdefs"
)

// topInspector asks the engine, which runs ps on its host. It knows no PID inside
// the container: box.Signal says how what it lists gets signals.
type topInspector struct {
	counter
	noHostAccess
	box   *box
	first int // PID of the container's first process on the engine's host, which is the keeper's; 0 if unknown
}

func (t *topInspector) prepare() {}
func (t *topInspector) stop()    {}
func (t *topInspector) close()   {}

// processes implements inspector. Whether the list is complete is known as for a
// snapshot: by what the engine counts between two lists.
func (t *topInspector) processes(ctx context.Context) ([]sandbox.Process, error) {
	first, err := t.once(ctx)
	if err != nil || first == nil {
		return nil, err
	}
	stats := t.box.stats(ctx)
	second, err := t.once(ctx)
	if err != nil || second == nil {
		return first.list, err
	}
	if stats.PidsStats.Current != second.tasks || !first.same(second) {
		return second.list, proc.ErrMissed
	}
	return second.list, nil
}

// table is the answer of one top; nil if the container, and all in it, ended.
type table struct {
	list  []sandbox.Process
	pids  []int  // the engine's host's, of all
	tasks uint64 // threads of all
}

func (t *table) same(other *table) bool {
	return t.tasks == other.tasks && slices.Equal(t.pids, other.pids)
}

func (t *topInspector) once(ctx context.Context) (*table, error) {
	answer, err := t.box.engine.client.ContainerTop(ctx, t.box.id, []string{"-eo", "pid,ppid,pgid,uid,user,stat,nlwp,etimes,rss,args"})
	if errdefs.IsNotFound(err) || errdefs.IsConflict(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing processes by the engine: %w", err)
	}
	all := &table{}
	mapped := 0
	for _, row := range answer.Processes {
		p, tasks, ok := parseTop(row)
		if !ok {
			continue
		}
		if p.HostPID == t.first {
			mapped = max(0, p.UID-t.box.keeperUID)
		}
		all.pids, all.tasks, all.list = append(all.pids, p.HostPID), all.tasks+tasks, append(all.list, p)
	}
	slices.Sort(all.pids)
	all.list = slices.DeleteFunc(all.list, func(p sandbox.Process) bool { return p.UID == t.box.keeperUID+mapped })
	proc.MapUsers(all.list, -mapped)
	return all, nil
}

// parseTop reads a row of top. Its PIDs are the engine's host's; those inside
// the container are not known.
func parseTop(row []string) (p sandbox.Process, tasks uint64, ok bool) {
	if len(row) < 10 || strings.HasPrefix(row[5], "Z") && !strings.Contains(row[5], "l") { // Zl has other threads
		return p, 0, false
	}
	number := func(i int) int64 { n, _ := strconv.ParseInt(row[i], 10, 64); return n }
	return sandbox.Process{
		HostPID: int(number(0)), UID: int(number(3)), User: row[4], State: row[5][:min(1, len(row[5]))],
		ElapsedSeconds: number(7), RSSBytes: number(8) << 10, Command: strings.Join(row[9:], " "),
	}, uint64(number(6)), true
}
