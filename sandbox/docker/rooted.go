package docker

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"belljar/internal/boxinit"
	"belljar/sandbox"
	"belljar/sandbox/internal/lockdown"

	"github.com/docker/docker/api/types/system"
	"golang.org/x/sys/unix"
)

// How root is contained: sandbox.ContainerInfo.Root.
const (
	byUserns = "userns"
	byGVisor = "gvisor"
)

// checkRoot refuses root that would be the host's, and a root file system that could be written to without a bound, with
// what is missing. It returns how root is contained, "" where no command may be root.
//
// Both take an init of ours. A keeper could be stopped by such a root, and would then not end with this process; and what the
// engine starts in a container reads its /etc/passwd and /etc/group, which must not be a command's.
func (e *Engine) checkRoot(ctx context.Context, spec sandbox.Spec) (by string, err error) {
	switch {
	case spec.User.UID < 0, spec.User.UID == 0 && !spec.Root:
		return "", rootError()
	case !spec.Root && spec.Limits.Disk == 0:
		return "", nil
	}
	if _, err := e.chooseInit(spec.Runtime); err != nil {
		return "", initMissing(err)
	}
	ctx, cancel := context.WithTimeout(ctx, e.callTime())
	defer cancel()
	info, err := e.client.Info(ctx)
	if err != nil {
		return "", engineError(err, "asking the engine how it contains root").Hint("see: belljar doctor")
	}
	name := cmp.Or(spec.Runtime, info.DefaultRuntime)
	if spec.Root {
		if by = containedBy(info, name); by == "" {
			return "", engineError(nil, "root in a container would be root on the host: this engine maps no users, and runtime %s is not gVisor's", name).As(sandbox.CauseInvalid).
				Hint(`set "userns-remap" in the engine's daemon.json, use runtime runsc or engine.kind oci, or another user`)
		}
	}
	if spec.Limits.Disk > 0 {
		err = e.checkLayer(info, name, spec.Network)
	}
	return by, err
}

// CheckRoot says why Create would refuse a container for its root user or its writable root file system. Of spec it takes the
// user, runtime, network and limits.
func (e *Engine) CheckRoot(ctx context.Context, spec sandbox.Spec) error {
	_, err := e.checkRoot(ctx, spec)
	return err
}

func initMissing(why error) error {
	return engineError(why, "a root user, and a writable root file system, take belljar's own init in the container").As(sandbox.CauseInvalid).
		Hint("see: belljar doctor; or use engine.kind oci")
}

// containedBy says how an engine contains root under a runtime, "" if it does not.
func containedBy(info system.Info, runtime string) string {
	switch {
	case isGVisor(info, runtime):
		return byGVisor
	case sharesKernel(runtime) && slices.ContainsFunc(info.SecurityOptions, func(o string) bool {
		return slices.Contains(strings.Split(o, ","), "name=userns")
	}):
		return byUserns
	}
	return ""
}

func isGVisor(info system.Info, runtime string) bool {
	r := info.Runtimes[runtime]
	return strings.HasPrefix(path.Base(r.Path), "runsc") || strings.HasPrefix(cmp.Or(r.Type, runtime), "io.containerd.runsc.")
}

// checkContained compares the container with what the engine says to do, and was asked for, where this host sees it.
func (b *box) checkContained() error {
	h, here := b.inspector.(*hostInspector)
	if !here {
		return nil
	}
	if err := b.checkBound(h); err != nil || b.root != byUserns {
		return err
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/uid_map", h.first))
	if err != nil {
		return engineError(err, "reading the container's user IDs").Hint("run the command again")
	}
	if !boxinit.OwnUsers(string(text)) {
		return engineError(nil, "root in the container is root on the host, though the engine says to map users").As(sandbox.CauseInvalid).
			Hint("check userns-remap in the engine's daemon.json")
	}
	return nil
}

// checkBound compares the size of the root file system with its limit.
func (b *box) checkBound(h *hostInspector) error {
	if b.spec.Limits.Disk == 0 {
		return nil
	}
	root := h.root()
	if root == nil {
		return endedError()
	}
	defer root.Close()
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(root.Fd()), &fs); err != nil {
		return engineError(err, "looking at the size of the container's root file system").Hint("see: belljar doctor")
	}
	if size := int64(fs.Blocks) * fs.Bsize; size > b.spec.Limits.Disk+fs.Bsize {
		return engineError(nil, "the container's root file system has %s, more than limits.disk", humanSize(size)).Hint("see: belljar doctor")
	}
	return nil
}

// byInitOnly reports whether the engine may start nothing in the container: see checkRoot.
func (b *box) byInitOnly() bool { return b.root != "" || b.spec.Limits.Disk > 0 }

// environ are the container's own variables, for a user's commands.
func (b *box) environ(u sandbox.User) []string {
	if u.UID == 0 && b.spec.Limits.Disk > 0 {
		return append(slices.Clone(b.init.env), "HOME=/root")
	}
	return b.init.env
}

// capabilities are what a container's init begins with. It gives up SETPCAP, its user 0 and what no command may have
// before it starts one.
func capabilities(root bool) []string {
	if !root {
		return initCaps
	}
	caps := make([]string, 0, len(lockdown.RootCapabilities))
	for _, c := range lockdown.RootCapabilities {
		caps = append(caps, strings.TrimPrefix(c, "CAP_"))
	}
	slices.Sort(caps)
	return caps
}
