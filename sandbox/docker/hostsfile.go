package docker

import (
	"os"
	"path/filepath"
	"slices"

	"belljar/sandbox"
	"belljar/sandbox/internal/lockdown"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
)

// withoutNetwork leaves a container without a network to the runtime alone: it gets
// a network namespace of its own with only lo, as with the engine's "none". For that
// one the engine runs its own program two more times, at 55 ms of CPU time each
// (libnetwork-setkey and set-ipv6). Without it the engine provides no /etc/hosts, and
// hides the image's: ours is mounted instead.
//
// It returns how to undo that, nil if it was not done.
func (e *Engine) withoutNetwork(spec sandbox.Spec, config *container.Config, host *container.HostConfig) (undo func()) {
	taken := slices.ContainsFunc(spec.Mounts, func(m sandbox.Mount) bool { return below(m.Target, "/etc/hosts") })
	if spec.Network != "none" || taken || e.Dir == "" || !e.local() || e.noHosts.Load() || hasSELinux() {
		return nil
	}
	file, err := sharedFile(e.Dir, "hosts", lockdown.Hosts)
	if err != nil {
		return nil // the engine's way works, too
	}
	mounts := host.Mounts
	config.NetworkDisabled = true
	host.Mounts = append(slices.Clone(mounts), readOnly(file, "/etc/hosts"))
	return func() { config.NetworkDisabled, host.Mounts = false, mounts }
}

// hostname is that of containers with a writable root file system: the others have their ID.
const hostname = "belljar"

// withoutFiles keeps the engine's own files out of a container with a writable root file system, where they could be written
// to: they are on its disk, and nothing bounds them. There must be no network.
func (e *Engine) withoutFiles(config *container.Config, host *container.HostConfig) error {
	config.NetworkDisabled, config.Hostname = true, hostname
	file, err := sharedFile(e.Dir, "hostname", hostname+"\n")
	if err != nil {
		return engineError(err, "making a file for containers").Hint("set XDG_STATE_HOME to a writable directory")
	}
	host.Mounts = append(slices.Clone(host.Mounts), readOnly(file, "/etc/hostname"))
	return nil
}

func readOnly(file, target string) mount.Mount {
	return mount.Mount{
		Type: mount.TypeBind, Source: file, Target: target, ReadOnly: true,
		BindOptions: &mount.BindOptions{Propagation: mount.PropagationRPrivate, NonRecursive: true},
	}
}

// hasSELinux reports whether this host's files have SELinux labels, without which
// a container could not read ours.
func hasSELinux() bool {
	_, err := os.Stat("/sys/fs/selinux/enforce")
	return err == nil
}

// sharedFile makes a file in dir, for all containers, and leaves it in place.
func sharedFile(dir, name, text string) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, name)
	info, err := os.Lstat(file)
	if err == nil && info.Mode() == 0o444 {
		if now, err := os.ReadFile(file); err == nil && string(now) == text {
			return file, nil
		}
	}
	fresh, err := os.CreateTemp(dir, name+"-*")
	if err != nil {
		return "", err
	}
	defer os.Remove(fresh.Name())
	_, err = fresh.WriteString(text)
	if err == nil {
		err = fresh.Chmod(0o444)
	}
	fresh.Close()
	if err != nil {
		return "", err
	}
	return file, os.Rename(fresh.Name(), file)
}
