package spool

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"slices"

	"belljar/sandbox"
)

// streamReader reads one stream, frame by frame.
type streamReader struct {
	source Source
	stream Stream
	next   int64 // the offset of what comes next, in the stream
	merged int64 // the same, among the bytes of both
	left   int64 // of the frame that is read
	opened int64 // where the last segment starts that was read; -1 is none
	from   int64 // the first byte that is wanted, among the bytes of both; 0 where next says it
	file   segmentFile
	window window
}

func newStreamReader(src Source, which Stream, offset int64) *streamReader {
	return &streamReader{source: src, stream: which, next: offset, opened: -1}
}

// at is where the next byte is, as a reader of which counts.
func (s *streamReader) at(which sandbox.Stream) int64 {
	if which == sandbox.Merged {
		return s.merged
	}
	return s.next
}

// ready makes sure that there is a byte to be read; io.EOF says that there is
// none so far.
func (s *streamReader) ready() error {
	for s.left == 0 {
		err := io.EOF
		if s.file != nil {
			err = s.frame()
		}
		if errors.Is(err, io.EOF) {
			err = s.turnOver()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// frame reads the head of the next frame. One that is not there yet, with a byte
// at least, is io.EOF.
func (s *streamReader) frame() error {
	head, err := s.window.peek(frameHead + 1)
	if err != nil {
		return err
	}
	gap, n := binary.Uvarint(head)
	size, m := binary.Uvarint(head[max(0, n):])
	if n < 0 || m < 0 || gap > 1<<60 || size > 1<<60 {
		return errDamaged
	}
	if n == 0 || m == 0 || len(head) <= n+m {
		return io.EOF
	}
	s.window.skip(int64(n + m))
	s.merged += int64(gap)
	s.left = int64(size)
	return nil
}

// skip passes over what was not asked for, in this frame.
func (s *streamReader) skip(n int64) {
	n = min(n, s.left)
	s.window.skip(n)
	s.left -= n
	s.next += n
	s.merged += n
}

// read reads of the frame. A frame is written at once, but may be seen half.
func (s *streamReader) read(p []byte) (int, error) {
	n, err := s.window.read(p[:min(int64(len(p)), s.left)])
	s.left -= int64(n)
	s.next += int64(n)
	s.merged += int64(n)
	return n, err
}

// turnOver moves to a later segment; io.EOF says that there is none so far.
func (s *streamReader) turnOver() error {
	for missed := int64(-1); ; {
		starts, err := s.source.starts(s.stream)
		if err != nil {
			return err
		}
		start := s.later(starts)
		switch {
		case start < 0:
			return io.EOF
		case s.opened < 0 && s.from > 0:
			return s.seek(starts)
		case start == missed:
			return errDamaged // it is listed, and not there
		}
		if s.file != nil {
			// Now that there is a later one nothing more comes to this; but some
			// may have since it was looked at.
			if err := s.frame(); !errors.Is(err, io.EOF) {
				return err
			}
			if err := s.close(); err != nil {
				return err
			}
		}
		if err := s.open(start); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		missed = start // it went meanwhile, and there are later ones
	}
}

// seek opens the last segment that begins before what is wanted, or the first.
func (s *streamReader) seek(starts []int64) error {
	for _, start := range slices.Backward(starts) {
		err := s.open(start)
		if err == nil && s.merged > s.from && start != starts[0] {
			s.opened = -1
			err = s.close()
		}
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if s.file != nil {
			return nil
		}
	}
	return io.EOF
}

// later is where the segment starts that has the next byte or the first after
// it, of those not opened yet; -1 is none.
func (s *streamReader) later(starts []int64) int64 {
	found := int64(-1)
	for _, start := range starts {
		if start > s.opened && (found < 0 || start <= s.next) {
			found = start
		}
	}
	return found
}

func (s *streamReader) open(start int64) error {
	file, err := s.source.open(s.stream, start)
	if err != nil {
		return err
	}
	s.file, s.window = file, window{file: file}
	head, err := s.window.peek(segmentHead)
	if err == nil && len(head) < segmentHead {
		err = io.EOF // it is being made
	}
	if err != nil {
		return errors.Join(err, s.close())
	}
	s.opened, s.next, s.merged = start, start, int64(binary.BigEndian.Uint64(head))
	s.window.skip(segmentHead)
	return nil
}

func (s *streamReader) close() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file = nil
	return err
}

// errDamaged is of files that belljar did not write so.
var errDamaged = errors.New("the stored output is damaged")

// window is a part of a segment's file.
type window struct {
	file io.ReaderAt
	pos  int64 // in the file, of what comes next
	rest []byte
	buf  [4 << 10]byte
}

// peek shows the next bytes, up to n, fewer where there are no more; io.EOF is
// none.
func (w *window) peek(n int) ([]byte, error) {
	if len(w.rest) < n {
		got, err := w.file.ReadAt(w.buf[:], w.pos)
		w.rest = w.buf[:got]
		if got == 0 {
			return nil, err
		}
	}
	return w.rest[:min(n, len(w.rest))], nil
}

func (w *window) skip(n int64) {
	w.pos += n
	w.rest = w.rest[min(n, int64(len(w.rest))):]
}

// read reads at least a byte of those that are there.
func (w *window) read(p []byte) (int, error) {
	if n := copy(p, w.rest); n > 0 {
		w.skip(int64(n))
		return n, nil
	}
	n, err := w.file.ReadAt(p, w.pos)
	w.pos += int64(n)
	if n > 0 {
		err = nil
	}
	return n, err
}
