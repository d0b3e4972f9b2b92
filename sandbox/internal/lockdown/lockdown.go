// Package lockdown holds what locks a container down, whatever engine makes it: who its
// processes are, what of the kernel they see, what they may call, where they may write,
// and how much. Every line of it has a test that looks from inside the container.
package lockdown

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"belljar/sandbox"
)

const (
	// KeeperUID is who a container's own processes run as.
	KeeperUID = 65533

	// OtherUID is who they run as where commands are that user already.
	OtherUID = 65532

	// MaxFile bounds a single file, so that a sparse one cannot pretend to
	// terabytes (RLIMIT_FSIZE).
	MaxFile = 4 << 30

	// OOMScore makes the host's kernel kill a sandbox before anything else.
	OOMScore = 500

	// Hosts is /etc/hosts of a container without a network, as Docker writes it.
	Hosts = "127.0.0.1	localhost\n::1	localhost ip6-localhost ip6-loopback\n"
)

// KeeperFor is who a container's own processes run as, where its commands are that user.
func KeeperFor(u sandbox.User) int {
	if u.UID == KeeperUID {
		return OtherUID
	}
	return KeeperUID
}

// RootCapabilities are boxinit.RootCapabilities by their names, which a command that is root has.
var RootCapabilities = []string{
	"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_SETGID", "CAP_SETUID", "CAP_SETPCAP",
	"CAP_NET_BIND_SERVICE", "CAP_SETFCAP",
}

// Env are the variables of a container's own processes, and of commands that do not
// replace them. PATH is Docker's default: without one a runtime finds no sh. HOME is where
// every command may write: the image's HOME may be missing, or on its read-only root. The
// others keep programs from drawing, paging and asking where no one sees it.
var Env = []string{
	"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/tmp",
	"TERM=dumb", "PAGER=cat", "GIT_PAGER=cat", "GH_PAGER=cat", "MANPAGER=cat", "SYSTEMD_PAGER=cat", "GIT_TERMINAL_PROMPT=0",
}

// MaskedPaths and ReadonlyPaths are Docker's defaults, and what they leave readable:
// interrupt counts and power draw reveal what else runs on the host.
var (
	MaskedPaths = []string{
		"/proc/asound", "/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
		"/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware",
		"/proc/interrupts", "/sys/devices/virtual/powercap",
	}
	ReadonlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
)

// WritableDirs are where a command may write: in memory, and bounded.
func WritableDirs(spec sandbox.Spec) []string {
	return slices.DeleteFunc(slices.Concat([]string{"/tmp", "/work"}, spec.Tmpfs), func(dir string) bool {
		return slices.ContainsFunc(spec.Mounts, func(m sandbox.Mount) bool { return m.Target == dir })
	})
}

// Tmpfs are the directories to be mounted in memory, with their options: those where a
// command may write, and the volumes that the image declares, which so are covered. An
// engine would put those on the host's disk, without a bound and writable in spite of the
// read-only root.
func Tmpfs(spec sandbox.Spec) map[string]string {
	options := strings.Join([]string{
		"rw", "exec", "nosuid", "nodev",
		"size=" + strconv.FormatInt(spec.Limits.Tmp, 10),
		"nr_inodes=" + strconv.FormatInt(Inodes(spec.Limits.Tmp), 10),
		"mode=1777",
		// mode is the only option that an existing directory of the image overrides.
		fmt.Sprintf("uid=%d,gid=%d", spec.User.UID, spec.User.GID),
	}, ",")
	all := map[string]string{}
	for _, dir := range WritableDirs(spec) {
		all[dir] = options
	}
	for _, volume := range spec.Image.Volumes {
		if !slices.ContainsFunc(spec.Mounts, func(m sandbox.Mount) bool { return m.Target == path.Clean(volume) }) {
			all[path.Clean(volume)] = options
		}
	}
	return all
}

// Inodes are how many files there may be in that many bytes of memory: one for every 4 KiB page, at least enough for a
// directory tree. An inode costs the kernel about as much as a quarter of a page.
func Inodes(size int64) int64 { return max(size/4096, 1024) }
