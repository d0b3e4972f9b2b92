package httpapi

import (
	"bytes"
	"context"
	"io"
	"math"
	"net/http"
	"sync"
	"time"

	"belljar/cmd/internal/access"
	"belljar/cmd/internal/executions"
	"belljar/cmd/internal/problem"
	"belljar/cmd/internal/replicas"
	"belljar/sandbox"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// runInput is POST /v1/executions.
type runInput struct {
	Key    string `header:"Idempotency-Key" maxLength:"255" pattern:"^[\\x21-\\x7e]*$" doc:"The same key with the same body is the same execution."`
	Accept string `header:"Accept" doc:"application/x-ndjson or text/event-stream: the events as they come, instead of the result."`
	Wait   string `query:"wait" enum:"0,1" doc:"0: answer as soon as the execution is accepted, also where it waits for an approval then: if it is denied, its result says so."`
	Hold   string `query:"hold" enum:"0,1" doc:"1: check the command and have it approved, and begin with POST /v1/executions/{id}/start. The answer is its events, and an execution whose connection closes before that is forgotten."`
	Body   RunRequest
}

func (s *Server) registerExecutions(api huma.API) {
	events := content(api, "events", map[string]string{"application/json": "Result", mediaNDJSON: "Event", mediaSSE: "Event", mediaFrames: "Event"})
	events.Description = "The result, or the events as they come. Without hold it begins after 15 s at the latest, also where it is not clear yet whether the command may run: what is refused later is a result. Until there is more to say there is an empty line every 15 s, before the result, too."
	huma.Register(api, huma.Operation{
		OperationID: "run", Method: http.MethodPost, Path: "/v1/executions", Summary: "Run a command", MaxBodyBytes: -1, BodyReadTimeout: -1, Metadata: map[string]any{wholeBody: true}, Middlewares: huma.Middlewares{s.plainly},
		Responses: map[string]*huma.Response{"200": events, "202": acceptedResponse(api)}, Errors: []int{403, 409, 413, 422, 429, 502, 503},
	}, s.run)
	huma.Register(api, huma.Operation{OperationID: "start-execution", Method: http.MethodPost, Path: "/v1/executions/{id}/start", Summary: "Begin an execution that is held", Errors: []int{404, 429}}, s.startHeld)
	huma.Register(api, huma.Operation{OperationID: "list-executions", Method: http.MethodGet, Path: "/v1/executions", Summary: "List executions, the newest first"}, s.list)
	huma.Register(api, huma.Operation{
		OperationID: "get-execution", Method: http.MethodGet, Path: "/v1/executions/{id}", Summary: "See how far an execution is, and its result",
		Errors: []int{404}, Responses: map[string]*huma.Response{"200": content(api, "execution", map[string]string{"application/json": "Execution"})},
	}, s.get)
	huma.Register(api, huma.Operation{
		OperationID: "cancel-execution", Method: http.MethodDelete, Path: "/v1/executions/{id}", Summary: "Cancel an execution",
		Description:   "Its processes are listed and killed, after stop_grace if it has one. With kill they are killed at once. A request can be repeated: only kill makes it forceful. One that has ended does not change.",
		DefaultStatus: http.StatusAccepted, Errors: []int{404},
	}, s.cancel)
}

func (s *Server) run(ctx context.Context, in *runInput) (answer *huma.StreamResponse, err error) {
	who, err := access.Need(ctx, access.Run)
	if err != nil {
		return nil, err
	}
	err = s.placed(ctx, replicas.Request{Owner: who.Name, Key: in.Key, Session: in.Body.Session, ID: in.Body.ID, Starts: true}, func() error {
		answer, err = s.runHere(ctx, who, in)
		return err
	})
	if answer == nil && err == nil {
		return sentOn, nil
	}
	return answer, orNil(err)
}

// sentOn is the answer to a request that another replica has answered.
var sentOn = &huma.StreamResponse{Body: func(huma.Context) {}}

// placed calls here, or has another replica answer.
func (s *Server) placed(ctx context.Context, q replicas.Request, here func() error) error {
	b, ok := ctx.Value(bodyKey{}).(*body)
	if s.Replicas == nil || !ok {
		return here()
	}
	b.turn() // another replica may take long to answer, or to be reached
	q.Sum = b.sum.Sum(nil)
	again := b.request.WithContext(ctx)
	again.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(b.reader()), nil }
	return s.Replicas.Do(b.writer, again, q, here)
}

