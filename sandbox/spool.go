package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"os"
	"slices"
	"sync"
	"time"
)

// spool keeps what a command writes, in a private directory, so that memory
// does not grow with it. Of each stream the beginning and the end are kept,
// within one budget: half of it goes to the beginnings, first come, first
// served; the other half to the ends, where the longer one gives way, so that a
// flood on one stream does not cost the other its last words.
//
// A stream is a row of files, segments, that are only ever appended to and
// removed as a whole. So whoever reads one, in this process or another, reads
// what was written, and learns of what is gone; nobody waits for a reader.
type spool struct {
	dir      string // set by open, "" where there is none
	limit    int64
	headRoom int64 // bytes left for beginnings
	tailRoom int64 // bytes that both ends have together, and each a segment more

	mu        sync.Mutex
	temporary bool // the directory goes with the command
	note      *spoolNote
	streams   [2]spoolStream
	total     int64 // bytes of both
	failed    error // why nothing is kept any more
	ended     bool
	changed   chan struct{} // closed and replaced at each change; nil while nobody waits
}

// spoolStream is one stream's part of a spool.
type spoolStream struct {
	Total
	sum      hash.Hash
	segments []*segment // the oldest first; the first is the beginning
	headDone bool       // what follows is of the end
}

// tail is how much of the stream's end is kept.
func (s *spoolStream) tail() (size int64) {
	for _, seg := range s.segments {
		if seg.tail {
			size += seg.size
		}
	}
	return size
}

// newSpool has a budget of limit bytes. It keeps nothing until it is opened.
func newSpool(limit int64, action OutputAction) *spool {
	s := &spool{limit: limit, headRoom: limit / 2, tailRoom: limit - limit/2}
	if action == OutputEnd { // there is no end worth keeping
		s.headRoom, s.tailRoom = limit, 0
	}
	for i := range s.streams {
		s.streams[i].sum = sha256.New()
	}
	return s
}

// write keeps what it can of a chunk.
func (s *spool) write(which stream, p []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := &s.streams[which]
	offset, at := k.Bytes, s.total
	k.Bytes += int64(len(p))
	k.Lines += countLines(p)
	s.total += int64(len(p))
	k.sum.Write(p)
	defer s.wake()
	if s.failed != nil {
		return nil
	}
	s.failed = s.keep(which, offset, at, p)
	return s.failed
}

// keep writes a chunk, which begins at offset in its stream and at at among the
// bytes of both.
func (s *spool) keep(which stream, offset, at int64, p []byte) error {
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
func (s *spool) append(which stream, offset, at int64, p []byte, tail bool) error {
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
	seg, err := newSegment(s.dir, which, offset, at)
	if err != nil {
		return err
	}
	seg.tail = tail
	k.segments = append(k.segments, seg)
	return seg.append(at, p)
}

func (s *spool) segmentSize() int64 { return max(s.limit/16, 4<<10) }

// share is how much of each stream's end the budget has room for: a half, and
// what the other does not need.
func (s *spool) share() (room [2]int64) {
	half := s.tailRoom / 2
	room[stdout] = max(s.tailRoom-s.streams[stderr].tail(), s.tailRoom-half)
	room[stderr] = max(s.tailRoom-s.streams[stdout].tail(), half)
	return room
}

// shrink removes the segments without which each stream has its share.
func (s *spool) shrink() error {
	room := s.share()
	for i := range s.streams {
		k := &s.streams[i]
		for size := k.tail(); size > room[i]; {
			oldest := slices.IndexFunc(k.segments, func(seg *segment) bool { return seg.tail })
			size -= k.segments[oldest].size
			if size < room[i] {
				break
			}
			if err := k.segments[oldest].remove(s.dir); err != nil {
				return err
			}
			k.segments = slices.Delete(k.segments, oldest, oldest+1)
		}
	}
	return nil
}

// wake tells those who wait for more.
func (s *spool) wake() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// end says that nothing more comes, and writes down what there was. It is kept
// for that long.
func (s *spool) end(status Status, exitCode int, age time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.wake()
	if s.note == nil {
		return nil
	}
	return s.note.change(func(info *LogInfo) {
		info.Ended = time.Now()
		info.Expires = info.Ended.Add(age)
		info.LogEnd = &LogEnd{Status: status, ExitCode: exitCode, Stdout: s.streams[stdout].log(), Stderr: s.streams[stderr].log()}
	})
}

// close lets go of the files, which stay.
func (s *spool) close() {
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

// size is how much of the disk it takes.
func (s *spool) size() (size int64) {
	for _, k := range s.streams {
		for _, seg := range k.segments {
			size += seg.disk
		}
	}
	return size
}

// remove closes the spool and removes its files.
func (s *spool) remove() error {
	s.close()
	if s.dir == "" {
		return nil
	}
	return os.RemoveAll(s.dir)
}

func (s *spoolStream) log() LogStream {
	return LogStream{Bytes: s.Bytes, Lines: s.Lines, SHA256: s.sha256()}
}

func (s *spoolStream) sha256() string { return hex.EncodeToString(s.sum.Sum(nil)) }

// lost is what could not be kept, for want of a place: not what the limit took.
func (s *spool) lost() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// errSpoolGone is of a directory that was removed.
var errSpoolGone = &Error{Cause: CauseInvalid, Message: "what was kept of this output is gone", Hint: "it expired (spool.age, spool.total), or somebody removed it"}
