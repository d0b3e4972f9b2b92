package oci

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"belljar/internal/boxinit"
	"belljar/sandbox"
	"belljar/sandbox/internal/lockdown"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// cpuPeriod is how often a container's share of the processors is dealt out, in
// microseconds: the kernel's default.
const cpuPeriod = 100_000

// maxTerminals is how many pseudoterminals a container has. The kernel bounds those of all containers together
// (sysctl kernel.pty.max), which one could use up for the others.
const maxTerminals = 64

// initCapabilities are what the init needs to become its own user, and then to start
// commands as theirs and to kill them. It drops SETPCAP itself.
var initCapabilities = []string{"CAP_SETUID", "CAP_SETGID", "CAP_KILL", "CAP_SETPCAP"}

// config is a container's config.json: the lock-down.
func config(spec sandbox.Spec, id, group string, init boxinit.Config, ids int) (*specs.Spec, error) {
	s := &specs.Spec{
		Version: "1.0.2",
		Process: &specs.Process{
			Args: init.Args(), Env: environ(id), Cwd: "/",
			Capabilities:    &specs.LinuxCapabilities{Bounding: initCapabilities, Effective: initCapabilities, Permitted: initCapabilities},
			Rlimits:         rlimits(spec.Limits, ids != 0),
			NoNewPrivileges: true, OOMScoreAdj: pointer(lockdown.OOMScore),
		},
		Root:     &specs.Root{Path: rootDir, Readonly: spec.Limits.Disk == 0},
		Hostname: hostname(id),
		Mounts:   mounts(spec),
		Linux: &specs.Linux{
			Namespaces: []specs.LinuxNamespace{
				{Type: specs.PIDNamespace}, {Type: specs.IPCNamespace}, {Type: specs.UTSNamespace}, {Type: specs.MountNamespace},
				{Type: specs.CgroupNamespace}, {Type: specs.NetworkNamespace},
			},
			Resources:         resources(spec.Limits),
			CgroupsPath:       "/" + group,
			RootfsPropagation: "private",
			MaskedPaths:       lockdown.MaskedPaths, ReadonlyPaths: lockdown.ReadonlyPaths,
		},
	}
	if spec.Root {
		containRoot(s, ids)
	}
	p, err := profileOf(spec.Root)
	s.Linux.Seccomp = p.LinuxSeccomp
	return s, err
}

// hostname is what Docker's would be: the beginning of the ID.
func hostname(id string) string { return id[:12] }

// environ are the init's variables, and of commands that do not replace them.
func environ(id string) []string { return append(slices.Clone(lockdown.Env), "HOSTNAME="+hostname(id)) }

func resources(l sandbox.Limits) *specs.LinuxResources {
	r := &specs.LinuxResources{
		Devices: []specs.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}},
		Memory:  &specs.LinuxMemory{Limit: &l.Memory},
		CPU:     &specs.LinuxCPU{Quota: pointer(int64(l.CPUs * cpuPeriod)), Period: pointer(uint64(cpuPeriod))},
		Pids:    &specs.LinuxPids{Limit: pointer(pidsLimit(l, ""))},
	}
	if countsSwap() {
		r.Memory.Swap = &l.Memory // memory and swap together: no swap
	}
	return r
}

// pidsLimit is how many the kernel lets there be. Limits.Pids counts two processes of the container's own, as
// Docker's keeper has.
func pidsLimit(l sandbox.Limits, runtime string) int64 {
	pids := l.Pids + boxinit.Threads - 2
	if ownKernel(runtime) {
		return sentryPids(pids)
	}
	return pids
}

// countsSwap reports whether the kernel limits swap. With cgroup v2 it does, if it has
// swap at all.
func countsSwap() bool {
	if _, err := os.Stat("/sys/fs/cgroup/memory"); err != nil {
		return true
	}
	_, err := os.Stat("/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes")
	return err == nil
}

// mounts are all of a container, in the order in which they are made: the kernel's file systems, what
// the command asked for, directories before what is in them, and the init.
func mounts(spec sandbox.Spec) []specs.Mount {
	list := []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "strictatime", "mode=755", "size=64k"}},
		{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5", fmt.Sprintf("max=%d", maxTerminals)}},
		{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev", "ro"}},
		// Its own control group, not the runtime's mount: crun's of v1 is a directory that anyone may write to.
		{Destination: "/sys/fs/cgroup", Type: "bind", Source: groupsDir, Options: []string{"rbind", "private", "nosuid", "noexec", "nodev", "ro"}},
		{Destination: "/dev/mqueue", Type: "mqueue", Source: "mqueue", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/dev/shm", Type: "tmpfs", Source: "shm", Options: []string{"nosuid", "noexec", "nodev", "mode=1777", fmt.Sprintf("size=%d", spec.Limits.Tmp), fmt.Sprintf("nr_inodes=%d", lockdown.Inodes(spec.Limits.Tmp))}},
	}
	asked := []specs.Mount{}
	tmpfs := lockdown.Tmpfs(spec)
	for _, dir := range slices.Sorted(maps.Keys(tmpfs)) {
		asked = append(asked, specs.Mount{Destination: dir, Type: "tmpfs", Source: "tmpfs", Options: strings.Split(tmpfs[dir], ",")})
	}
	for i, m := range spec.Mounts {
		options := []string{"bind", "private", "nosuid", "nodev", "ro"}
		if m.Writable {
			options[len(options)-1] = "rw"
		}
		asked = append(asked, specs.Mount{Destination: m.Target, Type: "bind", Source: sourceName(i), Options: options})
	}
	slices.SortStableFunc(asked, func(a, b specs.Mount) int { return cmp.Compare(depth(a), depth(b)) })
	return append(append(list, asked...), specs.Mount{
		Destination: boxinit.Path, Type: "bind", Source: initFile, Options: []string{"bind", "private", "nosuid", "nodev", "ro"},
	})
}

func depth(m specs.Mount) int { return strings.Count(path.Clean(m.Destination), "/") }

func pointer[T any](v T) *T { return &v }
