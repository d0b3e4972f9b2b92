package docker

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"belljar/sandbox"

	"github.com/docker/docker/api/types/container"
	"golang.org/x/sys/unix"
)

// Counters implements sandbox.Container: from the kernel where it is this
// host's, from the engine's events, and from its statistics elsewhere.
func (b *box) Counters(ctx context.Context) (sandbox.Counters, error) {
	var c sandbox.Counters
	var sources []string
	if b.counting != nil {
		sources = append(sources, "cgroup")
		n := b.count()
		c.OOMKills, c.PidsLimitHits, c.MaxMemoryBytes, c.CPUSeconds = n.oomKills, n.pidsLimitHits, n.maxMemory, n.cpuSeconds
		c.DiskFull = b.fullDirs()
	} else if !b.engine.local() {
		stats := b.lastStats.Swap(nil)
		if stats == nil {
			stats = b.stats(ctx)
		}
		c.Resources = sandbox.Resources{CPUSeconds: float64(stats.CPUStats.CPUUsage.TotalUsage) / 1e9, MaxMemoryBytes: int64(stats.MemoryStats.MaxUsage)}
	}
	var now seen
	b.watch.look(func(s seen) { now = s })
	if !now.blind {
		sources = append(sources, "events")
		// An event is no count: it may stand for several kills, or repeat one.
		// But the counter may be gone with its container, unread.
		if c.OOMKills == 0 {
			c.OOMKills = now.oom
		}
	}
	if !b.ending.Load() && (now.died || b.initGone()) {
		c.Stopped = b.stopped(ctx)
		if c.Stopped || b.sharesKernel() {
			c.KilledBy = "outside" // a keeper does not end of itself
		}
	}
	c.Source = strings.Join(sources, ",")
	return c, nil
}

// count reads the group's counts, if there is one. It keeps the last: they go
// with the container.
func (b *box) count() counts {
	if b.counting == nil {
		return counts{}
	}
	now := b.counting.counts()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counted = b.counted.max(now)
	return b.counted
}

// initGone tells whether the container's first process has ended or is about to,
// which takes all others with it, and which the engine tells only once it
// cleaned up.
func (b *box) initGone() bool {
	if b.group == nil {
		return false
	}
	init, err := readStat(b.init)
	if err != nil || !init.runs() || init.exiting() {
		return true
	}
	status, err := readStatus(b.init)
	return err != nil || status.killed
}

// stopped tells whether the engine was asked to end a container that ended, as
// by docker kill. It says so once it did it.
func (b *box) stopped(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	return b.watch.until(ctx, func(s seen) bool { return s.stopped || s.blind }).stopped
}

// fullDirs are the writable directories in memory that have no room left. They
// are looked at through the keeper's root.
func (b *box) fullDirs() []string {
	var full []string
	for _, dir := range append(writableDirs(b.spec), "/dev/shm") {
		var fs unix.Statfs_t
		err := unix.Statfs(filepath.Join(fmt.Sprintf("/proc/%d/root", b.init), dir), &fs)
		if err == nil && fs.Type == unix.TMPFS_MAGIC && (fs.Bavail == 0 || fs.Ffree == 0) {
			full = append(full, dir)
		}
	}
	return full
}

// stats asks the engine, which knows the sums only; zero where it does not say.
func (b *box) stats(ctx context.Context) *container.StatsResponse {
	response, err := b.engine.client.ContainerStatsOneShot(ctx, b.id)
	if err != nil {
		return &container.StatsResponse{}
	}
	defer response.Body.Close()
	var stats container.StatsResponse
	if json.NewDecoder(response.Body).Decode(&stats) != nil {
		return &container.StatsResponse{}
	}
	return &stats
}
