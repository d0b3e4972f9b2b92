package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"belljar/sandbox"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

// maxUserFile bounds an image's /etc/passwd and /etc/group.
const maxUserFile = 1 << 20

// userFiles are what the engine and the runtime open, as root, whenever they
// start something in a container, even where the user is a number. Neither looks
// at what it opens, nor bounds how long it takes. In a FIFO the engine itself
// waits for ever, and then whoever asks for the container does, too.
var userFiles = []string{"/etc/passwd", "/etc/group"}

// checkUserFiles looks at them before the container is started. To ask for a
// file's kind opens nothing. An image keeps its files, so that one without links
// is looked at once: where a link leads depends on what is mounted.
func (b *box) checkUserFiles(ctx context.Context) error {
	if _, known := b.engine.plainUsers.Load(b.spec.Image.ID); known {
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
	if !links {
		b.engine.plainUsers.Store(b.spec.Image.ID, true)
	}
	return nil
}

// checkUserFile refuses what is no small regular file. One that is not there is
// none. A link may lead to one that nothing hides or changes later.
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
		if b.moving(at) {
			return link, b.userFileError(file, "leads to %.256q, which is not the image's own", at)
		}
	}
	return link, b.userFileError(file, "is a link without an end")
}

func (b *box) judgeUserFile(file string, mode fs.FileMode, size int64) error {
	switch {
	case mode.Type() == fs.ModeNamedPipe:
		return b.userFileError(file, "is a FIFO, for which the engine would wait for ever")
	case !mode.IsRegular():
		return b.userFileError(file, "is no regular file")
	case size > maxUserFile:
		return b.userFileError(file, "has %d bytes, more than %d", size, maxUserFile)
	}
	return nil
}

// moving tells whether a file's place is not in the image once the container runs.
func (b *box) moving(file string) bool {
	dirs := []string{"/proc", "/sys", "/dev"}
	for dir := range tmpfs(b.spec) {
		dirs = append(dirs, dir)
	}
	for _, m := range b.spec.Mounts {
		dirs = append(dirs, m.Target)
	}
	return slices.ContainsFunc(dirs, func(dir string) bool { return below(dir, file) })
}

// checkUserFilesStay refuses a running container in which they are, or could be
// made, in a mount: a command that can write there has the runtime wait for a FIFO
// when the next one starts, or writes a group for it. The root is read-only.
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
			return b.userFileError(file, "would be where something is mounted, and commands may write")
		}
	}
	return nil
}

func (b *box) userFileError(file, format string, args ...any) error {
	return engineError(nil, "%s of image %q %s", file, b.spec.Image.Reference, fmt.Sprintf(format, args...)).as(sandbox.CauseImage).
		hint("make it a regular file of the image, as it is usual, or leave it out")
}

// statError is of a look that failed. The engine mounts for it what it will for the
// container, all but tmpfs, and does not tell what it was that it could not mount.
func (b *box) statError(err error, file string) error {
	if !errdefs.IsInternal(err) || len(b.spec.Mounts) == 0 {
		return engineError(errors.New(oneLine(err.Error())), "looking at %s of image %q", file, b.spec.Image.Reference).
			hint("see: belljar doctor; is the image's /etc/hosts a regular file?")
	}
	var targets []string
	for _, m := range b.spec.Mounts {
		targets = append(targets, strconv.Quote(m.Target))
	}
	return engineError(nil, "mount target %s: there is a file where the source is a directory, or the other way round, or it cannot be made, or it may be a link of the image", strings.Join(targets, " or ")).
		as(sandbox.CauseInvalid).hint("choose a target such as /work/name, with no link on its way")
}
