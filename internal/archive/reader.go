// Package archive moves files as tar archives that someone hostile may have written: it
// reads them with bounds, and writes what is in them below one directory.
//
// The one rule: only regular files and directories, under names without "..", pass. All
// else is refused by name: a link, a device or an absolute name says where to write next.
package archive

import (
	"archive/tar"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	"belljar/sandbox"
)

// Bounds of one archive.
const (
	MaxBytes   = 1 << 30 // of all files together
	MaxEntries = 100_000

	maxName    = 4096 // bytes, as PATH_MAX
	maxElement = 255  // as NAME_MAX
	maxHeaders = 4096 // bytes for each entry, on average
)

const anotherWay = "pack it in the session, for example with tar -czf, and copy that file"

// Entry is a regular file or a directory.
type Entry struct {
	Name    string      // clean and relative; "." is the directory itself
	Mode    fs.FileMode // permissions, and ModeDir
	Size    int64
	ModTime time.Time
}

// Reader reads an archive. It is not safe for concurrent use.
type Reader struct {
	raw     *bounded
	tar     *tar.Reader
	entries int
	bytes   int64 // of the files so far
	seed    maphash.Seed
	seen    map[uint64]bool // by name: it is a directory
}

// NewReader reads from an archive that is not compressed.
func NewReader(from io.Reader) *Reader {
	raw := &bounded{from: from, left: MaxBytes + MaxEntries*maxHeaders}
	return &Reader{raw: raw, tar: tar.NewReader(raw), seed: maphash.MakeSeed(), seen: map[uint64]bool{}}
}

// Read reads the content of the file that Next returned.
func (r *Reader) Read(p []byte) (int, error) {
	n, err := r.tar.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = r.broken(err)
	}
	return n, err
}

// Next returns the next entry, and io.EOF after the last one, when everything was read.
func (r *Reader) Next() (e Entry, err error) {
	for {
		h, err := r.tar.Next()
		if err == io.EOF {
			if _, err := io.Copy(io.Discard, r.raw); err != nil {
				return e, r.broken(err)
			}
			return e, io.EOF
		}
		if err != nil {
			return e, r.broken(err)
		}
		if r.entries++; r.entries > MaxEntries {
			return e, sandbox.Invalid(anotherWay, "more than %d files and directories", MaxEntries)
		}
		if h.Typeflag != tar.TypeXGlobalHeader { // as git archive writes one
			return r.check(h)
		}
	}
}

// broken is why an archive cannot be read: it is wrong itself, unless reading its bytes failed.
func (r *Reader) broken(err error) error {
	if r.raw.failed != nil && !errors.Is(err, tar.ErrHeader) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	return &sandbox.Error{Cause: sandbox.CauseInvalid, Message: "reading the tar archive", Err: err, Hint: "it must be complete, and not compressed"}
}

// check makes an entry of a header.
func (r *Reader) check(h *tar.Header) (e Entry, err error) {
	e = Entry{Mode: fs.FileMode(h.Mode) & fs.ModePerm, ModTime: h.ModTime}
	if e.Name, err = cleanName(h.Name); err != nil {
		return e, err
	}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeGNUSparse:
		e.Size = h.Size
	case tar.TypeDir:
		e.Mode |= fs.ModeDir
	default:
		return e, sandbox.Invalid("only regular files and directories are copied: "+anotherWay, "%.512q is %s", h.Name, kind(h.Typeflag))
	}
	if e.Name == "." && !e.Mode.IsDir() {
		return e, sandbox.Invalid("give it a name", "%.512q is not a file name", h.Name)
	}
	hash := maphash.String(r.seed, e.Name)
	if isDir, again := r.seen[hash]; again && (!isDir || !e.Mode.IsDir()) {
		return e, sandbox.Invalid("write each file once", "%.512q is in the archive twice", h.Name)
	}
	r.seen[hash] = e.Mode.IsDir()
	if e.Size < 0 || e.Size > MaxBytes-r.bytes {
		return e, sandbox.Invalid("copy it in parts", "more than %s, with %.512q", sandbox.FormatSize(MaxBytes), h.Name)
	}
	r.bytes += e.Size
	if y := e.ModTime.Year(); y < 1970 || y > 9999 {
		e.ModTime = time.Time{}
	}
	return e, nil
}

// cleanName is a name without "./" and double or trailing slashes.
func cleanName(name string) (string, error) {
	if len(name) > maxName {
		return "", sandbox.Invalid(fmt.Sprintf("use at most %d bytes", maxName), "the name %.100q… is too long", name)
	}
	if name == "" || name[0] == '/' || strings.Contains(name, "\x00") {
		return "", sandbox.Invalid("only names below one directory are copied", "%.512q is not a relative name", name)
	}
	for element := range strings.SplitSeq(name, "/") {
		if element == ".." {
			return "", sandbox.Invalid("only names below one directory are copied", "%.512q leaves the directory", name)
		}
		if len(element) > maxElement {
			return "", sandbox.Invalid(fmt.Sprintf("use at most %d bytes between slashes", maxElement), "the name %.100q… is too long", name)
		}
	}
	return path.Clean(name), nil
}

func kind(flag byte) string {
	switch flag {
	case tar.TypeSymlink:
		return "a symbolic link"
	case tar.TypeLink:
		return "a hard link"
	case tar.TypeChar, tar.TypeBlock:
		return "a device"
	case tar.TypeFifo:
		return "a FIFO"
	}
	return fmt.Sprintf("of the unknown type %q", flag)
}

// bounded fails, unlike io.LimitReader, when there is more than it may read.
type bounded struct {
	from   io.Reader
	left   int64
	failed error // but not its end
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		b.failed = sandbox.Invalid("copy it in parts", "the archive does not end within %s", sandbox.FormatSize(MaxBytes+MaxEntries*maxHeaders))
		return 0, b.failed
	}
	n, err := b.from.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		b.failed = err
	}
	return n, err
}
