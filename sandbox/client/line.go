package client

import (
	"bufio"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"time"
)

const (
	// maxLine is the longest line, in bytes: a result with as much output as limits.result
	// can be, in base64.
	maxLine = 1<<30/3*4 + 64<<20
	// silence is how long nothing comes of a connection that is broken: a sidecar sends
	// an empty line every 15 s.
	silence = time.Minute
)

var errLong = errors.New("a line is longer than any that a sidecar sends")

// lines are those of an answer that goes on.
type lines struct {
	body   io.ReadCloser
	in     *bufio.Reader
	cancel context.CancelFunc
	quiet  *time.Timer
	long   []byte // a line that is longer than in's buffer

	location string // the header's
	opened   time.Time
}

// lines sends a request whose answer is lines. Cancelling ctx ends them.
func (c *Client) lines(ctx context.Context, r request) (*lines, error) {
	header := http.Header{"Accept": {"application/x-ndjson"}}
	maps.Copy(header, r.header)
	r.header = header
	ctx, cancel := context.WithCancel(ctx)
	answer, err := c.do(ctx, r) //nolint:bodyclose // lines.close closes it
	if err != nil {
		cancel()
		return nil, err
	}
	l := &lines{body: answer.Body, cancel: cancel, quiet: time.AfterFunc(silence, cancel), location: answer.Header.Get("Location"), opened: time.Now()}
	l.quiet.Stop()
	l.in = bufio.NewReaderSize(l, 8<<10)
	return l, nil
}

// Read is of the body, and ends if nothing comes for too long. While no one reads,
// that does not count.
func (l *lines) Read(p []byte) (int, error) {
	l.quiet.Reset(silence)
	defer l.quiet.Stop()
	return l.body.Read(p)
}

// next is the next line that is not empty, without its end; it is valid until the next call. The
// error is io.EOF only where the answer ended as it should.
func (l *lines) next() ([]byte, error) {
	for {
		part, err := l.in.ReadSlice('\n')
		whole := part
		if errors.Is(err, bufio.ErrBufferFull) || len(l.long) > 0 {
			if len(l.long)+len(part) > maxLine {
				return nil, errLong
			}
			l.long = append(l.long, part...)
			whole = l.long
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(whole) > 0:
			return nil, io.ErrUnexpectedEOF
		case err != nil:
			return nil, err
		}
		if l.long = nil; len(whole) > 1 {
			return whole[:len(whole)-1], nil
		}
	}
}

// broken is an error of reading. An answer that lasted shows that the sidecar was in reach,
// also if nothing came: the command is quiet. One that is cut at once, each time, does not.
func (l *lines) broken(err error) error {
	return unreachable{error: err, answered: !errors.Is(err, errLong) && time.Since(l.opened) > lastPause}
}

func (l *lines) close() {
	l.cancel()
	l.quiet.Stop()
	l.body.Close()
}
