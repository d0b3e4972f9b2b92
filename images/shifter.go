package images

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

const (
	// sharedIDs are the users that a container has of its own. Those of all others are one user's, as where the kernel maps them.
	sharedIDs  = 1 << 16
	overflowID = 65534

	copyPart = 64 << 20 // bytes that are copied before it is looked whether to go on
)

// shifter copies a tree of directories, files and links that no one changes, for other users.
type shifter struct {
	from, to string
	first    uint32
	links    map[uint64]string // the copies of files with several names, by inode
	dirs     []string          // whose times and modes are set last: files are still made in them
}

func (s *shifter) copyAll(ctx context.Context) error {
	err := filepath.WalkDir(s.from, func(name string, _ fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		return s.copyOne(ctx, name)
	})
	for _, name := range slices.Backward(s.dirs) {
		if err == nil {
			err = s.settle(name)
		}
	}
	return err
}

// target is where a file's copy is.
func (s *shifter) target(name string) string { return s.to + name[len(s.from):] }

func (s *shifter) copyOne(ctx context.Context, name string) error {
	var about unix.Stat_t
	if err := unix.Lstat(name, &about); err != nil {
		return err
	}
	to := s.target(name)
	switch about.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		s.dirs = append(s.dirs, name)
		return os.Mkdir(to, 0o700)
	case unix.S_IFLNK:
		target, err := os.Readlink(name)
		if err == nil {
			err = os.Symlink(target, to)
		}
		if err != nil {
			return err
		}
	case unix.S_IFREG:
		if other, known := s.links[about.Ino]; known {
			return os.Link(other, to)
		}
		if about.Nlink > 1 {
			s.links[about.Ino] = to
		}
		if err := copyFile(ctx, name, to); err != nil {
			return err
		}
	default:
		return fmt.Errorf("%q is neither a file, a directory nor a link", name)
	}
	return s.settle(name)
}

// settle gives a copy its owner, mode and time.
func (s *shifter) settle(name string) error {
	var about unix.Stat_t
	if err := unix.Lstat(name, &about); err != nil {
		return err
	}
	to := s.target(name)
	err := os.Lchown(to, s.shifted(about.Uid), s.shifted(about.Gid))
	if err == nil && about.Mode&unix.S_IFMT != unix.S_IFLNK {
		err = unix.Chmod(to, about.Mode&0o7777)
	}
	if err == nil {
		err = unix.UtimesNanoAt(unix.AT_FDCWD, to, []unix.Timespec{about.Atim, about.Mtim}, unix.AT_SYMLINK_NOFOLLOW)
	}
	return err
}

func (s *shifter) shifted(id uint32) int {
	if id >= sharedIDs {
		id = overflowID
	}
	return int(s.first + id)
}

func copyFile(ctx context.Context, from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	for err == nil {
		if err = ctx.Err(); err == nil {
			_, err = io.CopyN(out, in, copyPart) // by the kernel, which may share the blocks
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return errors.Join(err, out.Close())
}
