package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"syscall"

	"belljar/internal/target"
	"belljar/sandbox"
)

// maxDepth is how many directories of a path are looked up in an image.
const maxDepth = 32

// checkMountedDir checks a working directory that is in a mount. A relative one must
// stay in the workspace, also through links. Where a link of an absolute one leads
// out of the mount is known in the container only, as is all of a volume.
func checkMountedDir(c sandbox.Command, relative bool) error {
	over, ok := innermost(c)
	if !ok || target.Volume(over.Source) || c.Dir != path.Clean(c.Dir) || holdsMount(c, c.Dir) {
		return nil
	}
	name, err := filepath.Rel(over.Target, c.Dir)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(over.Source)
	if err != nil {
		if info, failed := os.Stat(over.Source); failed == nil && !info.IsDir() {
			return sandbox.Invalid("use a directory outside that mount", "working directory %q is in the mount of %q, which is a file", c.Dir, over.Source)
		}
		if !relative {
			return nil
		}
		return &sandbox.Error{Cause: sandbox.CauseInvalid, Message: fmt.Sprintf("checking working directory %q in mount source %q", c.Dir, over.Source), Err: err, Hint: "mount a directory that belljar can read"}
	}
	defer root.Close()
	info, err := root.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return sandbox.Invalid(fmt.Sprintf("create it on this host first: mkdir -p %s", filepath.Join(over.Source, name)), "working directory %q does not exist in %q, which is mounted at %s", c.Dir, over.Source, over.Target)
	case err != nil && !relative:
		return nil
	case err != nil:
		return &sandbox.Error{Cause: sandbox.CauseDenied, Message: fmt.Sprintf("working directory %q", c.Dir), Err: err, Hint: "it must stay in workdir, also through links"}
	case !info.IsDir():
		return sandbox.Invalid("name a directory", "working directory %q is a file", c.Dir)
	}
	return nil
}

// innermost is the mount that a command's working directory is in.
func innermost(c sandbox.Command) (over sandbox.Mount, ok bool) {
	for _, m := range c.Mounts {
		if target.Within(m.Target, c.Dir) && len(m.Target) > len(over.Target) {
			over, ok = m, true
		}
	}
	return over, ok
}

// holdsMount reports whether something is mounted below dir, which then exists.
func holdsMount(c sandbox.Command, dir string) bool {
	return slices.ContainsFunc(c.Mounts, func(m sandbox.Mount) bool { return m.Target != dir && target.Within(dir, m.Target) })
}

// checkNewDir refuses a working directory that does not exist in a container that is
// made for the command: not in its image, nor in its empty directories in memory. What
// cannot be known, as where a link leads, shows when the command starts.
func (h *upkeep) checkNewDir(ctx context.Context, c sandbox.Command, image sandbox.Image) error {
	if _, mounted := innermost(c); mounted || c.Dir != path.Clean(c.Dir) || holdsMount(c, c.Dir) {
		return nil
	}
	empty := ""
	for _, dir := range slices.Concat([]string{"/tmp", "/work"}, c.Tmpfs, image.Volumes) {
		switch dir = path.Clean(dir); {
		case target.Within(c.Dir, dir):
			return nil
		case target.Within(dir, c.Dir):
			empty = dir
		}
	}
	if empty != "" {
		return sandbox.Invalid(target.DirHint, "working directory %q does not exist: %q is empty in a new container", c.Dir, empty)
	}
	return h.checkImageDir(ctx, c.Dir, image)
}

func (h *upkeep) checkImageDir(ctx context.Context, dir string, image sandbox.Image) error {
	var names []string
	for name := dir; name != "/"; name = path.Dir(name) {
		names = append(names, name)
	}
	if len(names) > maxDepth {
		return nil
	}
	slices.Reverse(names)
	modes, err := h.modes(ctx, image, names)
	if err != nil {
		return nil //nolint:nilerr // whatever the engine has to say, it says when the container is made
	}
	for i, mode := range modes {
		switch {
		case mode&fs.ModeSymlink != 0:
			return nil
		case mode&fs.ModeIrregular != 0:
			return sandbox.Invalid(target.DirHint, "working directory %q does not exist in image %q", dir, image.Reference)
		case !mode.IsDir():
			return sandbox.Invalid(target.DirHint, "working directory %q cannot be entered: in image %q, %q is a file", dir, image.Reference, names[i])
		}
	}
	return nil
}
