package archive

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"belljar/sandbox"
)

// Unpack writes the files of an archive below root, in which nothing of that name may be
// yet: top of the archive becomes name. Set-user-ID bits and owners are left out, and the
// umask applies. It returns how many entries there were.
func Unpack(ctx context.Context, r *Reader, root *os.Root, top, name string) (entries int, err error) {
	for {
		e, err := r.Next()
		if err == nil {
			err = ctx.Err()
		}
		if errors.Is(err, io.EOF) {
			return entries, nil
		}
		if err != nil {
			return entries, err
		}
		entries++
		switch {
		case top == ".":
			e.Name = path.Join(name, e.Name)
		case e.Name == top || strings.HasPrefix(e.Name, top+"/"):
			e.Name = name + e.Name[len(top):]
		default:
			return entries, sandbox.Invalid("copy it with -, and look at it with tar -t", "%.512q was not asked for", e.Name)
		}
		if err := e.unpack(root, r); err != nil {
			return entries, err
		}
	}
}

func (e Entry) unpack(root *os.Root, content io.Reader) error {
	if e.Mode.IsDir() {
		return e.makeDir(root)
	}
	if err := root.MkdirAll(path.Dir(e.Name), 0o777); err != nil {
		return err
	}
	file, err := root.OpenFile(e.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, e.Mode.Perm())
	if err != nil {
		return err
	}
	_, err = io.CopyN(file, content, e.Size)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err = errors.Join(err, file.Close()); err == nil && !e.ModTime.IsZero() {
		err = root.Chtimes(e.Name, e.ModTime, e.ModTime)
	}
	return err
}

// makeDir makes a directory that its owner can fill, and remove.
func (e Entry) makeDir(root *os.Root) error {
	err := root.MkdirAll(path.Dir(e.Name), 0o777)
	if err == nil {
		err = root.Mkdir(e.Name, e.Mode.Perm()|0o700)
	}
	if errors.Is(err, fs.ErrExist) {
		if about, failed := root.Lstat(e.Name); failed == nil && about.IsDir() {
			return nil
		}
	}
	return err
}

// Place moves what Unpack wrote to its name: a file replaces a file as a whole, and a
// directory's files go into a directory that is there already. Nothing is moved if
// something stands in the way, which a link always does.
func Place(root *os.Root, from, to string) error {
	if err := place(root, from, to, false); err != nil {
		return err
	}
	return place(root, from, to, true)
}

func place(root *os.Root, from, to string, move bool) error {
	source, err := root.Lstat(from)
	if err != nil {
		return err
	}
	target, err := root.Lstat(to)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if move {
			return root.Rename(from, to)
		}
		return nil
	case err != nil:
		return err
	case source.IsDir() && target.IsDir():
		return placeAll(root, from, to, move)
	case source.IsDir() || !target.Mode().IsRegular():
		return sandbox.Invalid("remove it, or choose another destination", "%q is in the way", to)
	case move:
		return root.Rename(from, to)
	}
	return nil
}

func placeAll(root *os.Root, from, to string, move bool) error {
	list, err := fs.ReadDir(root.FS(), from)
	for _, d := range list {
		if err == nil {
			err = place(root, path.Join(from, d.Name()), path.Join(to, d.Name()), move)
		}
	}
	return err
}
