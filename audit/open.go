package audit

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"belljar/sandbox"
)

// open opens the file at the end of its chain. What a process that was killed
// left is seen to; what nobody of us would leave is an error.
func (l *Log) open(h *head) error {
	if h.Boot == "" { // there was none: it comes before the file, or its loss would not show
		if err := h.write(); err != nil {
			return failed(err, "writing the audit's head")
		}
	}
	file, size, err := openOwn(l.File, os.O_RDWR|os.O_APPEND)
	h.log = file
	missing := errors.Is(err, fs.ErrNotExist)
	switch {
	case err != nil && !missing:
		return err
	case !missing && h.Length <= size && h.isIn(file):
	case missing && h.Seq == 0 || l.wasRotated(h):
		h.Length, h.Line = 0, 0
	case missing:
		return broken(l.File, "it is gone")
	case h.rebooted():
		return l.salvage(h, size)
	default:
		return broken(l.File, "its last record is not the one that was written last, number %d", h.Seq)
	}
	if missing {
		h.log, _, err = openOwn(l.File, os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_EXCL)
		return err
	}
	if size == h.Length {
		return nil
	}
	return l.adopt(h, size)
}

// wasRotated tells whether the file that the head is of is the newest of the
// rotated ones: who rotated it was killed before it wrote another record.
func (l *Log) wasRotated(h *head) bool {
	if h.Seq == 0 {
		return false
	}
	file, size, err := openOwn(rotated(l.File, 1), os.O_RDONLY)
	if err != nil {
		return false
	}
	defer file.Close()
	return size == h.Length && h.isIn(file)
}

// adopt takes what the head does not know of: a record that was written before
// the head could be, or the beginning of one. As nobody writes before that is
// settled, it is not more; unless the machine stopped, and the head was not
// written to its disk.
func (l *Log) adopt(h *head, size int64) error {
	c := chain{seq: h.Seq, sum: h.SHA256}
	found, err := c.walk(h.log, h.Length, size)
	if err != nil {
		return failed(err, "reading the audit file")
	}
	if !h.rebooted() && (found.records > 1 || c.torn.any() && found.ended) {
		return broken(l.File, "%d bytes after record %d were not written by belljar", size-h.Length, h.Seq)
	}
	return l.settle(h, c, found, size)
}

// salvage goes on after a stop of the machine that left less of the file than
// the head says. How much is lost is written down.
func (l *Log) salvage(h *head, size int64) error {
	c := newChain()
	if exists(rotated(l.File, 1)) {
		var err error
		if c, err = firstOf(h.log); err != nil {
			return broken(l.File, "%v", err)
		}
	}
	found, err := c.walk(h.log, 0, size)
	if err != nil {
		return failed(err, "reading the audit file")
	}
	if size >= h.Length || c.seq >= h.Seq || c.torn.any() && found.ended {
		return broken(l.File, "it was changed after record %d", c.seq)
	}
	return l.settle(h, c, found, size)
}

// settle makes the end of the chain what was found, with a mark where
// something is missing.
func (l *Log) settle(h *head, c chain, found tail, size int64) error {
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
			return fmt.Errorf("encoding an audit mark: %w", err)
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
		return failed(errors.Join(err, h.log.Truncate(size)), "mending the audit file")
	}
	return nil
}

// tail is what was found at a file's end.
type tail struct {
	records int
	last    int64 // bytes of the last line, with its end
	ended   bool  // by a line's end
}

// walk takes the lines of a part of a file.
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
			c.torn.add(in.line)
		}
	}
}

var errLong = fmt.Errorf("a line is over %d bytes", maxLine)

// firstOf is the chain as the first record of a file has it.
func firstOf(f io.ReaderAt) (chain, error) {
	in := newLines(io.NewSectionReader(f, 0, 1<<62))
	for {
		if err := in.next(); err != nil {
			return chain{}, fmt.Errorf("looking for its first record: %w", err)
		}
		if m, ok := parse(in.line); ok {
			return m.before(), nil
		}
	}
}
