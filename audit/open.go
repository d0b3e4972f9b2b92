package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"belljar/sandbox"
)

// open opens the file at the end of its chain. It repairs what a killed process
// left; anything that belljar would not leave is an error.
func (l *Log) open(h *head) error {
	if h.Boot == "" { // there was none: it is written before the file, or its loss would not be detected
		if err := h.write(); err != nil {
			return failed(err, "writing the head of", l.File)
		}
	}
	file, size, err := openOwn(l.File, os.O_RDWR|os.O_APPEND)
	h.log = file
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		return err
	}
	fits := !missing && h.Length <= size && h.isIn(file)
	if !fits {
		if fits, err = l.wasRotated(h); err != nil {
			return err
		}
		if fits = fits || missing && h.Seq == 0; fits {
			h.Length, h.Line = 0, 0
		}
	}
	switch {
	case fits || h.rebooted():
	case missing:
		return broken(l.File, "the file is gone")
	default:
		return broken(l.File, "its last record is not record %d, which was written last", h.Seq)
	}
	if missing {
		if h.log, _, err = openOwn(l.File, os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_EXCL); err != nil {
			return err
		}
	}
	switch {
	case !fits:
		return l.salvage(h, size)
	case size > h.Length:
		return l.adopt(h, size)
	}
	return nil
}

// wasRotated reports whether the file that the head describes is the newest of the
// rotated ones: the process that rotated it was killed before it wrote another record.
func (l *Log) wasRotated(h *head) (bool, error) {
	if h.Seq == 0 {
		return false, nil
	}
	file, size, err := openOwn(rotated(l.File, 1), os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer file.Close()
	return size == h.Length && h.isIn(file), nil
}

// adopt accepts what is missing in the head: a record that was written before
// the head was, or the beginning of one. It cannot be more, since no process writes
// before that is repaired; unless the machine stopped, and the head did not
// reach the disk.
func (l *Log) adopt(h *head, size int64) error {
	c := chain{seq: h.Seq, sum: h.SHA256}
	found, err := c.walk(h.log, h.Length, size)
	if err != nil {
		return unread(err, l.File)
	}
	if found.records > 1 && !h.rebooted() || c.torn.foreign {
		return broken(l.File, "%d bytes after record %d were not written by belljar", size-h.Length, h.Seq)
	}
	return l.repair(h, c, found, size)
}

// salvage continues after a stop of the machine that left less of the file than
// the head says: nothing, a part, or NULs in place of the rest. A record says how much is
// lost, so that removing the end of the file on purpose is visible, too.
func (l *Log) salvage(h *head, size int64) error {
	size, err := withoutNULs(h.log, size)
	if err != nil {
		return unread(err, l.File)
	}
	c, err := l.start(h, size)
	if err != nil {
		return err
	}
	found, err := c.walk(h.log, 0, size)
	if err != nil {
		return unread(err, l.File)
	}
	if c.torn.foreign || c.seq > h.Seq || c.seq == h.Seq && c.sum != h.SHA256 {
		return broken(l.File, "it was changed after record %d", c.seq)
	}
	if err := h.log.Truncate(size); err != nil {
		return failed(err, "mending", l.File)
	}
	return l.repair(h, c, found, size)
}

// withoutNULs is the size of a file without the NULs at its end.
func withoutNULs(f io.ReaderAt, size int64) (int64, error) {
	for buffer := make([]byte, 64<<10); size > 0; {
		part := buffer[:min(size, int64(len(buffer)))]
		if _, err := f.ReadAt(part, size-int64(len(part))); err != nil {
			return 0, err
		}
		left := len(bytes.TrimRight(part, "\x00"))
		if size -= int64(len(part) - left); left > 0 {
			break
		}
	}
	return size, nil
}

// start is the chain before the file: according to its first record, or, if it
// has none any more, the end of the file before it.
func (l *Log) start(h *head, size int64) (chain, error) {
	old, err := rotations(l.File)
	if err != nil {
		return chain{}, failed(err, "listing the rotated files of", l.File)
	}
	if len(old) == 0 {
		return newChain(), nil
	}
	if c, err := firstOf(io.NewSectionReader(h.log, 0, size)); err == nil {
		return c, nil
	}
	name := rotated(l.File, old[0])
	file, size, err := openOwn(name, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return chain{}, failed(err, "reading", name)
	} else if err != nil {
		return chain{}, err
	}
	defer file.Close()
	c, err := firstOf(file)
	if err != nil {
		return chain{}, broken(l.File, "%q: %v", name, err)
	}
	if _, err := c.walk(file, 0, size); err != nil {
		return chain{}, unread(err, name)
	}
	return c, nil
}

// unread is the error for a file that could not be read to its end.
func unread(err error, file string) error {
	if errors.Is(err, errLong) {
		return broken(file, "%v", err)
	}
	return failed(err, "reading", file)
}

// repair makes the state that was found the end of the chain, with a mark if
// something is missing.
func (l *Log) repair(h *head, c chain, found tail, size int64) error {
	m := mark{place: place{c.seq + 1, c.sum}, Type: typeTorn, Time: time.Now().UTC(), TornBytes: c.torn.bytes, TornSHA256: c.torn.sum()}
	if h.Seq > c.seq {
		m.Type, m.Lost, m.Seq = typeLost, h.Seq-c.seq, h.Seq+1
	}
	h.ending = ending{Seq: c.seq, SHA256: c.sum, Length: size, Line: found.last}
	var text []byte
	if !found.ended {
		text = []byte("\n")
		h.Line++
	}
	if c.torn.any() || m.Lost > 0 {
		line, err := sandbox.JSON(m)
		if err != nil {
			return failed(err, "encoding a note for", l.File)
		}
		text = append(append(text, line...), '\n')
		h.Seq, h.SHA256, h.Line = m.Seq, digest(line), int64(len(line)+1)
	}
	_, err := h.log.Write(text)
	if err == nil {
		h.Length += int64(len(text))
		err = h.write()
	}
	if err != nil {
		return failed(errors.Join(err, h.log.Truncate(size)), "mending", l.File)
	}
	return nil
}

// tail is the end of a file as found.
type tail struct {
	records int
	last    int64 // bytes of the last line, with its newline
	ended   bool  // with a newline
}

// walk reads the lines of a part of a file.
func (c *chain) walk(f io.ReaderAt, from, to int64) (found tail, err error) {
	found.ended = true
	in := newLines(io.NewSectionReader(f, from, to-from))
	for {
		switch err := in.next(); {
		case errors.Is(err, io.EOF):
			return found, nil
		case err != nil:
			return found, err
		case in.long:
			return found, errLong
		}
		found.last, found.ended = in.size, in.ended
		if m, ok := parse(in.line); ok && c.follows(m, in.line) {
			found.records++
		} else {
			c.torn.add(in.line, in.ended, c.sum)
		}
	}
}

var errLong = fmt.Errorf("a line is longer than %d bytes", maxLine)

// firstOf is the chain according to the first record of a file.
func firstOf(f io.ReaderAt) (chain, error) {
	in := newLines(io.NewSectionReader(f, 0, 1<<62))
	for {
		if err := in.next(); err != nil {
			return chain{}, fmt.Errorf("finding its first record: %w", err)
		}
		if m, ok := parse(in.line); ok {
			return m.before(), nil
		}
	}
}
