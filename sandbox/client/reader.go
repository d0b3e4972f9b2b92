package client

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"belljar/sandbox"
)

// reader is a sandbox.Reader: of what there is already, then of what comes. It has
// no goroutine; where a call is given up, the next one asks again from the same byte.
type reader struct {
	client *Client
	path   string
	which  sandbox.Stream
	offset int64 // of the next byte
	in     *lines
	cancel context.CancelFunc // of in
	follow bool               // in goes on until the command ends
	ended  bool
	data   []byte // of the last chunk
}

// open opens a reader, and begins to read: an unknown command is refused here.
func (c *Client) open(ctx context.Context, id string, which sandbox.Stream, offset int64) (sandbox.Reader, error) {
	switch {
	case which != sandbox.Stdout && which != sandbox.Stderr && which != sandbox.Merged:
		return nil, sandbox.Invalid("stdout, stderr or merged", "no stream %.80q", which)
	case offset < 0:
		return nil, sandbox.Invalid("offsets count bytes from 0", "offset %d is negative", offset)
	}
	r := &reader{client: c, path: execution(id) + "/output", which: which, offset: offset}
	if err := r.connect(ctx, false); err != nil {
		return nil, c.told(ctx, err)
	}
	return r, nil
}

// connect asks for the output from the offset on. Cancelling ctx gives up the asking,
// not what was opened.
func (r *reader) connect(ctx context.Context, follow bool) error {
	query := url.Values{"stream": {string(r.which)}, "offset": {strconv.FormatInt(r.offset, 10)}}
	if follow {
		query.Set("follow", "1")
	}
	live, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	in, err := r.client.lines(live, request{method: http.MethodGet, path: r.path, query: query})
	if !stop() && err == nil {
		in.close()
		err = ctx.Err()
	}
	if err != nil {
		cancel()
		return err
	}
	r.in, r.cancel, r.follow = in, cancel, follow
	return nil
}

func (r *reader) disconnect() {
	if r.in != nil {
		r.in.close()
		r.cancel()
		r.in = nil
	}
}

// Next implements sandbox.Reader.
func (r *reader) Next(ctx context.Context) (sandbox.Chunk, error) {
	return r.retried(ctx, func() (sandbox.Chunk, error) {
		for !r.ended {
			if r.in == nil {
				if err := r.connect(ctx, true); err != nil {
					return sandbox.Chunk{}, err
				}
			}
			c, err := r.chunk(ctx)
			if !errors.Is(err, io.EOF) {
				return c, err
			}
			r.ended = r.follow
			r.disconnect()
		}
		return sandbox.Chunk{}, io.EOF
	})
}

// Ready implements sandbox.Reader.
func (r *reader) Ready(ctx context.Context) (sandbox.Chunk, error) {
	return r.retried(ctx, func() (sandbox.Chunk, error) {
		for !r.ended {
			if r.follow {
				r.disconnect()
			}
			fresh := r.in == nil
			if fresh {
				if err := r.connect(ctx, false); err != nil {
					return sandbox.Chunk{}, err
				}
			}
			c, err := r.chunk(ctx)
			if !errors.Is(err, io.EOF) {
				return c, err
			}
			if r.disconnect(); fresh {
				break
			}
		}
		return sandbox.Chunk{}, io.EOF
	})
}

// retried calls read again where a connection broke: nothing is lost with it.
func (r *reader) retried(ctx context.Context, read func() (sandbox.Chunk, error)) (c sandbox.Chunk, err error) {
	if ctx.Err() != nil {
		return c, ctx.Err()
	}
	for gone := (outage{}); ; {
		c, err = read()
		if err == nil || errors.Is(err, io.EOF) {
			return c, err
		}
		if r.disconnect(); !gone.wait(ctx, err, r.client.lostAfter) {
			return c, r.client.told(ctx, err)
		}
	}
}

// chunkLine is a chunk on the wire.
type chunkLine struct {
	Stream   sandbox.Stream `json:"stream"`
	Offset   int64          `json:"offset"`
	Missed   int64          `json:"missed"`
	Data     string         `json:"data"`
	Encoding string         `json:"encoding"`
}

// chunk is the next of what is open; io.EOF is its end. Cancelling ctx closes it.
func (r *reader) chunk(ctx context.Context) (c sandbox.Chunk, err error) {
	defer context.AfterFunc(ctx, r.cancel)()
	text, err := r.in.next()
	switch {
	case errors.Is(err, io.EOF):
		return c, io.EOF
	case err != nil:
		return c, r.in.broken(err)
	}
	var line chunkLine
	if err = json.Unmarshal(text, &line); err == nil {
		r.data = []byte(line.Data)
		if line.Encoding == "base64" {
			r.data, err = base64.StdEncoding.DecodeString(line.Data)
		}
	}
	if err == nil && (line.Missed < 0 || line.Offset != r.offset+line.Missed) {
		err = errOffset
	}
	if err != nil {
		return c, unreachable{error: r.client.garbage(err.Error())}
	}
	r.offset = line.Offset + int64(len(r.data))
	return sandbox.Chunk{Stream: line.Stream, Offset: line.Offset, Missed: line.Missed, Data: r.data}, nil
}

var errOffset = errors.New("a chunk of output does not follow the one before")

// Close implements sandbox.Reader.
func (r *reader) Close() error {
	r.disconnect()
	return nil
}
