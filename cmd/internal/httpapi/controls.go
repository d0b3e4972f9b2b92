package httpapi

import (
	"bytes"
	"context"
	"io"
	"net/http"

	"belljar/cmd/internal/access"
	"belljar/cmd/internal/problem"
	"belljar/internal/names"
	"belljar/sandbox"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

func (s *Server) registerControls(api huma.API) {
	const of = "/v1/executions/{id}"
	huma.Register(api, huma.Operation{
		OperationID: "send-stdin", Method: http.MethodPost, Path: of + "/stdin", Summary: "Send a part of stdin", Errors: []int{404, 409, 422},
		Description: "The body is the part's bytes. What the execution received already is not typed again, so a request can be repeated.",
		RequestBody: &huma.RequestBody{Content: map[string]*huma.MediaType{mediaBytes: {}}},
		Responses:   map[string]*huma.Response{"200": content(api, "how much was received so far", map[string]string{"application/json": "Received"})},
	}, s.stdin)
	huma.Register(api, huma.Operation{OperationID: "send-signal", Method: http.MethodPost, Path: of + "/signal", Summary: "Send a signal to an execution's processes", Errors: []int{404, 409, 422}}, s.signal)
	huma.Register(api, huma.Operation{OperationID: "resize-terminal", Method: http.MethodPost, Path: of + "/resize", Summary: "Change the size of an execution's terminal", Errors: []int{404, 409, 422}}, s.resizeTo)
	huma.Register(api, huma.Operation{OperationID: "touch", Method: http.MethodPost, Path: of + "/touch", Summary: "Restart an execution's idle timer", Errors: []int{404, 409}}, s.touch)
}

type stdinInput struct {
	OfExecution
	Offset int64 `query:"offset" minimum:"0" doc:"Of the part's first byte."`
	EOF    bool  `query:"eof" doc:"Nothing follows."`

	Failed string `query:"failed" maxLength:"2000" doc:"With eof: why stdin has no end, as reading it failed. The part can be empty. The command is ended, and its result says so."`
}

type received struct {
	Offset int64 `json:"offset"`
}

func (s *Server) stdin(ctx context.Context, in *stdinInput) (*huma.StreamResponse, error) {
	x, err := s.find(ctx, access.Run, in.ID)
	if err != nil {
		return nil, err
	}
	input, err := x.Input()
	if err != nil {
		return nil, problem.Of(err)
	}
	return &huma.StreamResponse{Body: func(h huma.Context) {
		r, w := humago.Unwrap(h)
		part, err := partOf(r)
		var n int64
		switch {
		case err != nil:
		case in.EOF && in.Failed != "":
			n, err = input.Fail(r.Context(), in.Offset, part, in.Failed)
		default:
			n, err = input.Write(r.Context(), in.Offset, part, in.EOF)
		}
		if err != nil {
			problem.Of(err).Write(w)
			return
		}
		writeJSON(w, http.StatusOK, received{n})
	}}, nil
}

// partOf is the request's body. A small one is read before it waits for the command: net/http sees
// only then that the client leaves, and those that a proxy gave up would be there until the end.
func partOf(r *http.Request) (io.Reader, error) {
	if r.ContentLength < 0 || r.ContentLength > smallBody {
		return r.Body, nil
	}
	part, err := io.ReadAll(r.Body)
	return bytes.NewReader(part), err
}

type signalInput struct {
	OfExecution
	Body struct {
		Signal string `json:"signal" doc:"Such as SIGTERM."`
	}
}

func (s *Server) signal(ctx context.Context, in *signalInput) (*struct{}, error) {
	x, err := s.find(ctx, access.Run, in.ID)
	if err != nil {
		return nil, err
	}
	signal, err := names.ParseSignal(in.Body.Signal)
	if err == nil {
		err = x.Signal(ctx, signal)
	}
	return nil, orNil(err)
}

type resizeInput struct {
	OfExecution
	Body Size
}

func (s *Server) resizeTo(ctx context.Context, in *resizeInput) (*struct{}, error) {
	x, err := s.find(ctx, access.Run, in.ID)
	if err != nil {
		return nil, err
	}
	return nil, orNil(x.Resize(in.Body.size()))
}

func (s *Server) touch(ctx context.Context, in *OfExecution) (*struct{}, error) {
	x, err := s.find(ctx, access.Run, in.ID)
	if err != nil {
		return nil, err
	}
	return nil, orNil(x.Touch())
}

// orNil is the problem of err, and no interface with nothing in it.
func orNil(err error) error {
	if err == nil {
		return nil
	}
	return problem.Of(err)
}

func sandboxInvalid(hint, format string, args ...any) error {
	return problem.Of(sandbox.Invalid(hint, format, args...))
}