// runHere starts a command.
func (s *Server) runHere(ctx context.Context, who access.Identity, in *runInput) (*huma.StreamResponse, error) {
	defer s.Owners.Use(in.Body.Session)()
	c, r, err := s.request(ctx, who, in)
	r.Body, r.Release = parsed(ctx)
	if err != nil {
		r.Release()
		return nil, problem.Of(err)
	}
	in.Body = RunRequest{CancelOnDisconnect: in.Body.CancelOnDisconnect} // the rest may be large, and the command may take long
	asked := time.Now()
	if in.Hold == "1" {
		return s.hold(ctx, c, r)
	}
	x, err := s.Book.Start(ctx, c, r)
	if err != nil {
		return nil, problem.Of(err)
	}
	var give func()
	if in.Wait != "0" { // it may be an earlier one
		if give, err = s.roomForStored(ctx, x); err != nil {
			return nil, err
		}
	}
	return &huma.StreamResponse{Body: func(h huma.Context) {
		defer giveBack(give)
		r, w := humago.Unwrap(h)
		w.Header().Set("Location", "/v1/executions/"+x.ID)
		if in.Wait == "0" {
			writeJSON(w, http.StatusAccepted, accepted{x.ID})
			return
		}
		if in.Body.CancelOnDisconnect {
			defer cancelWith(r.Context(), x)()
		}
		if media := streamType(in.Accept); media != "" {
			s.stream(w, r, x, streaming{media: media, hold: true, roomy: give != nil})
			return
		}
		_, err := untilEnd(r.Context(), w, x, asked)
		var result sandbox.Result
		if err == nil {
			result, err = x.Result(r.Context())
		}
		if err != nil {
			panic(http.ErrAbortHandler) // the caller left
		}
		s.writeResult(w, r, result, give != nil)
	}}, nil
}

var errDisconnected = &sandbox.Error{Cause: sandbox.CauseCanceled, Message: "canceled: the caller disconnected"}

// cancelWith cancels the execution once the caller is gone: when ctx ends, or when the answer
// does before the execution, because it cannot be sent.
func cancelWith(ctx context.Context, x *executions.Execution) (left func()) {
	left = sync.OnceFunc(func() {
		select {
		case <-x.Done():
		default:
			x.Cancel(errDisconnected, false)
		}
	})
	context.AfterFunc(ctx, left)
	return left
}

// request is what the book takes of it.
func (s *Server) request(ctx context.Context, who access.Identity, in *runInput) (c sandbox.Command, r executions.Request, err error) {
	if c, err = in.Body.command(who); err != nil {
		return c, r, err
	}
	if err := s.own().Admit(ctx, who, c); err != nil {
		return c, r, err
	}
	r = executions.Request{
		Owner: who.Name, Key: in.Key, Detached: in.Wait == "0",
		CancelWithCaller: in.Body.CancelOnDisconnect && in.Wait != "0", CancelWithTerminal: in.Body.CancelOnDisconnect,
	}
	if in.Wait != "0" {
		r.Patience = heartbeat // then the answer begins: a proxy would end a request that no one answers
	}
	first, err := in.Body.stdin()
	switch {
	case err != nil:
	case in.Body.StdinOpen:
		r.Input, err = executions.NewInput(first)
	case len(first) > 0:
		c.Stdin = bytes.NewReader(first)
	}
	return c, r, err
}

// find is the caller's execution.
func (s *Server) find(ctx context.Context, scope access.Scope, id string) (*executions.Execution, error) {
	return s.own().Execution(ctx, scope, id)
}

type getInput struct {
	OfExecution
	Wait    float64 `query:"wait" minimum:"0" maximum:"3600" doc:"Wait for the end, for so many seconds at most. Every 15 s the answer has an empty line before its JSON."`
	Result  string  `query:"result" enum:"0,1" doc:"0: without the result, which can be large."`
	Streams string  `query:"streams" enum:"full,none" doc:"none: the result without stdout and stderr."`
}

func (s *Server) get(ctx context.Context, in *getInput) (*huma.StreamResponse, error) {
	x, err := s.find(ctx, access.Read, in.ID)
	if err == nil && math.IsNaN(in.Wait) { // which is in every range
		err = sandboxInvalid("send a number of seconds", "wait is no number")
	}
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(h huma.Context) {
		r, w := humago.Unwrap(h)
		s.writeExecution(r.Context(), w, x, in)
	}}, nil
}

func (s *Server) writeExecution(ctx context.Context, w http.ResponseWriter, x *executions.Execution, in *getInput) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(in.Wait*float64(time.Second)))
	defer cancel()
	begun, err := untilEnd(ctx, w, x, time.Now())
	if err != nil && ctx.Err() == nil {
		panic(http.ErrAbortHandler)
	}
	refuse := func(err error) {
		if begun {
			panic(http.ErrAbortHandler)
		}
		problem.Of(err).Write(w)
	}
	full := described{Summary: s.summary(ctx, x)}
	if full.State != executions.Ended || in.Result == "0" {
		writeJSON(w, http.StatusOK, full)
		return
	}
	give, err := s.roomForStored(context.WithoutCancel(ctx), x)
	if err != nil {
		refuse(err)
		return
	}
	defer giveBack(give)
	result, notices, err := x.Ending(context.WithoutCancel(ctx))
	if err != nil {
		refuse(err)
		return
	}
	if in.Streams == "none" {
		result.Streams = sandbox.StreamsNone
	}
	full.Notices = notices
	full.write(w, result)
}

type cancelInput struct {
	OfExecution
	Kill bool `query:"kill" doc:"At once, without a list of what runs."`
}

type cancelOutput struct {
	Body struct {
		ID    string           `json:"id"`
		State executions.State `json:"state" enum:"queued,waiting,held,running,ended"`
	}
}

func (s *Server) cancel(ctx context.Context, in *cancelInput) (*cancelOutput, error) {
	x, err := s.find(ctx, access.Run, in.ID)
	if err != nil {
		return nil, err
	}
	x.Cancel(nil, in.Kill)
	out := &cancelOutput{}
	out.Body.ID, out.Body.State = x.ID, x.State()
	return out, nil
}
