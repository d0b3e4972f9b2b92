// Package spool keeps what commands write on disk, within a budget, for those who
// read it while the command runs and for those who come later.
package spool

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"belljar/sandbox"
)

// Spool keeps what a command writes, in a private directory, so that memory
// does not grow with it. Of each stream the beginning and the end are kept,
// within one budget: half of it goes to the beginnings, first come, first
// served; the other half to the ends, where the longer one gives way, so that a
// flood on one stream does not cost the other its last words.
//
// A stream is a row of files, segments, that are only ever appended to and
// removed as a whole. So anyone who reads one, in this process or another, reads
// what was written, and learns of what is gone; no one waits for a reader.
type Spool struct {
	Dir      string // set by open, "" where there is none
	Spares   *Spares
	Socket   *net.UnixListener // for control, where Dir was a spare
	Limit    int64
	headRoom int64 // bytes left for beginnings
	tailRoom int64 // bytes that both ends have together, and each a segment more

	mu         sync.Mutex
	Temporary  bool // the directory goes with the command
	note       *note
	streams    [2]streamState
	Total      int64 // bytes of both
	failed     error // why nothing is kept any more
	ended      bool
	resultSize int64         // of its file
	changed    chan struct{} // closed and replaced at each change; nil while no one waits
}

// streamState is one stream's part of a spool.
type streamState struct {
	sandbox.Total
	sum      hash.Hash
	segments []*segment // the oldest first; the first is the beginning
	headDone bool       // what follows is of the end
}

// tail is how much of the stream's end is kept.
func (s *streamState) tail() (size int64) {
	for _, seg := range s.segments {
		if seg.tail {
			size += seg.size
		}
	}
	return size
}

// New has a budget of limit bytes. It keeps nothing until it is opened.
func New(limit int64, action sandbox.OutputAction) *Spool {
	s := &Spool{Limit: limit, headRoom: limit / 2, tailRoom: limit - limit/2}
	if action == sandbox.OutputEnd { // there is no end worth keeping
		s.headRoom, s.tailRoom = limit, 0
	}
	for i := range s.streams {
		s.streams[i].sum = sha256.New()
	}
	return s
}

// Write keeps what it can of a chunk.
func (s *Spool) Write(which Stream, p []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := &s.streams[which]
	offset, at := k.Bytes, s.Total
	k.Bytes += int64(len(p))
	k.Lines += countLines(p)
	s.Total += int64(len(p))
	k.sum.Write(p)
	defer s.wake()
	if s.failed != nil {
		return nil
	}
	s.failed = s.store(which, offset, at, p)
	return s.failed
}

// store writes a chunk, which begins at offset in its stream and at at among the
// bytes of both.
func (s *Spool) store(which Stream, offset, at int64, p []byte) error {
	k, all := &s.streams[which], int64(len(p))
	if !k.headDone {
		n := min(int64(len(p)), s.headRoom)
		if err := s.append(which, offset, at, p[:n], false); err != nil {
			return err
		}
		s.headRoom -= n
		p = p[n:]
		k.headDone = len(p) > 0 // what follows must stay behind it
	}
	if int64(len(p)) > s.tailRoom {
		p = p[int64(len(p))-s.tailRoom:]
	}
	before := all - int64(len(p))
	if err := s.append(which, offset+before, at+before, p, true); err != nil {
		return err
	}
	return s.shrink()
}

// append writes a frame to the stream's last segment or to a new one.
func (s *Spool) append(which Stream, offset, at int64, p []byte, tail bool) error {
	if len(p) == 0 {
		return nil
	}
	k := &s.streams[which]
	if n := len(k.segments); n > 0 {
		last := k.segments[n-1]
		fits := last.tail == tail && last.end() == offset
		if fits && last.size+int64(len(p)) <= s.segmentSize() {
			return last.append(at, p)
		}
	}
	seg, err := newSegment(s.Dir, which, offset, at)
	if err != nil {
		return err
	}
	seg.tail = tail
	k.segments = append(k.segments, seg)
	return seg.append(at, p)
}

func (s *Spool) segmentSize() int64 { return max(s.Limit/16, 4<<10) }

// share is how much of each stream's end the budget has room for: a half, and
// what the other does not need.
func (s *Spool) share() (room [2]int64) {
	half := s.tailRoom / 2
	room[Stdout] = max(s.tailRoom-s.streams[Stderr].tail(), s.tailRoom-half)
	room[Stderr] = max(s.tailRoom-s.streams[Stdout].tail(), half)
	return room
}

// shrink removes the segments without which each stream has its share.
func (s *Spool) shrink() error {
	room := s.share()
	for i := range s.streams {
		k := &s.streams[i]
		for size := k.tail(); size > room[i]; {
			oldest := slices.IndexFunc(k.segments, func(seg *segment) bool { return seg.tail })
			size -= k.segments[oldest].size
			if size < room[i] {
				break
			}
			if err := k.segments[oldest].remove(s.Dir); err != nil {
				return err
			}
			k.segments = slices.Delete(k.segments, oldest, oldest+1)
		}
	}
	return nil
}

// wake wakes the readers that wait for more.
func (s *Spool) wake() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// End says that nothing more comes, and writes down what there was. It is kept
// for that long.
func (s *Spool) End(end sandbox.LogEnd, age time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.wake()
	if s.note == nil {
		return nil
	}
	return s.note.change(func(info *sandbox.LogInfo) {
		info.Ended = time.Now()
		info.Expires = info.Ended.Add(age)
		end.Stdout, end.Stderr = s.streams[Stdout].log(), s.streams[Stderr].log()
		info.LogEnd = &end
	})
}

// Close releases the files, which stay.
func (s *Spool) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.streams {
		for _, seg := range k.segments {
			seg.file.Close()
		}
	}
	if s.note != nil {
		s.note.close()
	}
}

// Size is how much of the disk it takes.
func (s *Spool) Size() (size int64) {
	size = s.resultSize
	for _, k := range s.streams {
		for _, seg := range k.segments {
			size += seg.disk
		}
	}
	return size
}

// Remove closes the spool and removes its files.
func (s *Spool) Remove() error {
	s.Close()
	if s.Dir == "" {
		return nil
	}
	return os.RemoveAll(s.Dir)
}

func (s *streamState) log() sandbox.LogStream {
	return sandbox.LogStream{Bytes: s.Bytes, Lines: s.Lines, SHA256: s.sha256()}
}

func (s *streamState) sha256() string { return hex.EncodeToString(s.sum.Sum(nil)) }

// Err is why output could not be kept, nil where only the limit cut it.
func (s *Spool) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// errGone is of a directory that was removed.
var errGone = &sandbox.Error{Cause: sandbox.CauseInvalid, Message: "this output is no longer stored", Hint: "it expired (spool.age, spool.total) or was removed"}
