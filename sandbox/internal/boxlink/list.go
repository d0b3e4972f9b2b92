package boxlink

import (
	"context"
	"errors"
	"strings"

	"belljar/internal/boxinit/wire"
)

// Listing is what the container's /proc says, as text. See proc(5).
type Listing struct {
	Uptime    string
	Processes []Listed // without the init
	PIDs      []string // all but the init's, as they were afterwards
}

// Listed is a process.
type Listed struct {
	Stat   string // /proc/PID/stat
	Status string // /proc/PID/status, its beginning
	Args   string // /proc/PID/cmdline, its beginning; then it ends with "…"
}

const (
	// maxList bounds a listing, in bytes. The PIDs are complete.
	maxList = 4 * wire.MaxListing
	// maxRecord is more than a process's record is.
	maxRecord = 10 << 10
	// perRecord is what a record costs at least.
	perRecord = 64
)

var errList = errors.New("the container's init sent no list")

// full reports whether no more processes fit into a listing.
func (l Listing) full() bool {
	size := 0
	for _, p := range l.Processes {
		size += len(wire.AppendRecord(nil, []byte(p.Stat), []byte(p.Status), []byte(p.Args)))
	}
	return size > wire.MaxListing-maxRecord
}

// List lists what runs in the container. It is exact after StopAll.
func (l *Link) List(ctx context.Context) (Listing, error) {
	c, err := l.ask(ctx, func(id uint32) error { return l.send(ctx, wire.List, id, nil) })
	if err != nil {
		return Listing{}, err
	}
	return c.listing()
}

func (c *call) listing() (list Listing, err error) {
	if len(c.records) < 2 || len(c.records[0]) != 1 {
		return list, errList
	}
	list.Uptime = c.records[0][0]
	for _, r := range c.records[1:] {
		switch len(r) {
		case 3:
			list.Processes = append(list.Processes, Listed{r[0], r[1], r[2]})
		case 1:
			list.PIDs = append(list.PIDs, strings.Fields(r[0])...)
		default:
			return list, errList
		}
	}
	return list, nil
}
