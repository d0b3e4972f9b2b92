package docker

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/internal/lockdown"

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

// The seccomp profiles as the engine takes them: of containers without a root user and with one.
var (
	plainProfile = sync.OnceValues(func() (string, error) { return encoded(lockdown.Seccomp(false)) })
	rootProfile  = sync.OnceValues(func() (string, error) { return encoded(lockdown.Seccomp(true)) })
)

func seccompProfile(root bool) (string, error) {
	if root {
		return rootProfile()
	}
	return plainProfile()
}

func encoded(profile *seccomp.Seccomp) (string, error) {
	text, err := json.Marshal(profile)
	if err != nil {
		return "", fmt.Errorf("encoding the seccomp profile: %w", err)
	}
	return string(text), nil
}

// containerConfig overrides all that an image could set.
func containerConfig(spec sandbox.Spec, labels map[string]string, endsWithUs bool) *container.Config {
	config := &container.Config{
		Image:       spec.Image.ID,
		User:        fmt.Sprintf("%d:%[1]d", lockdown.KeeperFor(spec.User)),
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
// nearly every image sets, gets the engine's default back. A command's own variables replace
// the others. They are set on the container so that no gate has to read them with each command.
func environ(image sandbox.Image) []string { return slices.Concat(image.EnvNames, lockdown.Env) }

// hostConfig is the lock-down. Every line of it has a test that looks from
// inside the container.
func hostConfig(spec sandbox.Spec) (*container.HostConfig, error) {
	profile, err := seccompProfile(spec.Root)
	if err != nil {
		return nil, err
	}
	yes := true
	return &container.HostConfig{
		AutoRemove:     true,
		Init:           &yes,
		RestartPolicy:  container.RestartPolicy{Name: container.RestartPolicyDisabled},
		LogConfig:      container.LogConfig{Type: "none"},
		CapDrop:        []string{"ALL"},
		SecurityOpt:    []string{"no-new-privileges", "seccomp=" + profile},
		ReadonlyRootfs: spec.Limits.Disk == 0,
		Tmpfs:          lockdown.Tmpfs(spec),
		Mounts:         mounts(spec.Mounts),
		ShmSize:        spec.Limits.Tmp,
		NetworkMode:    container.NetworkMode(spec.Network),
		IpcMode:        container.IPCModePrivate,
		CgroupnsMode:   container.CgroupnsModePrivate,
		OomScoreAdj:    lockdown.OOMScore,
		Runtime:        spec.Runtime,
		MaskedPaths:    lockdown.MaskedPaths,
		ReadonlyPaths:  lockdown.ReadonlyPaths,
		Resources:      resources(spec.Limits),
	}, nil
}

func resources(l sandbox.Limits) container.Resources {
	return container.Resources{
		Memory:     l.Memory,
		MemorySwap: l.Memory, // memory and swap together: no swap
		NanoCPUs:   int64(l.CPUs * 1e9),
		PidsLimit:  &l.Pids,
		Ulimits:    ulimits(l),
	}
}

// ulimits are only those of the lock-down: all others are the engine's own, which may not have the rights to raise them.
func ulimits(l sandbox.Limits) (list []*units.Ulimit) {
	for _, r := range lockdown.Rlimits(l) {
		list = append(list, &units.Ulimit{Name: r.Name, Soft: r.Soft, Hard: r.Hard})
	}
	return list
}

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
