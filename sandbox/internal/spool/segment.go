package spool

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A segment's file begins with the place of its first byte among those of both
// streams, in segmentHead bytes. Frames follow: how many bytes of the other
// stream came before it since the last frame, and how many bytes it has, as
// unsigned varints, and its bytes.
const (
	segmentHead = 8
	frameHead   = 2 * binary.MaxVarintLen64
)

// segment is a file that is written.
type segment struct {
	start  int64 // in its stream
	size   int64 // bytes of output in it
	merged int64 // after its last frame, among the bytes of both
	disk   int64
	stream Stream
	tail   bool // it is of the stream's end, and may go
	file   *os.File
}

func (s *segment) end() int64 { return s.start + s.size }

// segmentName begins with the stream's name and ends with where it starts.
func segmentName(which Stream, start int64) string {
	return fmt.Sprintf("%s.%016x", which.String(), start)
}

func newSegment(dir string, which Stream, start, at int64) (*segment, error) {
	file, err := os.OpenFile(filepath.Join(dir, segmentName(which, start)), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	s := &segment{start: start, stream: which, merged: at, file: file, disk: segmentHead}
	if _, err := file.Write(binary.BigEndian.AppendUint64(nil, uint64(at))); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return s, nil
}

// smallFrame is of one that is copied, so that it is one write with its head.
const smallFrame = 4 << 10

// append writes a frame. What was written of one that does not fit is taken
// back: a reader may be there.
func (s *segment) append(at int64, p []byte) error {
	var small [frameHead + smallFrame]byte
	n := binary.PutUvarint(small[:], uint64(at-s.merged))
	n += binary.PutUvarint(small[n:], uint64(len(p)))
	size := int64(n + len(p))
	var err error
	if len(p) <= smallFrame {
		_, err = s.file.Write(append(small[:n], p...))
	} else if _, err = s.file.Write(small[:n]); err == nil {
		_, err = s.file.Write(p)
	}
	if err != nil {
		_, seek := s.file.Seek(s.disk, io.SeekStart)
		return errors.Join(err, s.file.Truncate(s.disk), seek)
	}
	s.disk += size
	s.size += int64(len(p))
	s.merged = at + int64(len(p))
	return nil
}

func (s *segment) remove(dir string) error {
	s.file.Close()
	err := os.Remove(filepath.Join(dir, segmentName(s.stream, s.start)))
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("the directory was removed")
	}
	return err
}

// segments are where the segments in dir start, of one stream, in order.
func segments(dir string, which Stream) ([]int64, error) {
	files, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errGone
	}
	if err != nil {
		return nil, err
	}
	var starts []int64
	for _, f := range files {
		name, ok := strings.CutPrefix(f.Name(), which.String()+".")
		start, err := strconv.ParseInt(name, 16, 64)
		if ok && err == nil && f.Type().IsRegular() && segmentName(which, start) == f.Name() {
			starts = append(starts, start)
		}
	}
	slices.Sort(starts)
	return starts, nil
}

func countLines(p []byte) int64 { return int64(bytes.Count(p, []byte("\n"))) }
