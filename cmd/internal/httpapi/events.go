package httpapi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"belljar/cmd/internal/access"
	"belljar/cmd/internal/executions"
	"belljar/cmd/internal/problem"
	"belljar/sandbox"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

const (
	// heartbeat is how often a silent stream shows that it is alive.
	heartbeat = 15 * time.Second

	// headerWait is how long the answer's header waits for the first event: for a warm command
	// both are one write.
	headerWait = 5 * time.Millisecond
)

type eventsInput struct {
	OfExecution
	Accept string `header:"Accept"`
	LastID string `header:"Last-Event-ID" doc:"The events after this one; as the query's after."`
	After  uint64 `query:"after" doc:"The events after this number."`
}

func (s *Server) registerStreams(api huma.API) {
	huma.Register(api, huma.Operation{
		OperationID: "get-events", Method: http.MethodGet, Path: "/v1/executions/{id}/events", Summary: "Follow an execution's events", Errors: []int{404, 422},
		Description: "They end with the event result: what is asked for after that is answered with 204, which ends an EventSource. A stream that ends without it was cut: ask for the events after the last one. A silent stream has an empty line (NDJSON) or a comment (SSE) every 15 s. As application/vnd.belljar.events each line is a number, a blank and the event without its data; so many bytes of data follow the line.",
		Responses:   map[string]*huma.Response{"200": content(api, "events", map[string]string{mediaNDJSON: "Event", mediaSSE: "Event", mediaFrames: "Event"}), "204": {Description: "No events follow that one."}},
	}, s.events)
	huma.Register(api, huma.Operation{
		OperationID: "get-output", Method: http.MethodGet, Path: "/v1/executions/{id}/output", Summary: "Read an execution's output", Errors: []int{404},
		Description: "The header Belljar-Offset is the offset of the first byte: if it is larger than asked for, what is between is no longer kept. The bytes end where some are missing; ask again from there. As NDJSON each chunk says what is missing before it, and while it waits there is an empty line every 15 s.",
		Responses:   map[string]*huma.Response{"200": content(api, "output", map[string]string{mediaBytes: "", mediaNDJSON: "Chunk"})},
	}, s.output)
}

func (s *Server) events(ctx context.Context, in *eventsInput) (*huma.StreamResponse, error) {
	x, err := s.find(ctx, access.Read, in.ID)
	if err != nil {
		return nil, err
	}
	if in.LastID != "" {
		if in.After, err = strconv.ParseUint(in.LastID, 10, 63); err != nil {
			return nil, sandboxInvalid("send the id of the last event that you have", "Last-Event-ID %.40q is not a number", in.LastID)
		}
	}
	last, err := x.CheckAfter(in.After)
	if err != nil {
		return nil, problem.Of(err)
	}
	if last {
		return noContent(), nil
	}
	give, err := s.roomForStored(ctx, x)
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(h huma.Context) {
		defer giveBack(give)
		r, w := humago.Unwrap(h)
		media := streamType(in.Accept)
		if media == "" {
			media = mediaNDJSON
		}
		if r.Method == http.MethodHead {
			head(w, media)
			return
		}
		s.stream(w, r, x, streaming{media: media, after: in.After, roomy: give != nil})
	}}, nil
}

// streamType is the media type of events that a caller accepts, "" if it wants none.
func streamType(accept string) string {
	for part := range strings.SplitSeq(accept, ",") {
		media, _, _ := strings.Cut(part, ";")
		switch media = strings.TrimSpace(strings.ToLower(media)); media {
		case mediaNDJSON, mediaSSE, mediaFrames:
			return media
		}
	}
	return ""
}

// streaming is how events are sent.
type streaming struct {
	media string
	after uint64 // the events after this number
	hold  bool   // the command waits for the reader
	roomy bool   // there is room for the result
}

// stream writes events until the result. Where it cannot, it cuts the connection.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, x *executions.Execution, how streaming) {
	f := x.Follow(how.after, how.hold)
	defer f.Close()
	head(w, how.media)
	w.Header().Set("X-Accel-Buffering", "no") // a proxy is not to wait for more
	out := &eventWriter{patientWriter: patientWriter{w: w, rc: http.NewResponseController(w)}, media: how.media, fresh: true}
	out.buffer = buffers.Get().(*bufio.Writer)
	out.buffer.Reset(&out.patientWriter)
	defer buffers.Put(out.buffer)
	var err error
	for err == nil {
		var e sandbox.Event
		if e, err = out.next(r.Context(), f); err == nil {
			err = s.writeEvent(r.Context(), out, e, how.roomy)
		}
	}
	if !errors.Is(err, io.EOF) || out.buffer.Flush() != nil { // net/http sends it, with the end
		if r.Context().Err() == nil && !errors.Is(err, executions.ErrCut) {
			s.Log.Warn("an event stream was cut", "execution", x.ID, "error", err)
		}
		panic(http.ErrAbortHandler)
	}
}

// writeEvent writes an event. A large result waits for room.
func (s *Server) writeEvent(ctx context.Context, out *eventWriter, e sandbox.Event, roomy bool) error {
	give, err := s.roomForEnd(ctx, e.Result, roomy)
	if err != nil {
		return err
	}
	defer give()
	return out.write(e)
}

// buffers are for many short streams.
var buffers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, 64<<10) }}

// eventWriter writes events, and sends them once no more are there.
type eventWriter struct {
	patientWriter
	buffer *bufio.Writer
	media  string
	fresh  bool // not even the header is sent
}

// next is the next event. While there is none it sends what is buffered, and then heartbeats.
func (o *eventWriter) next(ctx context.Context, f *executions.Follower) (sandbox.Event, error) {
	if !f.Waiting() {
		return f.Next(ctx)
	}
	for {
		wait, fresh := heartbeat, o.fresh
		if o.fresh = false; fresh {
			wait = headerWait
		} else if err := o.flush(); err != nil {
			return sandbox.Event{}, err
		}
		waiting, cancel := context.WithTimeout(ctx, wait)
		e, err := f.Next(waiting)
		cancel()
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return e, err
		}
		if fresh {
			continue
		}
		if o.media == mediaSSE {
			o.buffer.WriteString(":")
		}
		o.buffer.WriteString("\n")
	}
}

// write writes an event as a line of JSON. In mediaFrames a number is before it: so many
// bytes of the event's data follow the line, which has none. That is for clients that
// read a lot: text in JSON takes longer to write and to read than the rest together.
func (o *eventWriter) write(e sandbox.Event) error {
	var data []byte
	switch o.media {
	case mediaSSE:
		fmt.Fprintf(o.buffer, "id: %d\nevent: %s\ndata: ", e.Seq, e.Type)
	case mediaFrames:
		data, e.Data = e.Data, nil
		fmt.Fprintf(o.buffer, "%d ", len(data))
	}
	if err := e.WriteJSON(o.buffer); err != nil {
		return err
	}
	o.buffer.WriteByte('\n')
	o.buffer.Write(data)
	if o.media == mediaSSE {
		o.buffer.WriteByte('\n')
	}
	return nil // the buffer keeps its first error for flush
}

func (o *eventWriter) flush() error {
	if err := o.buffer.Flush(); err != nil {
		return err
	}
	return o.Flush()
}
