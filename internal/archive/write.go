package archive

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"strings"

	"belljar/sandbox"
)

// Copy copies what r has into another archive, which has nothing but regular files and
// directories, no owners and no further attributes. If top is not "", all names must be
// top or below it. It returns the number of entries; the archive is not ended.
func Copy(to *tar.Writer, r *Reader, top string) (entries int, err error) {
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return entries, nil
		}
		if err != nil {
			return entries, err
		}
		if top != "" && top != "." && e.Name != top && !strings.HasPrefix(e.Name, top+"/") {
			return entries, sandbox.Invalid("what packs files in the container does not work as tar does", "%.512q was not asked for", e.Name)
		}
		entries++
		if err := e.Write(to, r); err != nil {
			return entries, err
		}
	}
}

// Write adds the entry with its content.
func (e Entry) Write(to *tar.Writer, content io.Reader) error {
	// GNU's format has names as they are: busybox's tar ignores PAX, and in it a name is UTF-8.
	h := &tar.Header{Typeflag: tar.TypeReg, Name: e.Name, Size: e.Size, Mode: int64(e.Mode.Perm()), ModTime: e.ModTime, Format: tar.FormatGNU}
	if e.Mode.IsDir() {
		h.Typeflag = tar.TypeDir
		h.Name += "/"
	}
	if err := to.WriteHeader(h); err != nil {
		return err
	}
	if e.Mode.IsDir() {
		return nil
	}
	_, err := io.CopyN(to, content, e.Size)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// WriteFile adds one file.
func WriteFile(to *tar.Writer, name string, mode fs.FileMode, size int64, content io.Reader) error {
	return Entry{Name: name, Mode: mode.Perm(), Size: size}.Write(to, content)
}
