package local

import (
	"context"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"belljar/internal/archive"
	"belljar/sandbox"
)

// maxList bounds a listing, in bytes.
const maxList = 64 << 20

// ListFiles implements sandbox.Files.
func (l *Local) ListFiles(ctx context.Context, path sandbox.SessionPath) (list []fs.FileInfo, err error) {
	err = l.transfer(ctx, "ListFiles", path, func(t *transfer) error {
		mark := t.temp + " " // begins each file: names may have line ends
		t.env = append(t.env, "F="+mark+"%f %s %Y %n")
		return t.run(ctx, scriptList, nil, func(out io.Reader) error {
			text, err := io.ReadAll(io.LimitReader(out, maxList+1))
			if err == nil && len(text) > maxList {
				err = sandbox.Invalid("list a directory below it", "the list is longer than %s", sandbox.FormatSize(maxList))
			}
			if err == nil {
				list, err = parseList(string(text), mark)
			}
			return err
		})
	})
	return list, err
}

func parseList(text, mark string) (list []fs.FileInfo, err error) {
	if text == "" {
		return nil, nil
	}
	files := strings.SplitN(text, mark, archive.MaxEntries+2)
	if len(files) > archive.MaxEntries+1 {
		return nil, sandbox.Invalid("list a directory below it", "more than %d files", archive.MaxEntries)
	}
	for _, text := range files[1:] {
		f, ok := parseFile(text)
		if !ok || files[0] != "" {
			return nil, sandbox.Invalid("what lists files in the container does not work as stat does", "the list is not readable at %.100q", text)
		}
		list = append(list, f)
	}
	if len(list) == 0 {
		return nil, sandbox.Invalid("what lists files in the container does not work as stat does", "the list is not readable at %.100q", files[0])
	}
	slices.SortFunc(list, func(a, b fs.FileInfo) int { return strings.Compare(a.Name(), b.Name()) })
	return list, nil
}

// file is a line of a listing.
type file struct {
	name string
	size int64
	mode fs.FileMode
	time time.Time
}

func (f file) Name() string       { return f.name }
func (f file) Size() int64        { return f.size }
func (f file) Mode() fs.FileMode  { return f.mode }
func (f file) ModTime() time.Time { return f.time }
func (f file) IsDir() bool        { return f.mode.IsDir() }
func (f file) Sys() any           { return nil }

// fileTypes are those of the kernel, as inode(7) has them.
var fileTypes = map[uint64]fs.FileMode{
	0o010000: fs.ModeNamedPipe, 0o020000: fs.ModeDevice | fs.ModeCharDevice, 0o040000: fs.ModeDir, 0o060000: fs.ModeDevice,
	0o100000: 0, 0o120000: fs.ModeSymlink, 0o140000: fs.ModeSocket,
}

func parseFile(text string) (f file, ok bool) {
	f, f.name, ok = parseEntry(text)
	return f, ok && f.name != "." && f.name != ".." && len(f.name) <= 255 && !strings.Contains(f.name, "/")
}

// parseEntry reads a line with a name that may be a path.
func parseEntry(text string) (f file, name string, ok bool) {
	fields := strings.SplitN(text, " ", 4)
	if len(fields) < 4 {
		return f, "", false
	}
	bits, err1 := strconv.ParseUint(fields[0], 16, 32)
	size, err2 := strconv.ParseInt(fields[1], 10, 64)
	seconds, err3 := strconv.ParseInt(fields[2], 10, 64)
	kind, known := fileTypes[bits&0o170000]
	if err1 != nil || err2 != nil || err3 != nil || !known || size < 0 {
		return f, "", false
	}
	name, ok1 := strings.CutPrefix(fields[3], "./")
	name, ok2 := strings.CutSuffix(name, "\n")
	if !ok1 || !ok2 || name == "" || strings.Contains(name, "\x00") {
		return f, "", false
	}
	f = file{size: size, mode: kind | fs.FileMode(bits)&fs.ModePerm, time: time.Unix(seconds, 0).UTC()}
	if y := f.time.Year(); y < 0 || y > 9999 { // which JSON cannot have
		f.time = time.Unix(0, 0).UTC()
	}
	for bit, mode := range map[uint64]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if bits&bit != 0 {
			f.mode |= mode
		}
	}
	return f, name, true
}
