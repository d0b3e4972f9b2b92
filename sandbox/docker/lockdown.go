package docker

import (
	"encoding/json"
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"belljar/sandbox"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/go-units"
	"github.com/moby/profiles/seccomp"
)

// keeper is a container's main process. It needs nothing but sh, and ends when
// its stdin does, which the engine closes when our connection goes.
var keeper = []string{"sh", "-c", "while IFS= read -r _; do :; done"}

// sessionKeeper is a session's keeper: nothing is attached to it, and it ends by itself.
func sessionKeeper(deadline time.Time) []string {
	return []string{"sh", "-c", fmt.Sprintf("exec sleep %d", max(1, int(math.Ceil(time.Until(deadline).Seconds()))))}
}

const (
	// keeperUID is who the keeper runs as, and otherUID where commands are
	// that user already.
	keeperUID = 65533
	otherUID  = 65532

	// maxFile bounds a single file, so that a sparse one cannot pretend to
	// terabytes (RLIMIT_FSIZE).
	maxFile = 4 << 30

	// oomScore makes the host's kernel kill a sandbox before anything else.
	oomScore = 500
)

func keeperFor(u sandbox.User) int {
	if u.UID == keeperUID {
		return otherUID
	}
	return keeperUID
}

// seccompProfile is moby's current profile: an old engine's own
// allows io_uring and vsock.
var seccompProfile = sync.OnceValues(func() (string, error) {
	profile, err := json.Marshal(seccomp.DefaultProfile())
	return string(profile), err
})

// containerConfig overrides all that an image could set.
func containerConfig(spec sandbox.Spec, labels map[string]string, endsWithUs bool) *container.Config {
	config := &container.Config{
		Image:       spec.Image.ID,
		User:        fmt.Sprintf("%d:%[1]d", keeperFor(spec.User)),
		Env:         environ(spec.Image),
		Entrypoint:  keeper,
		Cmd:         []string{},
		WorkingDir:  "/",
		OpenStdin:   true,
		StdinOnce:   true,
		AttachStdin: true,
		Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
		StopSignal:  "SIGKILL",
		Labels:      labels,
	}
	if !endsWithUs {
		config.Entrypoint, config.OpenStdin, config.StdinOnce, config.AttachStdin = sessionKeeper(spec.Deadline), false, false, false
	}
	return config
}

// environ unsets the image's variables: a name without a value does that. PATH, which
// nearly every image sets, gets the engine's default back: without one the
// runtime finds no sh. HOME is where every command may write: the image's HOME may
// be missing, or on its read-only root. The others keep programs from drawing, paging
// and asking where no one sees it; a command's own variables replace them. They are set
// on the container so that no gate has to read them with each command.
func environ(image sandbox.Image) []string {
	return append(slices.Clone(image.EnvNames), "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/tmp",
		"TERM=dumb", "PAGER=cat", "GIT_PAGER=cat", "GH_PAGER=cat", "MANPAGER=cat", "SYSTEMD_PAGER=cat", "GIT_TERMINAL_PROMPT=0")
}

// hostConfig is the lock-down. Every line of it has a test that looks from
// inside the container.
func hostConfig(spec sandbox.Spec) (*container.HostConfig, error) {
	profile, err := seccompProfile()
	if err != nil {
		return nil, fmt.Errorf("encoding the seccomp profile: %w", err)
	}
	yes := true
	return &container.HostConfig{
		AutoRemove:     true,
		Init:           &yes,
		RestartPolicy:  container.RestartPolicy{Name: container.RestartPolicyDisabled},
		LogConfig:      container.LogConfig{Type: "none"},
		CapDrop:        []string{"ALL"},
		SecurityOpt:    []string{"no-new-privileges", "seccomp=" + profile},
		ReadonlyRootfs: true,
		Tmpfs:          tmpfs(spec),
		Mounts:         mounts(spec.Mounts),
		ShmSize:        spec.Limits.Tmp,
		NetworkMode:    container.NetworkMode(spec.Network),
		IpcMode:        container.IPCModePrivate,
		CgroupnsMode:   container.CgroupnsModePrivate,
		OomScoreAdj:    oomScore,
		Runtime:        spec.Runtime,
		MaskedPaths:    maskedPaths,
		ReadonlyPaths:  readonlyPaths,
		Resources:      resources(spec.Limits),
	}, nil
}

// The engine's defaults, and what they leave readable: interrupt counts and power draw
// reveal what else runs on the host.
var (
	maskedPaths = []string{
		"/proc/asound", "/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
		"/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware",
		"/proc/interrupts", "/sys/devices/virtual/powercap",
	}
	readonlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
)

func resources(l sandbox.Limits) container.Resources {
	return container.Resources{
		Memory:     l.Memory,
		MemorySwap: l.Memory, // memory and swap together: no swap
		NanoCPUs:   int64(l.CPUs * 1e9),
		PidsLimit:  &l.Pids,
		Ulimits: []*units.Ulimit{
			{Name: "core", Soft: 0, Hard: 0},
			{Name: "nofile", Soft: l.Files, Hard: l.Files},
			{Name: "fsize", Soft: maxFile, Hard: maxFile},
		},
	}
}

// writableDirs are where a command may write: in memory, and bounded.
func writableDirs(spec sandbox.Spec) []string {
	return slices.DeleteFunc(slices.Concat([]string{"/tmp", "/work"}, spec.Tmpfs), func(dir string) bool {
		return slices.ContainsFunc(spec.Mounts, func(m sandbox.Mount) bool { return m.Target == dir })
	})
}

// tmpfs mounts the writable directories, and covers the volumes that the image
// declares: the engine would put them on the host's disk, without a bound and
// writable in spite of the read-only root.
func tmpfs(spec sandbox.Spec) map[string]string {
	options := strings.Join([]string{
		"rw", "exec", "nosuid", "nodev",
		"size=" + strconv.FormatInt(spec.Limits.Tmp, 10),
		"nr_inodes=" + strconv.FormatInt(inodes(spec.Limits.Tmp), 10),
		"mode=1777",
		// mode is the only option that an existing directory of the image overrides.
		fmt.Sprintf("uid=%d,gid=%d", spec.User.UID, spec.User.GID),
	}, ",")
	all := map[string]string{}
	for _, dir := range writableDirs(spec) {
		all[dir] = options
	}
	for _, volume := range spec.Image.Volumes {
		if !slices.ContainsFunc(spec.Mounts, func(m sandbox.Mount) bool { return m.Target == path.Clean(volume) }) {
			all[path.Clean(volume)] = options
		}
	}
	return all
}

// inodes is one for every 4 KiB page, at least enough for a directory tree:
// an inode costs the kernel about as much as a quarter of a page.
func inodes(size int64) int64 { return max(size/4096, 1024) }

func mounts(asked []sandbox.Mount) []mount.Mount {
	list := make([]mount.Mount, 0, len(asked))
	for _, m := range asked {
		list = append(list, mount.Mount{
			Type: mount.TypeBind, Source: m.Source, Target: m.Target, ReadOnly: !m.Writable,
			// The policy did not check what is mounted below the source, and that
			// would stay writable under a read-only mount.
			BindOptions: &mount.BindOptions{Propagation: mount.PropagationRPrivate, NonRecursive: true},
		})
	}
	return list
}
