package httpapi

import (
	"context"
	"net/http"

	"belljar/cmd/internal/access"
	"belljar/cmd/internal/executions"
	"belljar/cmd/internal/problem"
	"belljar/sandbox"

	"github.com/danielgtaylor/huma/v2"
)

func (s *Server) registerSessions(api huma.API) {
	huma.Register(api, huma.Operation{
		OperationID: "create-session", Method: http.MethodPost, Path: "/v1/sessions", Summary: "Make a session", DefaultStatus: http.StatusCreated, Errors: []int{403, 409, 422, 429, 502},
	}, s.createSession)
	huma.Register(api, huma.Operation{OperationID: "list-sessions", Method: http.MethodGet, Path: "/v1/sessions", Summary: "List sessions, and what runs in them"}, s.listSessions)
	huma.Register(api, huma.Operation{OperationID: "get-session", Method: http.MethodGet, Path: "/v1/sessions/{name}", Summary: "See one session", Errors: []int{404}}, s.getSession)
	huma.Register(api, huma.Operation{OperationID: "remove-session", Method: http.MethodDelete, Path: "/v1/sessions/{name}", Summary: "End a session, with all that runs in it", Errors: []int{404}}, s.removeSession)
}

// sessionRequest is the container of a session.
type sessionRequest struct {
	Name        string `json:"name" maxLength:"64"`
	Description string `json:"description,omitempty" maxLength:"1000"`
	Profile     string `json:"profile,omitempty"`
	Limits      limits `json:"limits,omitempty"`
	Place
}

type createSessionInput struct {
	Body sessionRequest
}

type sessionOutput struct {
	Body sandbox.SessionInfo
}

// createSession runs a command that does nothing: the first one of a session makes it.
func (s *Server) createSession(ctx context.Context, in *createSessionInput) (*sessionOutput, error) {
	b := in.Body
	if b.Name == "" {
		return nil, sandboxInvalid("name the session", "name is empty")
	}
	who, err := access.Need(ctx, access.Run)
	if err != nil {
		return nil, err
	}
	run := &runInput{Body: RunRequest{Description: b.Description, Session: b.Name, Profile: b.Profile, Place: b.Place, Bounds: Bounds{Limits: b.Limits}}}
	c, err := run.Body.command(who)
	if err == nil {
		err = s.own().OpenSession(ctx, who, c, executions.Request{Owner: who.Name})
	}
	if err != nil {
		return nil, problem.Of(err)
	}
	info, err := s.own().Session(ctx, access.Run, b.Name)
	if err != nil {
		return nil, problem.Of(err)
	}
	return &sessionOutput{info}, nil
}

type sessionsOutput struct {
	Body struct {
		Sessions []sandbox.SessionInfo `json:"sessions"`
		Partial
	}
}

func (s *Server) listSessions(ctx context.Context, _ *struct{}) (*sessionsOutput, error) {
	list, err := s.own().List(ctx, access.Read)
	if err != nil {
		return nil, problem.Of(err)
	}
	out := &sessionsOutput{}
	out.Body.Sessions = list
	return out, nil
}

type sessionInput struct {
	Name string `path:"name" maxLength:"64"`
}

func (s *Server) getSession(ctx context.Context, in *sessionInput) (*sessionOutput, error) {
	info, err := s.own().Session(ctx, access.Read, in.Name)
	if err != nil {
		return nil, problem.Of(err)
	}
	return &sessionOutput{info}, nil
}

func (s *Server) removeSession(ctx context.Context, in *sessionInput) (*struct{}, error) {
	return nil, orNil(s.own().EndSession(ctx, in.Name))
}
