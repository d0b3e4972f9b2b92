package suite

import (
	"math"
	"strconv"
	"strings"
	"time"

	"belljar/sandbox"
)

const (
	defaultFolderTimeout = 10 * time.Minute
	// maxMB and maxCPUs are more than any host has.
	maxMB   = 1 << 20
	maxCPUs = 1 << 12
)

// duration is a time that a task names. One out of range is longer than any task may have.
func duration(seconds float64) time.Duration {
	if math.Abs(seconds) > maxTimeout.Seconds() || math.IsNaN(seconds) {
		return maxTimeout + 1
	}
	return time.Duration(seconds * float64(time.Second))
}

// limitsOf are those of the agent and of the grader.
func (f *folder) limitsOf(t *Task, a agent, v verifier) (err error) {
	own, name := f.set.Environment, f.set.Environment.policy()
	if t.Agent, err = own.bounds(a.TimeoutSec); err != nil {
		return err
	}
	if t.Agent.Network, err = f.network(a.policy(), name); err != nil {
		return err
	}
	if v.Environment != nil {
		own, name = *v.Environment, v.Environment.policy()
	}
	if t.Grader.Bounds, err = own.bounds(v.TimeoutSec); err != nil {
		return err
	}
	t.Grader.Network, err = f.network(v.policy(), name)
	return err
}

func (e environment) bounds(seconds float64) (b Bounds, err error) {
	b.Timeout, b.CPUs = duration(seconds), e.CPUs
	if seconds == 0 {
		b.Timeout = defaultFolderTimeout
	}
	if max(e.MemoryMB, e.StorageMB) > maxMB || min(e.MemoryMB, e.StorageMB) < 0 || !(b.CPUs >= 0 && b.CPUs <= maxCPUs) {
		return b, sandbox.Invalid("leave them out for the profile's", "cpus, memory_mb or storage_mb of %s is out of range", settingsFile)
	}
	if b.Memory = e.MemoryMB << 20; b.Memory == 0 {
		if b.Memory, err = parseSize(e.Memory); err != nil {
			return b, err
		}
	}
	if b.Disk = e.StorageMB << 20; b.Disk == 0 {
		if b.Disk, err = parseSize(e.Storage); err != nil {
			return b, err
		}
	}
	if b.Timeout < 0 || b.Timeout > maxTimeout {
		return b, sandbox.Invalid("write seconds, from 1 to a day", "timeout_sec %g of %s is out of range", seconds, settingsFile)
	}
	if b.Disk > 0 { // files are in memory
		b.Disk = min(b.Disk, max(b.Memory, 64<<20))
	}
	return b, nil
}

// parseSize reads a size as older task folders have it, such as 2G.
func parseSize(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	number, shift := strings.TrimRight(strings.ToUpper(text), "IB"), 0
	for i, unit := range []string{"K", "M", "G"} {
		if n, ok := strings.CutSuffix(number, unit); ok {
			number, shift = n, 10*(i+1)
		}
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || !(n >= 0 && n <= maxMB) {
		return 0, sandbox.Invalid("write memory_mb or storage_mb", "size %q is malformed", text)
	}
	return int64(n * float64(int64(1)<<shift)), nil
}
