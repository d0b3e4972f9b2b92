package archive

import (
	"archive/tar"
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"syscall"

	"belljar/sandbox"
)

// Pack writes a file or a directory of this host, by its name below root, to an archive,
// in which it has the name top. Links are not followed.
func Pack(ctx context.Context, to *tar.Writer, root *os.Root, name, top string) error {
	p := packer{to: to, root: root, from: name, top: top}
	return fs.WalkDir(root.FS(), name, func(name string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		return p.add(name, d)
	})
}

type packer struct {
	to        *tar.Writer
	root      *os.Root
	from, top string
	entries   int
	bytes     int64
}

func (p *packer) add(name string, d fs.DirEntry) error {
	if p.entries++; p.entries > MaxEntries {
		return sandbox.Invalid(anotherWay, "more than %d files and directories", MaxEntries)
	}
	relative := name
	if p.from != "." {
		relative = "." + name[len(p.from):]
	}
	e := Entry{Name: path.Join(p.top, relative)}
	if d.IsDir() {
		about, err := d.Info()
		if err != nil {
			return err
		}
		e.Mode, e.ModTime = about.Mode(), about.ModTime()
		return e.Write(p.to, nil)
	}
	if !d.Type().IsRegular() {
		return notRegular(name)
	}
	// It may have become a FIFO, whose open would wait.
	file, err := p.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	about, err := file.Stat()
	if err != nil {
		return err
	}
	if !about.Mode().IsRegular() {
		return notRegular(name)
	}
	if p.bytes += about.Size(); p.bytes > MaxBytes {
		return sandbox.Invalid("copy it in parts", "more than %s, with %q", sandbox.FormatSize(MaxBytes), name)
	}
	e.Mode, e.ModTime, e.Size = about.Mode(), about.ModTime(), about.Size()
	if err := e.Write(p.to, file); err != nil {
		return errors.Join(err, p.shrunk(file, e.Size, name))
	}
	return nil
}

// shrunk explains a file that ended too early.
func (p *packer) shrunk(file *os.File, size int64, name string) error {
	if about, err := file.Stat(); err == nil && about.Size() < size {
		return sandbox.Invalid("copy it again", "%q changed while it was read", name)
	}
	return nil
}

func notRegular(name string) error {
	return sandbox.Invalid("only regular files and directories are copied: copy a tar of it with -, or leave it out", "%q is a link or a special file", name)
}
