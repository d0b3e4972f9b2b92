package oci

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"belljar/sandbox"
	"belljar/sandbox/internal/imagefile"

	"golang.org/x/sys/unix"
)

// Files implements sandbox.Engine.
func (e *Engine) Files(ctx context.Context, image sandbox.Image, names []string, most int64) (files [][]byte, err error) {
	err = e.inImage(ctx, image, func(root int) (err error) {
		files, err = imagefile.Read(image, names, func(name string) ([]byte, error) { return readFile(root, name, most) })
		return err
	})
	return files, err
}

// Modes implements sandbox.Engine.
func (e *Engine) Modes(ctx context.Context, image sandbox.Image, names []string) (modes []fs.FileMode, err error) {
	err = e.inImage(ctx, image, func(root int) (err error) {
		modes, err = imagefile.Modes(image, names, func(name string) (fs.FileMode, error) { return modeOf(root, name) })
		return err
	})
	return modes, err
}

// inImage calls look with the image's root.
func (e *Engine) inImage(ctx context.Context, image sandbox.Image, look func(root int) error) error {
	dir, held, err := e.config.Roots.Root(ctx, image.ID)
	if err != nil {
		return err
	}
	defer held.Close()
	root, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return engineError(err, "opening the root of image %q", image.Reference).OfImage("run the command again")
	}
	defer unix.Close(root)
	return look(root)
}

// inRoot opens a file of an image: links lead within it.
func inRoot(root int, name string, flags, resolve uint64) (*os.File, error) {
	fd, err := unix.Openat2(root, "./"+strings.TrimPrefix(path.Clean("/"+name), "/"), &unix.OpenHow{
		Flags: flags | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS | resolve,
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// missing reports whether a path leads nowhere.
func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) }

// readFile reads a file of an image, nil where there is none.
func readFile(root int, name string, most int64) ([]byte, error) {
	look, err := inRoot(root, name, unix.O_PATH, 0)
	if missing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer look.Close()
	switch info, err := look.Stat(); {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("it is not a regular file")
	case info.Size() > most:
		return nil, fmt.Errorf("it is larger than %d bytes", most)
	}
	file, err := os.Open(fdPath(look)) // now known to be no FIFO
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, most))
}

// modeOf is the mode of a file of an image, of what a link leads to, with ModeSymlink.
func modeOf(root int, name string) (mode fs.FileMode, err error) {
	link, err := inRoot(root, name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err == nil {
		info, err := link.Stat()
		link.Close()
		if err != nil {
			return 0, err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			return info.Mode(), nil
		}
		mode = fs.ModeSymlink
	}
	file, err := inRoot(root, name, unix.O_PATH, 0)
	switch {
	case errors.Is(err, unix.ELOOP):
		return fs.ModeSymlink | fs.ModeIrregular, nil
	case missing(err):
		return mode | fs.ModeIrregular, nil
	case err != nil:
		return 0, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	return mode | info.Mode(), nil
}
