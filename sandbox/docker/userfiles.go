package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"belljar/sandbox"
	"belljar/sandbox/internal/failure"
	"belljar/sandbox/internal/lockdown"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

// maxUserFile bounds an image's /etc/passwd and /etc/group.
const maxUserFile = 1 << 20

// userFiles are opened by the engine and the runtime, as root, whenever they start
// something in a container, even where the user is a number. Neither checks the type, nor
// has a timeout. On a FIFO the engine itself hangs, and with it every request for the
// container.
var userFiles = []string{"/etc/passwd", "/etc/group"}

// checkUserFiles checks them before the container starts. A stat opens nothing. Images do
// not change, so an image without links is checked once; where a link leads depends on
// the mounts.
func (b *box) checkUserFiles(ctx context.Context) error {
	if b.engine.isSound(b.spec.Image.ID) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	links := false
	for _, file := range userFiles {
		linked, err := b.checkUserFile(ctx, file)
		if err != nil {
			return err
		}
		links = links || linked
	}
	if err := cmp.Or(b.checkHidden(ctx), b.checkGroups(ctx)); err != nil {
		return err
	}
	if !links {
		b.engine.noteSound(b.spec.Image.ID)
	}
	return nil
}

const (
	// soundDir has, in Engine.Dir, an empty file for each image without links that passed the check: for a look, the engine
	// makes the container's mounts, which a belljar for a single command would wait for each time. What passes other checks
	// needs another name.
	soundDir = "checked-images"

	// maxSound is how many images are remembered there.
	maxSound = 1000
)

func (e *Engine) isSound(image string) bool {
	if _, known := e.soundImages.Load(image); known {
		return true
	}
	file := e.soundFile(image)
	if file == "" {
		return false
	}
	_, err := os.Lstat(file)
	if err == nil {
		e.soundImages.Store(image, true)
	}
	return err == nil
}

// noteSound remembers an image. Where that fails, it is checked again.
func (e *Engine) noteSound(image string) {
	e.soundImages.Store(image, true)
	file := e.soundFile(image)
	if file == "" {
		return
	}
	dir := filepath.Dir(file)
	if list, err := os.ReadDir(dir); err == nil && len(list) >= maxSound {
		os.RemoveAll(dir)
	}
	if os.MkdirAll(dir, 0o700) == nil {
		os.WriteFile(file, nil, 0o600)
	}
}

// soundFile is an image's file in soundDir, "" if it can have none.
func (e *Engine) soundFile(image string) string {
	digest, named := strings.CutPrefix(image, "sha256:")
	if e.Dir == "" || !named || filepath.Base(digest) != digest {
		return ""
	}
	return filepath.Join(e.Dir, soundDir, digest)
}

// checkUserFile refuses everything but a small regular file. A missing one is
// fine. A link may lead to a file that nothing hides or changes later.
func (b *box) checkUserFile(ctx context.Context, file string) (link bool, err error) {
	at := file
	for range 2 {
		about, err := b.engine.client.ContainerStatPath(ctx, b.id, at)
		switch {
		case errdefs.IsNotFound(err):
			return link, nil
		case err != nil:
			return link, b.statError(err, file)
		case about.Mode&fs.ModeSymlink == 0:
			return link, b.judgeUserFile(file, about.Mode, about.Size)
		}
		at, link = about.LinkTarget, true // the engine follows all links of the image
		if b.replaced(at) {
			return link, b.userFileError(file, "points to %.256q, which is not in the image", at)
		}
	}
	return link, b.userFileError(file, "is an endless link")
}

// checkHidden refuses an image in which a directory that becomes a mount, where commands can
// write, leads to the user files. Targets that the caller chose are checked when they are mounted.
func (b *box) checkHidden(ctx context.Context) error {
	dirs := slices.Collect(maps.Keys(lockdown.Tmpfs(b.spec)))
	for _, dir := range slices.Concat(dirs, b.spec.Image.Volumes) {
		about, err := b.engine.client.ContainerStatPath(ctx, b.id, dir)
		switch {
		case errdefs.IsNotFound(err):
			continue
		case err != nil:
			return b.statError(err, dir)
		}
		for _, file := range userFiles {
			if about.Mode&fs.ModeSymlink != 0 && below(path.Clean(about.LinkTarget), file) {
				return b.userFileError(file, "is on a mount: %.256q leads there", dir)
			}
		}
	}
	return nil
}

func (b *box) judgeUserFile(file string, mode fs.FileMode, size int64) error {
	switch {
	case mode.Type() == fs.ModeNamedPipe:
		return b.userFileError(file, "is a FIFO: the engine would hang on it")
	case !mode.IsRegular():
		return b.userFileError(file, "is not a regular file")
	case size > maxUserFile:
		return b.userFileError(file, "has %s, more than %s", humanSize(size), humanSize(maxUserFile))
	}
	return nil
}

// replaced reports whether a path no longer shows the image's file once the container runs.
func (b *box) replaced(file string) bool {
	dirs := []string{"/proc", "/sys", "/dev"}
	for dir := range lockdown.Tmpfs(b.spec) {
		dirs = append(dirs, dir)
	}
	for _, m := range b.spec.Mounts {
		dirs = append(dirs, m.Target)
	}
	return slices.ContainsFunc(dirs, func(dir string) bool { return below(dir, file) })
}

// checkUserFilesStay refuses a running container if one of them is, or could be made, on a
// mount. A command could write there, and make a FIFO on which the runtime hangs when
// the next one starts, or add a group. The root is read-only.
func (b *box) checkUserFilesStay() error {
	root := b.inspector.root()
	if root == nil {
		return nil
	}
	defer root.Close()
	for _, file := range userFiles {
		fd, err := unix.Openat2(int(root.Fd()), file, &unix.OpenHow{
			Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_XDEV,
		})
		if err == nil {
			unix.Close(fd)
		}
		if errors.Is(err, unix.EXDEV) {
			return b.userFileError(file, "is on a mount, where commands can write")
		}
	}
	return nil
}

func (b *box) userFileError(file, format string, args ...any) error {
	return engineError(nil, "%s of image %q %s", file, b.spec.Image.Reference, fmt.Sprintf(format, args...)).As(sandbox.CauseImage).
		Hint("make it a regular file in the image, or remove it")
}

// statError explains a stat that failed. The engine makes the container's mounts for it,
// all but tmpfs, and does not report which one it could not make.
func (b *box) statError(err error, file string) error {
	if !errdefs.IsInternal(err) || len(b.spec.Mounts) == 0 {
		return engineError(errors.New(failure.OneLine(err.Error())), "checking %s of image %q", file, b.spec.Image.Reference).
			Hint("see: belljar doctor; is the image's /etc/hosts a regular file?")
	}
	var targets []string
	for _, m := range b.spec.Mounts {
		targets = append(targets, strconv.Quote(m.Target))
	}
	return engineError(nil, "mount target %s: the image has a file where the source is a directory (or the reverse), the target cannot be created, or it may be a link in the image", strings.Join(targets, " or ")).
		As(sandbox.CauseInvalid).Hint("choose a target such as /work/name, without a symbolic link in its path")
}
