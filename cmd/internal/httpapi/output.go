package httpapi

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"strconv"

	"belljar/cmd/internal/access"
	"belljar/cmd/internal/problem"
	"belljar/sandbox"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

type outputInput struct {
	OfExecution
	Accept string `header:"Accept"`
	Stream string `query:"stream" default:"stdout" enum:"stdout,stderr,merged"`
	Offset int64  `query:"offset" minimum:"0"`
	Follow bool   `query:"follow" doc:"Wait for more until the execution has ended."`
}

func (s *Server) output(ctx context.Context, in *outputInput) (*huma.StreamResponse, error) {
	x, err := s.find(ctx, access.Read, in.ID)
	if err != nil {
		return nil, err
	}
	reader, err := x.Read(ctx, sandbox.Stream(in.Stream), in.Offset)
	if err != nil {
		return nil, problem.Of(err)
	}
	return &huma.StreamResponse{Body: func(h huma.Context) {
		r, w := humago.Unwrap(h)
		defer reader.Close()
		out := &outputWriter{patientWriter: patientWriter{w: w, rc: http.NewResponseController(w)}, next: reader.Ready}
		if in.Follow && r.Method != http.MethodHead {
			out.next = out.follow(reader)
		}
		write := out.bytes
		if streamType(in.Accept) == mediaNDJSON {
			write = out.lines
		}
		if err := write(r.Context(), in.Offset); err != nil {
			out.fail(err)
		}
	}}, nil
}

// outputWriter writes a command's output.
type outputWriter struct {
	patientWriter
	next    func(context.Context) (sandbox.Chunk, error) // io.EOF at the end
	begun   bool
	inLines bool
}

// follow sends what is there before it waits for more, and lines show meanwhile that they go on.
func (o *outputWriter) follow(r sandbox.Reader) func(context.Context) (sandbox.Chunk, error) {
	return func(ctx context.Context) (sandbox.Chunk, error) {
		c, err := r.Ready(ctx)
		for errors.Is(err, io.EOF) {
			if o.begun {
				if err := o.Flush(); err != nil {
					return c, err
				}
			}
			if !o.inLines {
				return r.Next(ctx)
			}
			waiting, cancel := context.WithTimeout(ctx, heartbeat)
			c, err = r.Next(waiting)
			cancel()
			if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
				return c, err
			}
			if _, err = o.Write([]byte("\n")); err == nil {
				err = io.EOF
			}
		}
		return c, err
	}
}

// bytes writes the stream's bytes up to where some are missing.
func (o *outputWriter) bytes(ctx context.Context, offset int64) error {
	c, err := o.next(ctx)
	if err == nil {
		offset = c.Offset
	} else if !errors.Is(err, io.EOF) {
		return err
	}
	head(o.w, mediaBytes)
	o.w.Header().Set("Belljar-Offset", strconv.FormatInt(offset, 10))
	for o.begun = true; err == nil; {
		if _, err := o.Write(c.Data); err != nil {
			return err
		}
		if c, err = o.next(ctx); err == nil && c.Missed > 0 {
			return nil
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// chunk is a piece of output as a line.
type chunk struct {
	Stream   sandbox.Stream `json:"stream" enum:"stdout,stderr"`
	Offset   int64          `json:"offset"`
	Missed   int64          `json:"missed,omitempty" doc:"Bytes before it that are no longer kept."`
	Data     string         `json:"data"`
	Encoding string         `json:"encoding,omitempty" enum:"base64"`
}

func (o *outputWriter) lines(ctx context.Context, _ int64) error {
	head(o.w, mediaNDJSON)
	o.inLines = true
	for o.begun = true; ; {
		c, err := o.next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		line := chunk{Stream: c.Stream, Offset: c.Offset, Missed: c.Missed, Data: string(c.Data)}
		if !(sandbox.Output{Head: c.Data}).IsText() {
			line.Data, line.Encoding = base64.StdEncoding.EncodeToString(c.Data), "base64"
		}
		text, err := sandbox.JSON(line)
		if err != nil {
			return err
		}
		if _, err := o.Write(append(text, '\n')); err != nil {
			return err
		}
	}
}

// fail tells the caller, or cuts a body that has begun.
func (o *outputWriter) fail(err error) {
	if o.begun {
		panic(http.ErrAbortHandler)
	}
	problem.Of(err).Write(o.w)
}
