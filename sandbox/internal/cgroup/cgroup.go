// Package cgroup reads and freezes a container's control groups on this host, of version 1,
// version 2, and both at once.
package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Root is where every Linux distribution mounts the control groups.
const Root = "/sys/fs/cgroup"

// Group is a container's control groups on this host: one directory for all
// controllers (v2), or one for each (v1), "" where there is none.
type Group struct {
	V2, Memory, Pids, CPU, Blkio, Freezer string

	// Instead is for a container that has no groups: its PID namespace, as /proc/PID/ns/pid has it. Nothing is
	// counted then, and nothing can be frozen.
	Instead string
}

// Find finds a container's groups where its first process is this host's:
// its PID must lead to a group that carries the container's ID. It is nil elsewhere.
func Find(id string, first int) *Group {
	if first == 0 {
		return nil
	}
	text, err := ReadFile(fmt.Sprintf("/proc/%d/cgroup", first))
	if err != nil {
		return nil
	}
	group := Parse(string(text), id)
	if group == nil {
		return nil
	}
	if pids, err := group.Processes(); err != nil || pids == nil {
		return nil
	}
	return group
}

// Parse reads /proc/PID/cgroup, lines of number:controllers:path
// (cgroups(7)), for groups that carry the ID. It is nil if there are none.
func Parse(text, id string) *Group {
	var g Group
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 || !strings.Contains(parts[2], id) {
			continue
		}
		dir := func(mount string) string { return filepath.Join(Root, mount, parts[2]) }
		if parts[1] == "" {
			g.V2 = dir("")
			continue
		}
		for controller := range strings.SplitSeq(parts[1], ",") {
			switch controller {
			case "memory":
				g.Memory = dir(controller)
			case "pids":
				g.Pids = dir(controller)
			case "cpuacct":
				g.CPU = dir(controller)
			case "blkio":
				g.Blkio = dir(controller)
			case "freezer":
				g.Freezer = dir(controller)
			}
		}
	}
	switch {
	case g.Memory != "" && g.Pids != "":
		g.V2 = "" // hybrid: there is a v2 group, but the controllers are v1's
		return &g
	case g.V2 != "":
		return &Group{V2: g.V2, Memory: g.V2, Pids: g.V2, CPU: g.V2}
	}
	return nil
}

// Tasks is how many processes and threads the kernel counts in the group, those
// included that ended and were not waited for. Unlike a list it is exact at any
// moment: a fork counts before the new process can be seen.
func (g *Group) Tasks() int64 {
	if g.Instead != "" {
		return g.threads()
	}
	return number(g.Pids, "pids.current")
}

// Full reports whether no more processes may start in the group.
func (g *Group) Full() bool {
	most := number(g.Pids, "pids.max")
	return most > 0 && number(g.Pids, "pids.current") >= most
}

// Processes are the host's PIDs of the processes in the group, sorted, nil if it is
// gone. With cgroup v1 a process that starts at this moment may be missing: the kernel
// counts the processes and reserves memory for them before it reads them
// (pidlist_array_load in kernel/cgroup/cgroup-v1.c).
func (g *Group) Processes() ([]int, error) {
	if g.Instead != "" {
		return g.inNamespace(), nil
	}
	text, err := ReadFile(in(g.Pids, "cgroup.procs"))
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

// DiskBytes are what the group read from disks and wrote to them. What is written through
// the page cache may count later or, with cgroup v1, never.
func (g *Group) DiskBytes() (n int64) {
	if g.V2 == "" && g.Blkio == "" {
		return 0
	}
	if g.V2 == "" {
		return keyed(g.Blkio, "blkio.throttle.io_service_bytes", "Total")
	}
	text, _ := ReadFile(in(g.V2, "io.stat")) // MAJ:MIN rbytes=N wbytes=N …
	for field := range strings.FieldsSeq(string(text)) {
		name, value, _ := strings.Cut(field, "=")
		if name == "rbytes" || name == "wbytes" {
			bytes, _ := strconv.ParseInt(value, 10, 64)
			n += bytes
		}
	}
	return n
}

// in is a file of a group's directory. Where there is none it is "", which names no file: by itself the file's name would be
// one of the working directory, and may be a link from there.
func in(dir, file string) string {
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, file)
}

// number reads a file that contains one number.
func number(dir, file string) int64 {
	text, _ := ReadFile(in(dir, file))
	n, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n
}

// keyed reads one number of a file of lines "key number".
func keyed(dir, file, key string) int64 {
	n, _ := keyedThere(dir, file, key)
	return n
}

// keyedThere is keyed, and reports whether there is such a line.
func keyedThere(dir, file, key string) (n int64, there bool) {
	text, _ := ReadFile(in(dir, file))
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, key+" "); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// Counts are what a group has counted since it was made; they only grow.
type Counts struct {
	OOMKills, PidsLimitHits int
	MaxMemory               int64
	CPUSeconds              float64
}

// Max is the greater of each.
func (c Counts) Max(other Counts) Counts {
	return Counts{
		max(c.OOMKills, other.OOMKills), max(c.PidsLimitHits, other.PidsLimitHits),
		max(c.MaxMemory, other.MaxMemory), max(c.CPUSeconds, other.CPUSeconds),
	}
}

// Counts reads them.
func (g *Group) Counts() Counts {
	kills, _ := g.OOMKills()
	return Counts{kills, g.pidsLimitHits(), g.maxMemory(), g.cpuSeconds()}
}

// OOMKills reads how many processes were killed because memory ran out. It is not known once the group is gone.
func (g *Group) OOMKills() (n int, known bool) {
	file := "memory.oom_control"
	if g.V2 != "" {
		file = "memory.events"
	}
	kills, known := keyedThere(g.Memory, file, "oom_kill")
	return int(kills), known
}

func (g *Group) pidsLimitHits() int { return int(keyed(g.Pids, "pids.events", "max")) }

func (g *Group) maxMemory() int64 {
	if g.V2 != "" {
		return number(g.Memory, "memory.peak")
	}
	return number(g.Memory, "memory.max_usage_in_bytes")
}

func (g *Group) cpuSeconds() float64 {
	if g.V2 != "" {
		return float64(keyed(g.CPU, "cpu.stat", "usage_usec")) / 1e6
	}
	return float64(number(g.CPU, "cpuacct.usage")) / 1e9
}
