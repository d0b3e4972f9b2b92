package executions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"belljar/cmd/internal/problem"
)

// Input is a command's stdin that clients send in parts. Each part says where it begins,
// so that one that is sent again is not typed again.
type Input struct {
	first bytes.Reader // what came with the request
	read  *os.File

	turn     chan struct{} // has one while someone writes
	write    *os.File
	received int64
	ended    bool
	failed   atomic.Pointer[string] // why the end that is written is none
}

// NewInput begins with what came with the request.
func NewInput(first []byte) (*Input, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("making a pipe for stdin: %w", err)
	}
	i := &Input{read: r, write: w, turn: make(chan struct{}, 1)}
	i.first.Reset(first)
	return i, nil
}

// Read implements io.Reader for the command.
func (i *Input) Read(p []byte) (int, error) {
	if i.first.Len() > 0 {
		return i.first.Read(p)
	}
	n, err := i.read.Read(p)
	if why := i.failed.Load(); why != nil && errors.Is(err, io.EOF) {
		err = errors.New(*why)
	}
	return n, err
}

// SetReadDeadline lets a Runner give up a Read.
func (i *Input) SetReadDeadline(t time.Time) error { return i.read.SetReadDeadline(t) }

// Write types what of the part is new, and returns how many bytes were received so far.
// It waits while the command does not read. Cancelling ctx ends that: what was typed by
// then counts.
func (i *Input) Write(ctx context.Context, offset int64, part io.Reader, end bool) (received int64, err error) {
	return i.from(ctx, offset, part, end, "")
}

// Fail is Write for the last part that the client has: why it has no more, and no end. The
// part may be one that was received in whole, or be empty.
func (i *Input) Fail(ctx context.Context, offset int64, part io.Reader, why string) (received int64, err error) {
	return i.from(ctx, offset, part, true, why)
}

func (i *Input) from(ctx context.Context, offset int64, part io.Reader, end bool, why string) (received int64, err error) {
	if err := i.take(ctx); err != nil {
		return 0, err
	}
	defer i.leave()
	if offset > i.received {
		return i.received, problem.New(problem.Conflict, fmt.Sprintf("stdin at offset %d: only %d bytes were received so far", offset, i.received), "send the bytes from there on first")
	}
	if n, err := io.CopyN(io.Discard, part, i.received-offset); errors.Is(err, io.EOF) && why == "" {
		if end && !i.ended {
			return i.received, problem.New(problem.Conflict, fmt.Sprintf("stdin cannot end at offset %d: %d bytes were received", offset+n, i.received), "send eof with the last part")
		}
		return i.received, nil // all of it was received before
	} else if err != nil && !errors.Is(err, io.EOF) {
		return i.received, err
	}
	err = i.add(ctx, part, end, why)
	return i.received, err
}

// Append is Write for a part that comes after all that was received so far.
func (i *Input) Append(ctx context.Context, part io.Reader, end bool) error {
	if err := i.take(ctx); err != nil {
		return err
	}
	defer i.leave()
	return i.add(ctx, part, end, "")
}

// take waits for the turn to write.
func (i *Input) take(ctx context.Context) error {
	select {
	case i.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (i *Input) leave() { <-i.turn }

func (i *Input) add(ctx context.Context, part io.Reader, end bool, why string) error {
	if i.ended {
		return i.afterEnd(part)
	}
	late := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		i.write.SetWriteDeadline(time.Unix(1, 0))
		close(late)
	})
	n, err := io.Copy(i.write, part)
	if !stop() {
		<-late // else the deadline could come after this, and end another's Write
		i.write.SetWriteDeadline(time.Time{})
	}
	i.received += n
	if err == nil && end {
		if why != "" {
			i.failed.Store(&why)
		}
		i.ended = true
		err = i.write.Close()
	}
	return inputError(ctx, err)
}

// afterEnd refuses bytes after the end, but not an end that is sent again.
func (i *Input) afterEnd(part io.Reader) error {
	if n, _ := io.CopyN(io.Discard, part, 1); n > 0 {
		return problem.New(problem.Conflict, "stdin has ended", "the part with eof=1 is the last one")
	}
	return nil
}

func inputError(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, os.ErrClosed) || errors.Is(err, syscall.EPIPE):
		return problem.New(problem.Conflict, "the command no longer reads stdin", "see whether it has ended")
	}
	return err
}

// Close ends it: nothing more is read or written. It does nothing without an Input. It does
// not wait for a Write, whose client may send its part slowly.
func (i *Input) Close() {
	if i == nil {
		return
	}
	i.read.Close() // a Write that waits for the command fails now
	i.write.Close()
}
