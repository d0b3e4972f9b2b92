package spool

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// followPause is how often another process's output is looked at.
const followPause = 50 * time.Millisecond

// Files is a source of what is read from a directory, where another process may
// be writing.
func (s Store) Files(id string) source {
	dir := s.Path(id)
	return source{
		starts: func(which Stream) ([]int64, error) { return segments(dir, which) },
		open:   func(which Stream, start int64) (segmentFile, error) { return openSegment(dir, which, start) },
		state: func() (sourceState, <-chan struct{}, error) {
			info, err := readSpoolNote(dir)
			if _, statErr := os.Stat(dir); statErr != nil {
				return sourceState{}, nil, errSpoolGone
			}
			if err != nil { // its belljar died before it had written the note
				return sourceState{ended: true, lost: true}, nil, nil
			}
			later := make(chan struct{})
			if info.Running {
				time.AfterFunc(followPause, func() { close(later) })
			}
			state := sourceState{ended: !info.Running, lost: info.LogEnd == nil}
			if !state.lost {
				state.bytes = [2]int64{info.Stdout.Bytes, info.Stderr.Bytes}
			}
			return state, later, nil
		},
	}
}

// Live is a source of what is written in this process, and afterwards.
func (s *Spool) Live() source {
	return source{
		starts: func(which Stream) ([]int64, error) {
			if dir := s.place(); dir != "" {
				return segments(dir, which)
			}
			return nil, nil
		},
		open: func(which Stream, start int64) (segmentFile, error) { return openSegment(s.place(), which, start) },
		state: func() (sourceState, <-chan struct{}, error) {
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

// place is the spool's directory, once it has one.
func (s *Spool) place() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Dir
}

func (s *Spool) state() sourceState {
	return sourceState{bytes: [2]int64{s.Streams[Stdout].Bytes, s.Streams[Stderr].Bytes}, ended: s.ended}
}

// kept is a source of what a spool that ended has, also where its directory is
// gone meanwhile.
func (s *Spool) kept() source {
	return source{
		starts: func(which Stream) (starts []int64, err error) {
			for _, seg := range s.Streams[which].segments {
				starts = append(starts, seg.start)
			}
			return starts, nil
		},
		open: func(which Stream, start int64) (segmentFile, error) {
			all := s.Streams[which].segments
			i := slices.IndexFunc(all, func(seg *segment) bool { return seg.start == start })
			if i < 0 {
				return nil, fs.ErrNotExist
			}
			return lentFile{all[i].file}, nil
		},
		state: func() (sourceState, <-chan struct{}, error) { return s.state(), nil, nil },
	}
}

// lentFile is the spool's own, which it closes itself.
type lentFile struct{ *os.File }

func (lentFile) Close() error { return nil }
