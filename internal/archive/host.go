package archive

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"belljar/sandbox"
)

// Extract writes an archive to a path of this host, as docker cp does: top of the archive
// goes into a directory that exists, under its own name, or gets that path as its name. The
// content of a directory, top ".", goes into the directory that exists.
//
// fill writes the archive. Everything is first written to a directory next to the
// destination, and nothing is in its place before all has arrived. Links that are planted
// below the destination meanwhile lead nowhere else.
func Extract(ctx context.Context, to, top string, fill func(io.Writer) error) error {
	dir, name, mustBe, err := destination(to, top)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	temp, remove, err := Stage(root)
	if err != nil {
		return err
	}
	defer remove()
	arrived := temp + "/files"
	if err := receive(ctx, root, top, arrived, fill); err != nil {
		return err
	}
	about, err := root.Lstat(arrived)
	if err != nil {
		return err
	}
	if about.IsDir() && mustBe == aFile || !about.IsDir() && mustBe == aDir {
		return sandbox.Invalid("choose another destination", "%q is not "+mustBe, to)
	}
	return Place(root, arrived, name)
}

// What must be copied to a destination.
const (
	aFile = "a directory"             // it is a file
	aDir  = "a directory that exists" // it ends with a slash
)

// destination finds the directory to write to, and the name in it.
func destination(to, top string) (dir, name, mustBe string, err error) {
	about, err := os.Stat(to)
	switch {
	case err == nil && about.IsDir():
		return to, top, "", nil
	case err == nil && !about.Mode().IsRegular():
		return "", "", "", sandbox.Invalid("choose another destination, or write a tar archive to stdout: -", "%q is not a regular file", to)
	case err == nil:
		if to, err = filepath.EvalSymlinks(to); err != nil {
			return "", "", "", err
		}
		return filepath.Dir(to), filepath.Base(to), aFile, nil
	case !errors.Is(err, fs.ErrNotExist):
		return "", "", "", err
	}
	if strings.HasSuffix(to, "/") {
		mustBe = aDir
	}
	return filepath.Dir(filepath.Clean(to)), filepath.Base(to), mustBe, nil
}

// receive unpacks what fill writes.
func receive(ctx context.Context, root *os.Root, top, name string, fill func(io.Writer) error) error {
	from, to := io.Pipe()
	filled := make(chan error, 1)
	go func() {
		err := fill(to)
		to.CloseWithError(err)
		filled <- err
	}()
	_, err := Unpack(ctx, NewReader(from), root, top, name)
	from.CloseWithError(err)
	if failed := <-filled; failed != nil {
		return failed // which has err, if that was first
	}
	return err
}

// Stage makes a private directory below root, for what is not complete yet. remove removes
// it, with what is still in it.
func Stage(root *os.Root) (dir string, remove func(), err error) {
	dir = ".belljar-" + strings.ToLower(rand.Text())
	return dir, func() { root.RemoveAll(dir) }, root.Mkdir(dir, 0o700)
}
