package oci

import (
	"maps"
	"os"
	"slices"

	"belljar/sandbox/internal/userns"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

const (
	// idsDir has the user IDs that containers have: of all belljar processes on this host.
	idsDir = "/run/belljar"

	// rootedDir is where a container with a root user has its private directory, in its runtime's mount
	// namespace. That user enters it, who has no rights on this host; the engine's directory is root's alone.
	rootedDir = "/run/belljar-rooted"

	// layerDir has a writable root's layer.
	layerDir = "layer"

	// unwritable bounds the layer of a root that no command can write to: it has what the runtime makes.
	unwritable = 16 << 20
)

// rootCapabilities are boxinit.RootCapabilities, which a command that is root has.
var rootCapabilities = []string{
	"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_SETGID", "CAP_SETUID", "CAP_SETPCAP",
	"CAP_NET_BIND_SERVICE", "CAP_SETFCAP",
}

// containRoot gives a container users of its own: its user 0 is the host's user ids, who is no one.
func containRoot(s *specs.Spec, ids int) {
	mapping := []specs.LinuxIDMapping{{ContainerID: 0, HostID: uint32(ids), Size: userns.Size}}
	s.Linux.UIDMappings, s.Linux.GIDMappings = mapping, mapping
	s.Linux.Namespaces = append(s.Linux.Namespaces, specs.LinuxNamespace{Type: specs.UserNamespace})
	s.Process.Capabilities = &specs.LinuxCapabilities{Bounding: rootCapabilities, Effective: rootCapabilities, Permitted: rootCapabilities}
}

// itself are calls that change how the kernel treats a process, and the arguments with which they mean none but the caller's.
// The first one or two name it: 0 is the caller.
var itself = map[string][]specs.LinuxSeccompArg{
	"prlimit64":          {{Index: 0, Op: specs.OpEqualTo}},
	"sched_setscheduler": {{Index: 0, Op: specs.OpEqualTo}},
	"sched_setparam":     {{Index: 0, Op: specs.OpEqualTo}},
	"sched_setattr":      {{Index: 0, Op: specs.OpEqualTo}},
	"sched_setaffinity":  {{Index: 0, Op: specs.OpEqualTo}},
	"setpriority":        {{Index: 0, Op: specs.OpLessEqual, Value: unix.PRIO_PGRP}, {Index: 1, Op: specs.OpEqualTo}},
	"ioprio_set":         {{Index: 0, Op: specs.OpLessEqual, Value: ioprioGroup}, {Index: 1, Op: specs.OpEqualTo}},
}

// ioprioGroup is IOPRIO_WHO_PGRP of ioprio_set(2), after which comes IOPRIO_WHO_USER.
const ioprioGroup = 2

// spareInit keeps root from other processes than the caller. It can become the init's user, who may change those of the
// init: with no processor time left, that would end, or not answer.
func spareInit(profile *specs.LinuxSeccomp) {
	for i := range profile.Syscalls {
		// The names may be shared with other profiles.
		profile.Syscalls[i].Names = slices.DeleteFunc(slices.Clone(profile.Syscalls[i].Names), func(name string) bool { return itself[name] != nil })
	}
	profile.Syscalls = slices.DeleteFunc(profile.Syscalls, func(s specs.LinuxSyscall) bool { return len(s.Names) == 0 })
	for _, name := range slices.Sorted(maps.Keys(itself)) { // sorted: the filter's name is its digest
		profile.Syscalls = append(profile.Syscalls, specs.LinuxSyscall{Names: []string{name}, Action: specs.ActAllow, Args: itself[name]})
	}
}

// cloneRoot clones the image's root. A container with a root user gets its user IDs first, and the image's
// files are mapped to them.
func (m *making) cloneRoot(root int) (err error) {
	if !m.spec.Root {
		if m.trees.root, err = clone(root); err != nil {
			return engineError(err, "preparing the root of image %q", m.spec.Image.Reference).Hint("see: belljar doctor")
		}
		return nil
	}
	spans, err := userns.HostSpans()
	if err != nil {
		return err
	}
	if m.ids, err = (userns.Pool{Dir: idsDir, Spans: spans}).Take(); err != nil {
		return err
	}
	m.trees.root, err = m.ids.Clone(root)
	return err
}

// layer gives a container with a root user, or a writable root, its layer.
func (m *making) layer(l *launch) error {
	if !m.spec.Root && m.spec.Limits.Disk == 0 {
		return nil
	}
	bytes := m.spec.Limits.Disk
	if bytes == 0 {
		bytes = unwritable
	}
	ids := 0
	if m.ids != nil {
		ids = m.ids.First
	}
	l.layer = &userns.Root{Lower: lowerDir, Layer: layerDir, At: rootDir, First: ids, Bytes: bytes, Inodes: userns.Inodes(bytes), UserXattr: m.engine.user != nil}
	if m.ids == nil {
		return nil
	}
	// The runtime keeps the container's user IDs, as it does the image. It ends after the container unless
	// it is killed; then others may get them, and share nothing but the kernel's counts for each user.
	l.holds = append(l.holds, m.ids.File())
	return os.MkdirAll(rootedDir, 0o711)
}

// private is where the private directory is mounted.
func (r record) private() string {
	if r.Root {
		return rootedDir
	}
	return r.Dir
}

// hostKeeper is this host's ID of Keeper.
func (r record) hostKeeper() int { return r.Keeper + r.IDs }
