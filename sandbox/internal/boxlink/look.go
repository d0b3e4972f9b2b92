package boxlink

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"syscall"

	"belljar/internal/boxinit/wire"
)

// ErrTooLarge is of a file that has more bytes than were allowed.
var ErrTooLarge = errors.New("the file is too large")

var errLook = errors.New("the container's init sent no answer about the files")

// Space is what a file system has left.
type Space struct {
	Type                   int64 // as statfs(2) has it
	FreeBlocks, FreeInodes uint64
}

// look asks for one record a name.
func (l *Link) look(ctx context.Context, r wire.LookRequest, texts int) ([][]string, []error, error) {
	c, err := l.ask(ctx, func(id uint32) error { return l.send(ctx, wire.Look, id, r.Encode(nil)) })
	if err != nil {
		return nil, nil, fmt.Errorf("looking at files by the container's init: %w", err)
	}
	return c.looked(len(r.Names), texts)
}

// looked are the records of that many names, or what is wrong with each.
func (c *call) looked(names, texts int) ([][]string, []error, error) {
	if len(c.records) != names {
		return nil, nil, errLook
	}
	records, errs := make([][]string, names), make([]error, names)
	for i, record := range c.records {
		switch {
		case len(record) == 1:
			n, err := strconv.ParseUint(record[0], 10, 12)
			if err != nil || n == 0 {
				return nil, nil, errLook
			}
			errs[i] = syscall.Errno(n)
		case len(record) < 1+texts || record[0] != "":
			return nil, nil, errLook
		}
		if errs[i] == nil {
			records[i] = record[1:]
		}
	}
	return records, errs, nil
}

// Texts are the beginnings of files, wherever they are mounted, "" for those that cannot be read.
func (l *Link) Texts(ctx context.Context, names ...string) ([]string, error) {
	records, _, err := l.look(ctx, wire.LookRequest{What: wire.LookText, Names: names}, 1)
	if err != nil {
		return nil, err
	}
	return textsOf(records), nil
}

func textsOf(records [][]string) []string {
	texts := make([]string, len(records))
	for i, record := range records {
		if record != nil {
			texts[i] = record[0]
		}
	}
	return texts
}

// ImageFile reads a file of the image, of at most that many bytes. It is nil if there is none.
func (l *Link) ImageFile(ctx context.Context, name string, most int64) (text []byte, err error) {
	for int64(len(text)) <= most {
		records, errs, err := l.look(ctx, wire.LookRequest{What: wire.LookText, Image: true, Offset: uint32(len(text)), Names: []string{name}}, 1)
		switch {
		case err != nil:
			return nil, err
		case missing(errs[0]):
			return nil, nil
		case errs[0] != nil:
			return nil, errs[0]
		}
		text = append(text, records[0][0]...)
		if len(records[0][0]) < wire.MaxText {
			if text == nil {
				text = []byte{}
			}
			break
		}
	}
	if int64(len(text)) > most {
		return nil, ErrTooLarge
	}
	return text, nil
}

// ImageModes are the modes of files of the image, of what a link leads to with fs.ModeSymlink, and
// fs.ModeIrregular where there is nothing.
func (l *Link) ImageModes(ctx context.Context, names []string) ([]fs.FileMode, error) {
	records, errs, err := l.look(ctx, wire.LookRequest{What: wire.LookMode, Image: true, Names: names}, 1)
	if err != nil {
		return nil, err
	}
	modes := make([]fs.FileMode, len(names))
	for i := range names {
		switch {
		case missing(errs[i]):
			modes[i] = fs.ModeIrregular
		case errs[i] != nil:
			return nil, errs[i]
		default:
			modes[i] = modeOf(records[i])
		}
	}
	return modes, nil
}

// missing reports whether a path leads nowhere in the image. What is mounted is not of the image.
func missing(err error) bool {
	return errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EXDEV)
}

// modeOf is the mode of a file, and, where that is a link, of what it leads to.
func modeOf(record []string) (mode fs.FileMode) {
	for _, text := range record {
		n, err := strconv.ParseUint(text, 10, 32)
		kind := n & syscall.S_IFMT
		switch {
		case err != nil, n == 0:
			return mode | fs.ModeIrregular
		case kind == syscall.S_IFLNK:
			mode = fs.ModeSymlink
			continue
		case kind == syscall.S_IFDIR:
			mode |= fs.ModeDir
		case kind != syscall.S_IFREG:
			mode |= fs.ModeIrregular
		}
		return mode | fs.FileMode(n&0o777)
	}
	return mode | fs.ModeIrregular
}

// Spaces is what is left where these directories are, zero where that is unknown.
func (l *Link) Spaces(ctx context.Context, dirs []string) ([]Space, error) {
	records, _, err := l.look(ctx, wire.LookRequest{What: wire.LookSpace, Names: dirs}, 1)
	if err != nil {
		return nil, err
	}
	return spacesOf(records)
}

func spacesOf(records [][]string) ([]Space, error) {
	spaces := make([]Space, len(records))
	for i, record := range records {
		if record == nil {
			continue
		}
		if _, err := fmt.Sscan(record[0], &spaces[i].Type, &spaces[i].FreeBlocks, &spaces[i].FreeInodes); err != nil {
			return nil, errLook
		}
	}
	return spaces, nil
}
