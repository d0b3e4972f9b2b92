package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"belljar/sandbox"
)

// stream is the events of a command: each once, whatever happens to the connections
// that they come over.
type stream struct {
	client *Client
	id     string
	last   uint64    // the number of the last event that came
	in     *lines    // nil where the connection is cut
	end    func()    // of the first connection
	cut    time.Time // since when nothing came; zero while something does
	why    error     // the last failure
	pause  time.Duration
}

// next waits for the next event. An error means that the command's fate is unknown.
func (s *stream) next(ctx context.Context) (sandbox.Event, error) {
	for {
		if s.in == nil {
			if err := s.open(ctx); err != nil {
				return sandbox.Event{}, err
			}
		}
		e, err := s.read()
		switch {
		case err == nil && e.Seq <= s.last: // sent twice
		case err == nil && e.Seq == s.last+1:
			s.last, s.cut = e.Seq, time.Time{}
			return e, nil
		case err == nil:
			err = fmt.Errorf("event %d follows event %d", e.Seq, s.last)
			fallthrough
		default:
			s.close()
			s.failed(err)
		}
	}
}

// acceptEvents asks for events whose data follows their line, which a sidecar and a client
// handle several times faster than data in JSON.
const acceptEvents = "application/vnd.belljar.events, application/x-ndjson;q=0.5"

func (s *stream) read() (e sandbox.Event, err error) {
	line, err := s.in.next()
	if err != nil {
		return e, err
	}
	number, rest, framed := bytes.Cut(line, []byte(" "))
	size, notNumber := strconv.ParseUint(string(number), 10, 32)
	if !framed || notNumber != nil {
		return e, e.UnmarshalJSON(line)
	}
	if size > maxData {
		return e, errLong
	}
	if err = e.UnmarshalJSON(rest); err == nil && size > 0 {
		e.Data = make([]byte, size)
		_, err = io.ReadFull(s.in.in, e.Data)
	}
	return e, err
}

// maxData is more than one event has: a view, or the output that waited for its reader.
const maxData = 16 << 20

// failed remembers since when nothing comes.
func (s *stream) failed(err error) {
	if s.why = err; s.cut.IsZero() {
		s.cut, s.pause = time.Now(), 0
	}
}

// open continues after the last event.
func (s *stream) open(ctx context.Context) (err error) {
	for ; s.in == nil; s.failed(err) {
		if time.Since(s.cut) > s.client.lostAfter {
			return s.lost(s.why)
		}
		if !sleep(ctx, &s.pause) {
			return s.lost(ctx.Err())
		}
		query := url.Values{"after": {strconv.FormatUint(s.last, 10)}}
		if s.in, err = s.client.lines(ctx, request{method: http.MethodGet, path: execution(s.id) + "/events", query: query, header: http.Header{"Accept": {acceptEvents}}}); err == nil {
			return nil
		}
		if !passes(err) {
			return s.lost(err)
		}
	}
	return nil
}

func (s *stream) lost(err error) error {
	if of, ok := errors.AsType[unreachable](err); ok {
		err = of.error
	}
	return &sandbox.Error{Cause: sandbox.CauseEngineLost, Message: "lost the sidecar " + s.client.host + " while command " + s.id + " ran", Err: err, Hint: "the command may still run there: belljar wait " + s.id}
}

func (s *stream) close() {
	if s.in != nil {
		s.in.close()
		s.end()
		s.in = nil
	}
}
