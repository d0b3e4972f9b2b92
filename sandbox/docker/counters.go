package docker

import (
	"context"
	"encoding/json"
	"strings"

	"belljar/sandbox"
	"belljar/sandbox/internal/cgroup"

	"github.com/docker/docker/api/types/container"
)

// counter reads what a container used and which limits it reached.
type counter interface {
	// Count reads what is cheap to read, and would be lost with the container.
	Count() cgroup.Counts
	// Refused reports whether the container's limit of processes has kept one from starting since the last count. Where
	// that is not counted, it may have.
	Refused() bool
	// Counters are all counts, and their source, "" where limits are not counted.
	Counters(ctx context.Context) (c sandbox.Counters, source string)
	// EndedByMemory reports whether the container's first process, which has ended, is known to have been killed
	// because memory ran out.
	EndedByMemory() bool
}

// engineCounter asks the engine for its statistics, which are totals only. An engine on
// this host is not asked: it takes a second to answer.
type engineCounter struct{ box *box }

func (c *engineCounter) Count() cgroup.Counts { return cgroup.Counts{} }

func (c *engineCounter) Refused() bool { return true }

func (c *engineCounter) EndedByMemory() bool { return false }

func (c *engineCounter) Counters(ctx context.Context) (all sandbox.Counters, source string) {
	if c.box.engine.local() {
		return all, ""
	}
	stats := c.box.stats(ctx)
	all.Resources = sandbox.Resources{CPUSeconds: float64(stats.CPUStats.CPUUsage.TotalUsage) / 1e9, MaxMemoryBytes: int64(stats.MemoryStats.MaxUsage)}
	all.IOBytes = ioBytes(stats)
	return all, ""
}

// ioBytes are what a container read and wrote, on disks and networks.
func ioBytes(stats *container.StatsResponse) (n int64) {
	for _, entry := range stats.BlkioStats.IoServiceBytesRecursive {
		if op := strings.ToLower(entry.Op); op == "read" || op == "write" {
			n += int64(entry.Value)
		}
	}
	for _, net := range stats.Networks {
		n += int64(net.RxBytes + net.TxBytes)
	}
	return n
}

// stats asks the engine for its statistics, zero where it has none.
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

// Counters implements sandbox.Container: the inspector's counters, and those from the
// engine's events.
func (b *box) Counters(ctx context.Context) (sandbox.Counters, error) {
	now, _ := b.watch.now()
	ended, _ := b.inspector.ended()
	ended = !b.ending.Load() && (now.died || ended)
	starved := ended && b.inspector.EndedByMemory()
	c, source := b.inspector.Counters(ctx)
	var sources []string
	if source != "" {
		sources = append(sources, source)
	}
	if !now.missed {
		sources = append(sources, "events")
		// An event is not a count: it may stand for several kills, or repeat one.
		// But the container may have ended before the counter was read.
		if c.OOMKills == 0 {
			c.OOMKills = now.oom
		}
	}
	c.Source = strings.Join(sources, ",")
	switch {
	case !ended || starved:
	case b.watchesInit() && c.OOMKills > 0: // what was killed for memory was something else
		c.Stopped, c.KilledBy = true, "outside"
	default:
		c.Stopped = b.stopped(ctx)
		if c.Stopped || b.sharesKernel() {
			c.KilledBy = "outside" // a keeper does not end by itself
		}
	}
	return c, nil
}

// watchesInit reports whether it is known what killed the container's first process: where this host sees an init of
// ours. The engine's init ends, too, when its keeper was killed.
func (b *box) watchesInit() bool {
	_, here := b.inspector.(*hostInspector)
	return here && b.init != nil
}

// stopped reports whether a container ended because someone asked the engine for it, as
// with docker kill. The engine reports that after the fact.
func (b *box) stopped(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, eventTimeout)
	defer cancel()
	return b.watch.until(ctx, func(s state) bool { return s.stopped || s.missed }).stopped
}
