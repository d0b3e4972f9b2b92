package oci

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"belljar/sandbox/internal/lockdown"
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

// containRoot gives a container users of its own: its user 0 is the host's user ids, who is no one. The namespace is
// there: one that the runtime made would belong to the host's root.
func containRoot(s *specs.Spec, ids int) {
	mapping := []specs.LinuxIDMapping{{ContainerID: 0, HostID: uint32(ids), Size: userns.Size}}
	s.Linux.UIDMappings, s.Linux.GIDMappings = mapping, mapping
	s.Linux.Namespaces = append(s.Linux.Namespaces, specs.LinuxNamespace{Type: specs.UserNamespace, Path: filepath.Join(rootedDir, usersFile)})
	root := lockdown.RootCapabilities
	s.Process.Capabilities = &specs.LinuxCapabilities{Bounding: root, Effective: root, Permitted: root}
}

// cloneRoot clones the image's root. A container with a root user gets its user IDs first, and the image's
// files are mapped to them, or copied.
func (m *making) cloneRoot(ctx context.Context, root int) (err error) {
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
	pool := userns.Pool{Dir: idsDir, Spans: spans}
	if err := m.take(pool); err != nil {
		return err
	}
	m.trees.root, err = m.ids.Clone(root)
	if errors.Is(err, userns.ErrUnmapped) {
		return m.copyRoot(ctx, pool)
	}
	return err
}

// take takes user IDs. runc sets rlimits from outside the user namespace: without CAP_SYS_RESOURCE, only the
// namespace's owner may.
func (m *making) take(pool userns.Pool, preferred ...int) (err error) {
	if m.ids, err = pool.Take(preferred...); err == nil && filepath.Base(m.runtime) != "crun" && !mayRaise() {
		m.ids.Owner = 0
	}
	return err
}

// copyRoot has the image's files copied for the container's users, where the kernel does not map them. IDs that there
// is a copy for are taken first.
func (m *making) copyRoot(ctx context.Context, pool userns.Pool) error {
	m.ids.Close()
	m.ids = nil
	dir, held, err := m.engine.config.Roots.Shifted(ctx, m.spec.Image.ID, func(made []int) (first int, err error) {
		if err = m.take(pool, made...); err != nil {
			return 0, err
		}
		return m.ids.First, nil
	})
	if err != nil {
		return err
	}
	m.held.Close() // this holds the image, too
	m.held, m.dir = held, dir
	root, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		defer unix.Close(root)
		m.trees.root, err = clone(root)
	}
	if err != nil {
		return engineError(err, "preparing the root of image %q", m.spec.Image.Reference).Hint("see: belljar doctor")
	}
	return nil
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
	var err error
	if l.namespace, err = m.ids.Namespace(); err != nil {
		return err
	}
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
