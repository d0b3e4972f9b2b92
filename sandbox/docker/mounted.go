package docker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"belljar/sandbox"

	"golang.org/x/sys/unix"
)

// identity tells files apart whatever they are called.
type identity struct{ dev, ino uint64 }

// sources identifies what is about to be mounted. The paths were resolved when
// they were judged; a link in one by now is a swap.
func sources(mounts []sandbox.Mount) ([]identity, error) {
	var all []identity
	for _, m := range mounts {
		id, err := identify(unix.AT_FDCWD, m.Source, unix.RESOLVE_NO_SYMLINKS)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, engineError(nil, "mount source %q does not exist", m.Source).as(sandbox.CauseInvalid).hint("create it first")
		}
		if err != nil {
			return nil, engineError(err, "mount source %q changed after it was judged", m.Source).as(sandbox.CauseDenied).hint("nothing may write to the directories above a mount's source")
		}
		all = append(all, id)
	}
	return all, nil
}

// checkMounted holds what was mounted to what was judged: between the two, a
// command with a writable mount could have put a link into the engine's way.
func (b *box) checkMounted(judged []identity) error {
	if b.group == nil || len(judged) == 0 {
		return nil
	}
	root, err := os.Open(fmt.Sprintf("/proc/%d/root", b.init))
	if err != nil {
		return nil // not ours to look at, as for a user other than root
	}
	defer root.Close()
	for i, m := range b.spec.Mounts {
		id, err := identify(int(root.Fd()), strings.TrimPrefix(m.Target, "/"), unix.RESOLVE_IN_ROOT|unix.RESOLVE_NO_MAGICLINKS)
		if err != nil || id != judged[i] {
			return engineError(err, "mount source %q changed while it was mounted", m.Source).as(sandbox.CauseDenied).hint("nothing may write to the directories above a mount's source")
		}
	}
	return nil
}

func identify(dir int, path string, resolve uint64) (identity, error) {
	fd, err := unix.Openat2(dir, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: resolve})
	if err != nil {
		return identity{}, err
	}
	defer unix.Close(fd)
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil {
		return identity{}, err
	}
	return identity{s.Dev, s.Ino}, nil
}
