package docker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// cgroupRoot is where every Linux distribution mounts the control groups.
const cgroupRoot = "/sys/fs/cgroup"

// cgroup is a container's control groups on this host: one directory for all
// controllers (v2), or one for each (v1).
type cgroup struct{ v2, memory, pidsDir, cpu, blkio, freezer string }

// findCgroup finds a container's groups where its first process is this host's:
// its PID must lead to a group that carries the container's ID. It is nil elsewhere.
func (e *Engine) findCgroup(id string, first int) *cgroup {
	if first == 0 || !e.local() {
		return nil
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", first))
	if err != nil {
		return nil
	}
	group := parseCgroup(string(text), id)
	if group == nil {
		return nil
	}
	if pids, err := group.pids(); err != nil || pids == nil {
		return nil
	}
	return group
}

// parseCgroup reads /proc/PID/cgroup, lines of number:controllers:path
// (cgroups(7)).
func parseCgroup(text, id string) *cgroup {
	var g cgroup
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 || !strings.Contains(parts[2], id) {
			continue
		}
		dir := func(mount string) string { return filepath.Join(cgroupRoot, mount, parts[2]) }
		if parts[1] == "" {
			g.v2 = dir("")
			continue
		}
		for controller := range strings.SplitSeq(parts[1], ",") {
			switch controller {
			case "memory":
				g.memory = dir(controller)
			case "pids":
				g.pidsDir = dir(controller)
			case "cpuacct":
				g.cpu = dir(controller)
			case "blkio":
				g.blkio = dir(controller)
			case "freezer":
				g.freezer = dir(controller)
			}
		}
	}
	switch {
	case g.memory != "" && g.pidsDir != "":
		g.v2 = "" // hybrid: there is a v2 group, but the controllers are v1's
		return &g
	case g.v2 != "":
		return &cgroup{v2: g.v2, memory: g.v2, pidsDir: g.v2, cpu: g.v2}
	}
	return nil
}

// tasks is how many processes and threads the kernel counts in the group, those
// included that ended and were not waited for. Unlike a list it is exact at any
// moment: a fork counts before the new process can be seen.
func (g *cgroup) tasks() int64 { return number(g.pidsDir, "pids.current") }

// pids are the host's PIDs of the processes in the group, sorted, nil if it is
// gone. With cgroup v1 a process that starts at this moment may be missing: the kernel
// counts the processes and reserves memory for them before it reads them
// (pidlist_array_load in kernel/cgroup/cgroup-v1.c).
func (g *cgroup) pids() ([]int, error) {
	text, err := os.ReadFile(filepath.Join(g.pidsDir, "cgroup.procs"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	list := []int{}
	for field := range strings.FieldsSeq(string(text)) {
		if pid, err := strconv.Atoi(field); err == nil {
			list = append(list, pid)
		}
	}
	slices.Sort(list)
	return list, nil
}

// diskBytes are what the group read from disks and wrote to them. What is written through
// the page cache may count later or, with cgroup v1, never.
func (g *cgroup) diskBytes() (n int64) {
	if g.v2 == "" && g.blkio == "" {
		return 0
	}
	if g.v2 == "" {
		return keyed(g.blkio, "blkio.throttle.io_service_bytes", "Total")
	}
	text, _ := os.ReadFile(filepath.Join(g.v2, "io.stat")) // MAJ:MIN rbytes=N wbytes=N …
	for field := range strings.FieldsSeq(string(text)) {
		name, value, _ := strings.Cut(field, "=")
		if name == "rbytes" || name == "wbytes" {
			bytes, _ := strconv.ParseInt(value, 10, 64)
			n += bytes
		}
	}
	return n
}

// netBytes are what a network namespace received and sent, except to itself, by its
// net/dev (proc_pid_net(5)).
func netBytes(dev string) (n int64) {
	text, _ := os.ReadFile(dev)
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

// number reads a file that contains one number.
func number(dir, file string) int64 {
	text, _ := os.ReadFile(filepath.Join(dir, file))
	n, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n
}

// keyed reads one number of a file of lines "key number".
func keyed(dir, file, key string) int64 {
	text, _ := os.ReadFile(filepath.Join(dir, file))
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, key+" "); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
			return n
		}
	}
	return 0
}

// counts are what a group has counted since it was made; they only grow.
type counts struct {
	oomKills, pidsLimitHits int
	maxMemory               int64
	cpuSeconds              float64
}

func (c counts) max(other counts) counts {
	return counts{
		max(c.oomKills, other.oomKills), max(c.pidsLimitHits, other.pidsLimitHits),
		max(c.maxMemory, other.maxMemory), max(c.cpuSeconds, other.cpuSeconds),
	}
}

func (g *cgroup) counts() counts {
	return counts{g.oomKills(), g.pidsLimitHits(), g.maxMemory(), g.cpuSeconds()}
}

func (g *cgroup) oomKills() int {
	if g.v2 != "" {
		return int(keyed(g.memory, "memory.events", "oom_kill"))
	}
	return int(keyed(g.memory, "memory.oom_control", "oom_kill"))
}

func (g *cgroup) pidsLimitHits() int { return int(keyed(g.pidsDir, "pids.events", "max")) }

func (g *cgroup) maxMemory() int64 {
	if g.v2 != "" {
		return number(g.memory, "memory.peak")
	}
	return number(g.memory, "memory.max_usage_in_bytes")
}

func (g *cgroup) cpuSeconds() float64 {
	if g.v2 != "" {
		return float64(keyed(g.cpu, "cpu.stat", "usage_usec")) / 1e6
	}
	return float64(number(g.cpu, "cpuacct.usage")) / 1e9
}
