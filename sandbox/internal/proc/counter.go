package proc

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"belljar/sandbox"
	"belljar/sandbox/internal/cgroup"

	"golang.org/x/sys/unix"
)

// Counter counts what a container used by its control groups on this host. It keeps
// the last counts: the groups go with the container.
type Counter struct {
	Group *cgroup.Group
	First int      // PID of the container's first process
	Dirs  []string // its directories in memory

	mu   sync.Mutex
	last cgroup.Counts
	peak int64 // see sandbox.Counters.OOMPeak
	outlived
}

// Proc is the first process's directory.
func (c *Counter) Proc() string { return fmt.Sprintf("/proc/%d", c.First) }

// Count reads what is cheap to read, and would be lost with the container.
func (c *Counter) Count() cgroup.Counts {
	now := c.Group.Counts()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = c.last.Max(now)
	if now.OOMKills > 0 && now.OOMKills == c.last.OOMKills {
		c.peak = now.MaxMemory
	}
	return c.last
}

// Refused reports whether the group's limit of processes has kept one from starting since the last count, or does now.
func (c *Counter) Refused() bool {
	c.mu.Lock()
	before := c.last.PidsLimitHits
	c.mu.Unlock()
	return c.Count().PidsLimitHits > before || c.Group.Full()
}

// Counters are all counts, and their source.
func (c *Counter) Counters(context.Context) (all sandbox.Counters, source string) {
	n := c.Count()
	all.OOMKills, all.PidsLimitHits, all.MaxMemoryBytes, all.CPUSeconds = n.OOMKills, n.PidsLimitHits, n.MaxMemory, n.CPUSeconds
	c.mu.Lock()
	all.OOMPeak = c.peak
	c.mu.Unlock()
	all.IOBytes = c.Group.DiskBytes() + netBytes(filepath.Join(c.Proc(), "net/dev"))
	all.DiskFull = c.fullDirs()
	if c.Group.Instead != "" {
		return all, ""
	}
	return all, "cgroup"
}

// fullDirs are the writable directories in memory that have no room left.
func (c *Counter) fullDirs() []string {
	var full []string
	for _, dir := range c.Dirs {
		var fs unix.Statfs_t
		err := unix.Statfs(filepath.Join(c.Proc(), "root", dir), &fs)
		inMemory := fs.Type == unix.TMPFS_MAGIC || dir == "/" && fs.Type == unix.OVERLAYFS_SUPER_MAGIC // whose layer is
		if err == nil && inMemory && (fs.Bavail == 0 || fs.Ffree == 0) {
			full = append(full, dir)
		}
	}
	return full
}

// netBytes are what a network namespace received and sent, except to itself, by its
// net/dev (proc_pid_net(5)).
func netBytes(dev string) (n int64) {
	text, _ := cgroup.ReadFile(dev)
	for line := range strings.Lines(string(text)) {
		name, counts, found := strings.Cut(line, ":")
		fields := strings.Fields(counts)
		if !found || strings.TrimSpace(name) == "lo" || len(fields) < 9 {
			continue
		}
		for _, i := range []int{0, 8} {
			bytes, _ := strconv.ParseInt(fields[i], 10, 64)
			n += bytes
		}
	}
	return n
}
