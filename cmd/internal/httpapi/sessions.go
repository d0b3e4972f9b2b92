package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"belljar/cmd/internal/access"
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

// maxOwned is how many sessions have an owner before those that are gone are forgotten. A
// caller may name as many as it likes.
const maxOwned = 2000

// claimSession makes the caller the owner of a session that no one has. Owners.Use comes first.
func (s *Server) claimSession(ctx context.Context, who access.Identity, name string) error {
	if name == "" {
		return nil
	}
	owner, err := s.Owners.Of(name)
	if err != nil {
		return err
	}
	if owner != "" && !may(who, owner) || owner == "" && s.Owners.Count() >= maxOwned {
		if err := s.forgetSessions(ctx); err != nil {
			return err
		}
		if owner, err = s.Owners.Of(name); err != nil {
			return err
		}
	}
	if owner == "" {
		if err := s.unclaimed(ctx, who, name); err != nil {
			return err
		}
	}
	if owner, err = s.Owners.Claim(name, who.Name); err == nil && !may(who, owner) {
		err = notYours(name)
	}
	return err
}

// unclaimed refuses a session that exists and has no owner, as one that was made on the
// command line, and one more than can be recorded.
func (s *Server) unclaimed(ctx context.Context, who access.Identity, name string) error {
	if s.Owners.Count() >= maxOwned {
		return &sandbox.Error{Cause: sandbox.CauseBusy, Message: "there are too many sessions", Hint: "remove some"}
	}
	if who.Can(access.Admin) {
		return nil
	}
	list, err := s.Sessions.Sessions(ctx)
	if err == nil && hasSession(list, name) {
		err = notYours(name)
	}
	return err
}

func notYours(name string) error {
	return problem.New(problem.Conflict, fmt.Sprintf("session %q is another's", name), "choose another name")
}

// forgetSessions forgets whose those were that are gone.
func (s *Server) forgetSessions(ctx context.Context) error {
	idle, err := s.Owners.Idle(s.Book.Uses)
	if err != nil {
		return err
	}
	list, err := s.Sessions.Sessions(ctx)
	if err != nil {
		return err
	}
	return s.Owners.Forget(idle, func(name string) bool { return hasSession(list, name) })
}

// session refuses a session that is not the caller's.
func (s *Server) session(ctx context.Context, scope access.Scope, name string) (sandbox.SessionInfo, error) {
	defer s.Owners.Use(name)()
	who, err := need(ctx, scope)
	if err != nil {
		return sandbox.SessionInfo{}, err
	}
	list, err := s.Sessions.Sessions(ctx)
	if err != nil {
		return sandbox.SessionInfo{}, problem.Of(err)
	}
	owner, err := s.Owners.Of(name)
	if err != nil {
		return sandbox.SessionInfo{}, problem.Of(err)
	}
	i := slices.IndexFunc(list, func(i sandbox.SessionInfo) bool { return i.Name == name })
	if i < 0 || !may(who, owner) {
		return sandbox.SessionInfo{}, noSession(name)
	}
	return list[i], nil
}

func noSession(name string) *problem.Problem {
	return problem.New(problem.NotFound, fmt.Sprintf("no session %.80q", name), "list them: GET /v1/sessions")
}

func hasSession(list []sandbox.SessionInfo, name string) bool {
	return slices.ContainsFunc(list, func(i sandbox.SessionInfo) bool { return i.Name == name })
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
	run := &runInput{Body: RunRequest{Command: ":", Description: b.Description, Session: b.Name, Profile: b.Profile, Place: b.Place, Bounds: Bounds{Limits: b.Limits}}}
	who, err := need(ctx, access.Run)
	if err != nil {
		return nil, err
	}
	defer s.Owners.Use(b.Name)()
	x, err := s.start(ctx, who, run)
	if err != nil {
		return nil, problem.Of(err)
	}
	r, err := x.Result(ctx)
	if err != nil {
		return nil, problem.Of(err)
	}
	if r.Status != sandbox.StatusSuccess {
		if r.Error != nil {
			return nil, problem.Of(r.Error)
		}
		return nil, problem.Of(&sandbox.Error{Cause: sandbox.CauseEngine, Message: fmt.Sprintf("the session cannot run commands: %s", r.Message), Hint: "see GET /v1/executions/" + x.ID})
	}
	info, err := s.session(ctx, access.Run, b.Name)
	if err != nil {
		return nil, err
	}
	return &sessionOutput{info}, nil
}

type sessionsOutput struct {
	Body struct {
		Sessions []sandbox.SessionInfo `json:"sessions"`
	}
}

func (s *Server) listSessions(ctx context.Context, _ *struct{}) (*sessionsOutput, error) {
	who, err := need(ctx, access.Read)
	if err != nil {
		return nil, err
	}
	list, err := s.Sessions.Sessions(ctx)
	if err != nil {
		return nil, problem.Of(err)
	}
	out := &sessionsOutput{}
	out.Body.Sessions = []sandbox.SessionInfo{}
	for _, info := range list {
		owner, err := s.Owners.Of(info.Name)
		if err != nil {
			return nil, problem.Of(err)
		}
		if may(who, owner) {
			out.Body.Sessions = append(out.Body.Sessions, info)
		}
	}
	return out, nil
}

type sessionInput struct {
	Name string `path:"name" maxLength:"64"`
}

func (s *Server) getSession(ctx context.Context, in *sessionInput) (*sessionOutput, error) {
	info, err := s.session(ctx, access.Read, in.Name)
	if err != nil {
		return nil, err
	}
	return &sessionOutput{info}, nil
}

func (s *Server) removeSession(ctx context.Context, in *sessionInput) (*struct{}, error) {
	if err := s.endSession(ctx, in.Name); err != nil {
		return nil, err
	}
	return nil, orNil(s.forgetSessions(ctx))
}

func (s *Server) endSession(ctx context.Context, name string) error {
	defer s.Owners.Use(name)()
	if _, err := s.session(ctx, access.Run, name); err != nil {
		return err
	}
	return orNil(s.Sessions.RemoveSession(ctx, name))
}
