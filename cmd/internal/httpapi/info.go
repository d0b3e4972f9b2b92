package httpapi

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"belljar/cmd/internal/access"
	"belljar/cmd/internal/problem"
	"belljar/sandbox"

	"github.com/danielgtaylor/huma/v2"
)

// Image is one of the engine's.
type Image struct {
	Name    string    `json:"name"`
	ID      string    `json:"id"`
	Digest  string    `json:"digest,omitempty" doc:"The registry's."`
	Size    int64     `json:"size_bytes"`
	Created time.Time `json:"created"`
}

// AuditHead is the end of the audit log's chain.
type AuditHead struct {
	Records uint64 `json:"records"`
	SHA256  string `json:"sha256" doc:"Of the last record: for belljar audit verify --head."`
}

func (s *Server) registerInfo(api huma.API) {
	s.registerApprovals(api)
	huma.Register(api, huma.Operation{OperationID: "who-am-i", Method: http.MethodGet, Path: "/v1/whoami", Summary: "See what the caller may do"}, s.whoami)
	huma.Register(api, huma.Operation{OperationID: "get-load", Method: http.MethodGet, Path: "/v1/load", Summary: "Count the commands of all callers that run and that wait", Errors: []int{403}}, s.load)
	huma.Register(api, huma.Operation{OperationID: "check-policy", Method: http.MethodPost, Path: "/v1/policy/check", Summary: "Ask what the policy says about a command, without running it", Errors: []int{403, 422}}, s.check)
	huma.Register(api, huma.Operation{OperationID: "list-profiles", Method: http.MethodGet, Path: "/v1/profiles", Summary: "List the profiles that the caller may use"}, s.profiles)
	huma.Register(api, huma.Operation{OperationID: "list-pools", Method: http.MethodGet, Path: "/v1/pools", Summary: "See the containers that are kept warm"}, s.pools)
	huma.Register(api, huma.Operation{OperationID: "list-images", Method: http.MethodGet, Path: "/v1/images", Summary: "List the engine's images"}, s.images)
	huma.Register(api, huma.Operation{OperationID: "get-audit-head", Method: http.MethodGet, Path: "/v1/audit/head", Summary: "Get the end of the audit log's chain, to keep it elsewhere", Errors: []int{404}}, s.auditHead)
}

type checkInput struct {
	Body struct {
		Command string `json:"command"`
		Profile string `json:"profile,omitempty"`
		Dir     string `json:"dir,omitempty"`
		Shell   string `json:"shell,omitempty" enum:"sh,bash"`
	}
}

type verdictOutput struct {
	Body sandbox.Verdict
}

func (s *Server) check(ctx context.Context, in *checkInput) (*verdictOutput, error) {
	b := in.Body
	v, err := s.own().Judge(ctx, b.Profile, b.Command, b.Dir, b.Shell)
	if err != nil {
		return nil, problem.Of(err)
	}
	return &verdictOutput{v}, nil
}

// profileInfo is a profile, as far as callers need it.
type profileInfo struct {
	Name        string  `json:"name"`
	Image       string  `json:"image"`
	Workdir     string  `json:"workdir"`
	User        string  `json:"user"`
	Network     string  `json:"network"`
	Runtime     string  `json:"runtime,omitempty"`
	Timeout     float64 `json:"timeout_seconds"`
	IdleTimeout float64 `json:"idle_timeout_seconds" doc:"0: none."`
	MaxTimeout  float64 `json:"max_timeout_seconds"`
	Limits      limits  `json:"limits"`
}

type profilesOutput struct {
	Body struct {
		Profiles []profileInfo `json:"profiles"`
	}
}

func (s *Server) profiles(ctx context.Context, _ *struct{}) (*profilesOutput, error) {
	who, err := access.Need(ctx, access.Read)
	if err != nil {
		return nil, err
	}
	out := &profilesOutput{}
	out.Body.Profiles = []profileInfo{}
	all := s.Profiles()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if p := all[name]; who.MayUse(name) {
			out.Body.Profiles = append(out.Body.Profiles, profileInfo{Name: name, Image: p.Image, Workdir: p.Workdir, User: p.User.String(), Network: p.Network, Runtime: p.Runtime,
				Timeout: p.Timeout.Seconds(), IdleTimeout: max(p.IdleTimeout, 0).Seconds(), MaxTimeout: p.MaxTimeout.Seconds(), Limits: limits(p.Limits)})
		}
	}
	return out, nil
}

type whoamiOutput struct {
	Body struct {
		Name     string         `json:"name" doc:"The owner of what the caller makes."`
		Scopes   []access.Scope `json:"scopes"`
		Profiles []string       `json:"profiles" doc:"*: all."`
	}
}

func (s *Server) whoami(ctx context.Context, _ *struct{}) (*whoamiOutput, error) {
	who, out := access.FromContext(ctx), &whoamiOutput{}
	out.Body.Name, out.Body.Scopes, out.Body.Profiles = who.Name, append([]access.Scope{}, who.Scopes...), append([]string{}, who.Profiles...)
	return out, nil
}

type loadOutput struct {
	Body struct {
		Running int `json:"running" doc:"Commands that run."`
		Waiting int `json:"waiting" doc:"Commands that wait for a free slot or for their session."`
		Asking  int `json:"asking" doc:"Commands that wait for an approval."`
	}
}

func (s *Server) load(ctx context.Context, _ *struct{}) (*loadOutput, error) {
	if _, err := access.Need(ctx, access.Admin); err != nil {
		return nil, err
	}
	out := &loadOutput{}
	out.Body.Running, out.Body.Waiting, out.Body.Asking = s.Load()
	return out, nil
}

type poolsOutput struct {
	Body struct {
		Pools []sandbox.PoolStatus `json:"pools"`
	}
}

func (s *Server) pools(ctx context.Context, _ *struct{}) (*poolsOutput, error) {
	if _, err := access.Need(ctx, access.Admin); err != nil {
		return nil, err
	}
	list, err := s.Pools.Pools(ctx)
	out := &poolsOutput{}
	out.Body.Pools = append([]sandbox.PoolStatus{}, list...)
	return out, orNil(err)
}

type imagesOutput struct {
	Body struct {
		Images []Image `json:"images"`
	}
}

func (s *Server) images(ctx context.Context, _ *struct{}) (*imagesOutput, error) {
	if _, err := access.Need(ctx, access.Admin); err != nil {
		return nil, err
	}
	list, err := s.Images(ctx)
	out := &imagesOutput{}
	out.Body.Images = append([]Image{}, list...)
	return out, orNil(err)
}

type auditHeadOutput struct {
	Body AuditHead
}

func (s *Server) auditHead(ctx context.Context, _ *struct{}) (*auditHeadOutput, error) {
	if _, err := access.Need(ctx, access.Admin); err != nil {
		return nil, err
	}
	if s.AuditHead == nil {
		return nil, problem.New(problem.NotFound, "the audit log is turned off", "set audit.enabled in sandbox.yaml")
	}
	head, err := s.AuditHead()
	if err != nil {
		return nil, problem.Of(fmt.Errorf("reading the audit log: %w", err))
	}
	return &auditHeadOutput{head}, nil
}
