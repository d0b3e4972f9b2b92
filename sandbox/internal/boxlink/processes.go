package boxlink

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"belljar/sandbox"
	"belljar/sandbox/internal/proc"
)

// listTries is how many lists are made before one counts that lacks processes.
const listTries = 3

// Processes lists what runs in the container but its own processes, which are the init and those of user keeper, if that
// is not -1: for where this host does not see it. With an error the list may lack some.
func (l *Link) Processes(ctx context.Context, keeper int) (list []sandbox.Process, err error) {
	for range listTries {
		found, failed := l.List(ctx)
		if failed != nil {
			return nil, fmt.Errorf("listing by the container's init: %w", failed)
		}
		var missed int
		if list, missed = found.processes(keeper); missed == 0 {
			return list, nil
		}
		if found.full() {
			return list, fmt.Errorf("the list is truncated: %d of %d processes are not in it", missed, len(found.PIDs))
		}
		err = fmt.Errorf("%w: %d of them", proc.ErrMissed, missed)
	}
	return list, err
}

// processes are those of a listing, without the init's own, and how many are not in it.
func (l Listing) processes(keeper int) (list []sandbox.Process, missed int) {
	up := proc.ParseUptime(l.Uptime)
	var seen []string
	for _, f := range l.Processes {
		p, runs := proc.ParseInside(f.Stat, f.Status, f.Args, up)
		if p.PID == 0 {
			continue // it has ended meanwhile
		}
		seen = append(seen, strconv.Itoa(p.PID))
		if runs && p.UID != keeper {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, proc.ByPID)
	return list, proc.CountNew(l.PIDs, seen)
}
