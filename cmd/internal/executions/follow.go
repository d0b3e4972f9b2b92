package executions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"belljar/internal/sniff"
	"belljar/sandbox"
)

// ErrCut is for a follower that held the command and did not read for StallTime. It can
// follow again from where it was.
var ErrCut = errors.New("the events were not read for too long")

// Follower reads an execution's events, each once and in order. It is not safe for
// concurrent use.
type Follower struct {
	x    *Execution
	next uint64        // the number of the event that Next returns
	has  uint64        // what the log knows of next
	cut  chan struct{} // closed once it holds the command no longer

	journal *journal // of events that are not in memory
	told    bool     // see unrecorded
	over    bool     // the result was the last one
	streams map[sandbox.EventType]*stream
}

// Follow reads the events after that number. With hold, the command waits for the
// follower, up to StallTime; without, a follower that is slow may miss output, which its
// events then say.
func (x *Execution) Follow(after uint64, hold bool) *Follower {
	after = min(after, math.MaxUint64-1) // else the next number is 0
	f := &Follower{x: x, next: after + 1, has: after + 1, cut: make(chan struct{}), streams: map[sandbox.EventType]*stream{}}
	if hold && x.log != nil {
		x.log.hold(f)
	}
	return f
}

// Close releases the follower.
func (f *Follower) Close() {
	if f.x.log != nil {
		f.x.log.release(f)
	}
	f.leaveDisk()
}

// Next waits for the next event. The error is io.EOF after the result.
func (f *Follower) Next(ctx context.Context) (sandbox.Event, error) {
	for {
		select {
		case <-f.cut:
			return sandbox.Event{}, ErrCut
		default:
		}
		if f.over {
			return sandbox.Event{}, io.EOF
		}
		e, wait, err := f.step(ctx)
		switch {
		case err != nil:
			return e, err
		case wait == nil:
			f.next, f.over = e.Seq+1, e.Type == sandbox.EventResult
			if f.x.log != nil {
				f.x.log.moved(f, f.next)
			}
			return e, nil
		}
		select {
		case <-wait:
		case <-f.cut:
		case <-ctx.Done():
			return e, ctx.Err()
		}
	}
}

// step is the next event, or what to wait for.
func (f *Follower) step(ctx context.Context) (e sandbox.Event, wait <-chan struct{}, err error) {
	if f.x.log != nil {
		e, found, wait := f.x.log.get(f.next)
		switch {
		case found:
			f.leaveDisk()
			return e, nil, nil
		case wait != nil && f.x.log.isOver(f.next):
			return e, nil, io.EOF
		case wait != nil:
			return e, wait, nil
		}
		if wait := f.x.log.untilResult(); f.told && wait != nil {
			return e, wait, nil
		}
	}
	e, err = f.stored(ctx)
	return e, nil, err
}

// isOver reports whether there is no event with that number, and will be none.
func (l *log) isOver(seq uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.result != nil && seq > l.result.Seq
}

// stored is the next event from the disk.
func (f *Follower) stored(ctx context.Context) (e sandbox.Event, err error) {
	if f.x.refused {
		if e, err = f.x.lastEvent(); err == nil && f.next > e.Seq {
			err = io.EOF
		}
		return e, err
	}
	if f.journal == nil {
		if f.journal, err = openJournal(f.x.file); err != nil {
			return e, err
		}
	}
	err = f.journal.skip(f.next)
	if err == nil {
		var offset int64
		if e, offset, err = f.journal.Next(); err == nil {
			return f.fill(ctx, e, offset)
		}
	}
	if errors.Is(err, io.EOF) && (f.x.log == nil || !f.x.log.isStored()) {
		return f.unrecorded(ctx)
	}
	if !errors.Is(err, errEnded) {
		if errors.Is(err, io.EOF) { // it is no end that a reader may take for one
			err = io.ErrUnexpectedEOF
		}
		return e, fmt.Errorf("reading the events of %s: %w", f.x.ID, err)
	}
	if f.next > f.journal.next {
		return e, io.EOF
	}
	r, err := f.x.Result(ctx)
	if err != nil {
		return e, err
	}
	return sandbox.Event{Type: sandbox.EventResult, Seq: f.journal.next, Time: f.x.ended(ctx), Result: &r}, nil
}

