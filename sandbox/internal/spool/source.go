package spool

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// followPause is how often another process's output is looked at.
const followPause = 50 * time.Millisecond

// Source is where a reader's bytes are.
type Source struct {
	// starts are the segments there are of a stream, in order.
	starts func(which Stream) ([]int64, error)
	open   func(which Stream, start int64) (segmentFile, error)
	// state reports how much was written to each stream, whether that was all,
	// and what to wait for.
	state func() (progress, <-chan struct{}, error)
}

type segmentFile interface {
	io.ReaderAt
	io.Closer
}

type progress struct {
	bytes [2]int64
	ended bool
	lost  bool // how much was written is not known: its belljar died
}

// FileSource is a source that reads a directory, where another process may
// be writing.
func (s Store) FileSource(id string) Source {
	dir := s.Path(id)
	return Source{
		starts: func(which Stream) ([]int64, error) { return segments(dir, which) },
		open:   func(which Stream, start int64) (segmentFile, error) { return openSegment(dir, which, start) },
		state: func() (progress, <-chan struct{}, error) {
			info, _, err := readNote(dir)
			if _, statErr := os.Stat(dir); statErr != nil {
				return progress{}, nil, errGone
			}
			if err != nil { // its belljar died before it had written the note
				return progress{ended: true, lost: true}, nil, nil
			}
			later := make(chan struct{})
			if info.Running {
				time.AfterFunc(followPause, func() { close(later) })
			}
			state := progress{ended: !info.Running, lost: info.LogEnd == nil}
			if !state.lost {
				state.bytes = [2]int64{info.Stdout.Bytes, info.Stderr.Bytes}
			}
			return state, later, nil
		},
	}
}

// LiveSource is a source of what is written in this process, and afterwards.
func (s *Spool) LiveSource() Source {
	return Source{
		starts: func(which Stream) ([]int64, error) {
			if dir := s.directory(); dir != "" {
				return segments(dir, which)
			}
			return nil, nil
		},
		open: func(which Stream, start int64) (segmentFile, error) { return openSegment(s.directory(), which, start) },
		state: func() (progress, <-chan struct{}, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.changed == nil {
				s.changed = make(chan struct{})
			}
			return s.state(), s.changed, nil
		},
	}
}

func openSegment(dir string, which Stream, start int64) (segmentFile, error) {
	return os.Open(filepath.Join(dir, segmentName(which, start)))
}

// directory is the spool's, once it has one.
func (s *Spool) directory() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Dir
}

func (s *Spool) state() progress {
	return progress{bytes: [2]int64{s.streams[Stdout].Bytes, s.streams[Stderr].Bytes}, ended: s.ended}
}

// storedSource is a source of what a spool that ended has, also where its directory is
// gone meanwhile.
func (s *Spool) storedSource() Source {
	return Source{
		starts: func(which Stream) (starts []int64, err error) {
			for _, seg := range s.streams[which].segments {
				starts = append(starts, seg.start)
			}
			return starts, nil
		},
		open: func(which Stream, start int64) (segmentFile, error) {
			all := s.streams[which].segments
			i := slices.IndexFunc(all, func(seg *segment) bool { return seg.start == start })
			if i < 0 {
				return nil, fs.ErrNotExist
			}
			return lentFile{all[i].file}, nil
		},
		state: func() (progress, <-chan struct{}, error) { return s.state(), nil, nil },
	}
}

// lentFile is the spool's own, which it closes itself.
type lentFile struct{ *os.File }

func (lentFile) Close() error { return nil }
