package httpapi

import (
	"context"
	"net/http"

	"belljar/cmd/internal/access"
	"belljar/cmd/internal/executions"
	"belljar/cmd/internal/problem"
	"belljar/sandbox"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// A client that runs several commands only if all are allowed has the sidecar hold each,
// and begins them afterwards. An execution is held for as long as the connection of its
// request is open: what was forgotten needs no clock.

// hold answers with the events of an execution that begins later.
func (s *Server) hold(ctx context.Context, c sandbox.Command, r executions.Request) (*huma.StreamResponse, error) {
	held, err := s.Book.Hold(ctx, c, r)
	if err != nil {
		return nil, problem.Of(err)
	}
	return &huma.StreamResponse{Body: func(h huma.Context) {
		caller, w := humago.Unwrap(h)
		defer held.Close()
		head(w, mediaNDJSON)
		w.Header().Set("Location", "/v1/executions/"+held.ID)
		http.NewResponseController(w).Flush() // where that fails, the caller is gone
		x := held.Started(caller.Context())
		if x == nil {
			panic(http.ErrAbortHandler)
		}
		if r.CancelWithCaller {
			defer cancelWith(caller.Context(), x)()
		}
		s.stream(w, caller, x, streaming{media: mediaNDJSON, hold: true})
	}}, nil
}

func (s *Server) startHeld(ctx context.Context, in *OfExecution) (*struct{}, error) {
	who, err := access.Need(ctx, access.Run)
	if err != nil {
		return nil, err
	}
	return nil, orNil(s.Book.StartHeld(ctx, in.ID, who.Owns))
}