// unrecorded is what follows the last event of a journal that has no end, as when the disk
// was full: a notice, and the result. No other follower need have them under these numbers.
func (f *Follower) unrecorded(ctx context.Context) (e sandbox.Event, err error) {
	e = sandbox.Event{Type: sandbox.EventNotice, Seq: f.next, Time: time.Now(), Data: []byte("the events from here on could not be recorded: read the output")}
	if f.x.State() == Ended {
		e.Time = f.x.ended(ctx)
	}
	if f.told {
		var r sandbox.Result
		r, err = f.x.Result(ctx)
		e.Type, e.Data, e.Result = sandbox.EventResult, nil, &r
	}
	f.told = true
	return e, err
}

// fill reads an event's output.
func (f *Follower) fill(ctx context.Context, e sandbox.Event, offset int64) (sandbox.Event, error) {
	if !isOutput(e.Type) {
		return e, nil
	}
	s := f.streams[e.Type]
	if s == nil {
		r, err := f.x.Read(ctx, sandbox.Stream(e.Type), offset)
		if err != nil {
			return e, err
		}
		s = &stream{reader: r, at: offset}
		f.streams[e.Type] = s
	}
	var err error
	if e.Data, e.LeftOut, err = s.read(ctx, e.Size); err != nil {
		return e, err
	}
	if e.Encoding != "" {
		if e.Data, e.Encoding = sniff.Replace(e.Data); e.Binary {
			e.Encoding = max(e.Encoding, sniff.UTF8Plain)
		}
	}
	return e, nil
}

func (f *Follower) leaveDisk() {
	if f.journal != nil {
		f.journal.Close()
		f.journal = nil
	}
	for _, s := range f.streams {
		s.reader.Close()
	}
	clear(f.streams)
}

// stream reads a stream in pieces of a given size.
type stream struct {
	reader  sandbox.Reader
	at      int64  // the offset of what comes next
	pending []byte // of the last chunk
	missed  int64  // bytes before pending that are gone
}

// read is the next size bytes, and how many of them are gone.
func (s *stream) read(ctx context.Context, size int) (data []byte, gone int64, err error) {
	data = make([]byte, 0, size)
	for left := int64(size); left > 0; {
		if s.missed == 0 && len(s.pending) == 0 {
			c, err := s.reader.Next(ctx)
			if errors.Is(err, io.EOF) {
				return data, gone + left, nil
			}
			if err != nil {
				return data, gone, err
			}
			s.missed, s.pending = c.Missed, c.Data
		}
		n := min(left, s.missed)
		s.missed, gone, left = s.missed-n, gone+n, left-n
		if s.missed == 0 {
			n = min(left, int64(len(s.pending)))
			data, s.pending, left = append(data, s.pending[:n]...), s.pending[n:], left-n
		}
	}
	s.at += int64(size)
	return data, gone, nil
}

// Waiting reports whether Next would have to wait.
func (f *Follower) Waiting() bool {
	if f.x.log == nil {
		return false
	}
	f.x.log.mu.Lock()
	defer f.x.log.mu.Unlock()
	return (f.told || f.next >= f.x.log.next) && f.x.log.result == nil
}

// CheckAfter refuses the number of an event that there is not: what follows it would never come,
// or be something else. last says that it is the result's.
func (x *Execution) CheckAfter(after uint64) (last bool, err error) {
	most, ended, err := x.numbers(after)
	if err == nil && after > most {
		err = sandbox.Invalid("send the number of the last event that you have; 0 is for all", "execution %s has %d events, and none with the number %d", x.ID, most, after)
	}
	return ended && after == most, err
}

// numbers is the number of the last event, or one that is no less than after, and whether it is
// the result's.
func (x *Execution) numbers(after uint64) (most uint64, ended bool, err error) {
	switch {
	case x.log != nil:
		most, ended = x.log.last()
		return most, ended, nil
	case x.refused:
		e, err := x.lastEvent()
		return e.Seq, true, err
	case after == 0:
		return 0, false, nil
	}
	j, err := openJournal(x.file)
	if err != nil {
		return 0, false, err
	}
	defer j.Close()
	switch err = j.skip(min(after, math.MaxUint64-1) + 1); {
	case errors.Is(err, errEnded):
		return j.next, true, nil
	case errors.Is(err, io.EOF): // see unrecorded
		err = nil
	}
	return after, false, err
}
