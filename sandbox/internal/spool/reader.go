package spool

import (
	"context"
	"errors"
	"io"

	"belljar/sandbox"
)

// Reader is a sandbox.Reader of files.
type Reader struct {
	source Source
	stream sandbox.Stream
	next   int64 // the offset of what comes next
	reads  []*streamReader
	buf    []byte
}

// readSize is how much a chunk has at most.
const readSize = 32 << 10

// NewReader reads from an offset on, which counts the stream's bytes, or,
// for Merged, those of both.
func NewReader(src Source, which sandbox.Stream, offset int64) (*Reader, error) {
	r := &Reader{source: src, stream: which, next: offset, buf: make([]byte, readSize)}
	switch which {
	case sandbox.Stdout:
		r.reads = []*streamReader{newStreamReader(src, Stdout, offset)}
	case sandbox.Stderr:
		r.reads = []*streamReader{newStreamReader(src, Stderr, offset)}
	case sandbox.Merged:
		r.reads = []*streamReader{newStreamReader(src, Stdout, 0), newStreamReader(src, Stderr, 0)}
		for _, s := range r.reads {
			s.from = offset
		}
	default:
		return nil, sandbox.Invalid("stdout, stderr or merged", "no stream %q", which)
	}
	if offset < 0 {
		return nil, sandbox.Invalid("count from 0", "output offset %d is negative", offset)
	}
	return r, nil
}

// Next implements sandbox.Reader.
func (r *Reader) Next(ctx context.Context) (sandbox.Chunk, error) {
	for {
		c, more, err := r.step()
		if more == nil {
			return c, err
		}
		select {
		case <-more:
		case <-ctx.Done():
			return sandbox.Chunk{}, ctx.Err()
		}
	}
}

// Ready implements sandbox.Reader.
func (r *Reader) Ready(context.Context) (sandbox.Chunk, error) {
	c, _, err := r.step()
	return c, err
}

// step is the next chunk, or, with io.EOF, what to wait for.
func (r *Reader) step() (c sandbox.Chunk, more <-chan struct{}, err error) {
	if c, err = r.available(); err == nil {
		return c, nil, nil
	}
	state, changed, err := r.checkProgress(err)
	if err != nil {
		return sandbox.Chunk{}, nil, err
	}
	// What was seen to have ended has no more than what is there now.
	if c, err = r.available(); err == nil {
		return c, nil, nil
	}
	if state.ended {
		c, err = r.lastMissed(state)
		return c, nil, err
	}
	return sandbox.Chunk{}, changed, err
}

// checkProgress asks how far the command is, now that nothing more is there, or nothing at
// all any more: that does not matter to who has it all.
func (r *Reader) checkProgress(why error) (progress, <-chan struct{}, error) {
	gone := errors.Is(why, errGone)
	if !gone && !errors.Is(why, io.EOF) {
		return progress{}, nil, why
	}
	state, changed, err := r.source.state()
	if err == nil && gone && !state.ended {
		err = why
	}
	return state, changed, err
}

// lastMissed is what is missing at the end, returned once.
func (r *Reader) lastMissed(state progress) (sandbox.Chunk, error) {
	total := state.bytes[Stdout] + state.bytes[Stderr]
	if r.stream != sandbox.Merged {
		total = state.bytes[r.reads[0].stream]
	}
	if state.lost || total <= r.next {
		return sandbox.Chunk{}, io.EOF
	}
	c := sandbox.Chunk{Stream: r.stream, Offset: total, Missed: total - r.next}
	r.next = total
	return c, nil
}

// available is the next chunk that is there, io.EOF where there is none.
func (r *Reader) available() (sandbox.Chunk, error) {
	for {
		from, err := r.first()
		if err != nil {
			return sandbox.Chunk{}, err
		}
		at := from.at(r.stream)
		if before := r.next - at; before > 0 {
			from.skip(before)
			continue
		}
		n, err := from.read(r.buf)
		for err == nil && n < len(r.buf) && from.ready() == nil && from.at(r.stream) == at+int64(n) {
			var more int
			more, err = from.read(r.buf[n:])
			n += more
		}
		if n == 0 {
			return sandbox.Chunk{}, err
		}
		c := sandbox.Chunk{Stream: from.stream.Name(), Offset: at, Missed: at - r.next, Data: r.buf[:n]}
		r.next = at + int64(n)
		return c, nil
	}
}

// first is the stream with the next byte, which is ready to be read.
func (r *Reader) first() (*streamReader, error) {
	first, err := r.lowest()
	if err != nil || r.stream != sandbox.Merged || first.merged <= r.next {
		return first, err
	}
	// Bytes are missing in front of it. The other stream may have got them since
	// it was looked at: they were written before these. What is still missing then
	// is gone.
	return r.lowest()
}

// lowest is the stream whose next byte came first, of those that have one; io.EOF
// is none.
func (r *Reader) lowest() (lowest *streamReader, err error) {
	for _, s := range r.reads {
		err := s.ready()
		if errors.Is(err, io.EOF) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if lowest == nil || s.merged < lowest.merged {
			lowest = s
		}
	}
	if lowest == nil {
		return nil, io.EOF
	}
	return lowest, nil
}

// Close releases the files.
func (r *Reader) Close() error {
	var errs []error
	for _, s := range r.reads {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}
