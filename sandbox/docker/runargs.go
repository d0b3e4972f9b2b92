package docker

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"belljar/sandbox"

	"github.com/docker/go-units"
)

// RunArgs are the arguments of a `docker run` with the lock-down that spec's
// container has, for comparisons. seccomp is a file that holds the profile.
func RunArgs(spec sandbox.Spec, seccomp string) ([]string, error) {
	if spec.User.UID <= 0 {
		return nil, fmt.Errorf("user %s has no UID here: give UID:GID", spec.User)
	}
	host, err := hostConfig(spec)
	if err != nil {
		return nil, err
	}
	args := []string{
		"run", "--rm", "--init", "--read-only",
		"--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--security-opt", "seccomp=" + seccomp,
		"--user", fmt.Sprintf("%d:%d", spec.User.UID, spec.User.GID),
		"--workdir", spec.Workdir,
		"--network", spec.Network,
		"--ipc", string(host.IpcMode), "--cgroupns", string(host.CgroupnsMode),
		"--log-driver", host.LogConfig.Type,
		"--no-healthcheck", "--stop-signal", "SIGKILL", "--entrypoint", "sh",
		"--memory", decimal(host.Memory), "--memory-swap", decimal(host.MemorySwap), "--shm-size", decimal(host.ShmSize),
		"--cpus", strconv.FormatFloat(spec.Limits.CPUs, 'f', -1, 64),
		"--pids-limit", strconv.FormatInt(spec.Limits.Pids, 10),
		"--oom-score-adj", strconv.Itoa(host.OomScoreAdj),
	}
	for _, u := range host.Ulimits {
		args = append(args, "--ulimit", ulimit(u))
	}
	for _, dir := range slices.Sorted(maps.Keys(host.Tmpfs)) {
		args = append(args, "--tmpfs", dir+":"+host.Tmpfs[dir])
	}
	for _, m := range host.Mounts {
		fields := []string{"type=bind", "source=" + m.Source, "target=" + m.Target, "bind-propagation=rprivate", "bind-nonrecursive"}
		if m.ReadOnly {
			fields = append(fields, "readonly")
		}
		args = append(args, "--mount", strings.Join(fields, ","))
	}
	if spec.Runtime != "" {
		args = append(args, "--runtime", spec.Runtime)
	}
	return append(args, spec.Image.ID), nil
}

// SeccompProfile is the profile that every container gets, as docker run takes
// it from a file.
func SeccompProfile() (string, error) { return seccompProfile(false) }

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

func ulimit(u *units.Ulimit) string { return fmt.Sprintf("%s=%d:%d", u.Name, u.Soft, u.Hard) }
