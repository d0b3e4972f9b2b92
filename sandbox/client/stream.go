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

	"belljar/sandbox"
)

// stream is the events of a command: each once, whatever happens to the connections
// that they come over.
type stream struct {
	client *Client
	id     string
	last   uint64 // the number of the last event that came
	in     *lines // nil where the connection is cut
	end    func() // of the first connection
	gone   outage
}

// next waits for the next event. An error means that the command's fate is unknown.
func (s *stream) next(ctx context.Context) (sandbox.Event, error) {
	for {
		e, err := s.read(ctx)
		switch {
		case err == nil && e.Seq <= s.last: // sent twice
			continue
		case err == nil && e.Seq == s.last+1:
			s.last, s.gone = e.Seq, outage{}
			return e, nil
		case err == nil:
			err = unreachable{error: fmt.Errorf("event %d follows event %d", e.Seq, s.last)}
		}
		s.close()
		if !s.gone.wait(ctx, err, s.client.lostAfter) {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return sandbox.Event{}, s.lost(err)
		}
	}
}

// acceptEvents asks for events whose data follows their line, which a sidecar and a client
// handle several times faster than data in JSON.
const acceptEvents = "application/vnd.belljar.events, application/x-ndjson;q=0.5"

// read reads an event, after the last one where nothing is open.
func (s *stream) read(ctx context.Context) (e sandbox.Event, err error) {
	if s.in == nil {
		if err = s.open(ctx); err != nil {
			return e, err
		}
	}
	line, err := s.in.next()
	if err != nil {
		return e, s.in.broken(err)
	}
	size, err := parse(line, &e)
	if err != nil {
		return e, unreachable{error: err}
	}
	if size > 0 {
		e.Data = make([]byte, size)
		if _, err = io.ReadFull(s.in.in, e.Data); err != nil {
			err = s.in.broken(err)
		}
	}
	return e, err
}

// parse reads an event's line, and how many bytes of data follow it.
func parse(line []byte, e *sandbox.Event) (uint64, error) {
	number, rest, framed := bytes.Cut(line, []byte(" "))
	size, notNumber := strconv.ParseUint(string(number), 10, 32)
	if !framed || notNumber != nil {
		return 0, e.UnmarshalJSON(line)
	}
	if size > maxData {
		return 0, errLong
	}
	return size, e.UnmarshalJSON(rest)
}

// maxData is more than one event has: a view, or the output that waited for its reader.
const maxData = 16 << 20

// open continues after the last event.
func (s *stream) open(ctx context.Context) (err error) {
	query := url.Values{"after": {strconv.FormatUint(s.last, 10)}}
	s.in, err = s.client.lines(ctx, request{method: http.MethodGet, path: execution(s.id) + "/events", query: query, header: http.Header{"Accept": {acceptEvents}}})
	return err
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
