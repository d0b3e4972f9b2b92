package httpapi

import (
	"context"
	"strings"
	"time"

	"belljar/cmd/internal/access"
	"belljar/cmd/internal/executions"
	"belljar/sandbox"
)

// Summary is an execution in a list.
type Summary struct {
	ID          string           `json:"id"`
	State       executions.State `json:"state" enum:"queued,waiting,held,running,ended" doc:"waiting: for an approval. held: until its caller begins it."`
	Owner       string           `json:"owner"`
	Started     time.Time        `json:"started"`
	Profile     string           `json:"profile"`
	Session     string           `json:"session,omitempty"`
	Command     string           `json:"command,omitempty" doc:"Its beginning."`
	Description string           `json:"description,omitempty"`
	Status      sandbox.Status   `json:"status,omitempty" doc:"Once it has ended, as cause and exit_code."`
	Cause       sandbox.Cause    `json:"cause,omitempty"`
	ExitCode    *int             `json:"exit_code,omitempty"`
	Written     int64            `json:"output_bytes,omitempty" doc:"What it has written so far, while it runs."`

	Ended   *time.Time         `json:"ended,omitempty"`
	Expires *time.Time         `json:"expires,omitempty" doc:"When its output and result may be removed."`
	Keep    int64              `json:"keep_seconds,omitempty" doc:"How long these are kept after its end."`
	Stdout  *sandbox.LogStream `json:"stdout,omitempty"`
	Stderr  *sandbox.LogStream `json:"stderr,omitempty"`
}

type listInput struct {
	State string `query:"state" enum:"queued,waiting,held,running,ended"`
	Limit int    `query:"limit" default:"100" minimum:"1" maximum:"1000"`
}

type listOutput struct {
	Body struct {
		Executions []Summary `json:"executions"`
		Partial
	}
}

// Partial says what a list leaves out.
type Partial struct {
	Unanswered []string `json:"unanswered,omitempty" doc:"Replicas that did not answer: what is theirs is not in the list."`
}

func (s *Server) list(ctx context.Context, in *listInput) (*listOutput, error) {
	who, err := access.Need(ctx, access.Read)
	if err != nil {
		return nil, err
	}
	found := s.Book.List(func(x *executions.Execution) bool {
		return who.Owns(x.Owner) && (in.State == "" || string(x.State()) == in.State)
	})
	out := &listOutput{}
	out.Body.Executions = []Summary{}
	for _, x := range found[:min(len(found), in.Limit)] {
		out.Body.Executions = append(out.Body.Executions, s.summary(ctx, x))
	}
	return out, nil
}

func (s *Server) summary(ctx context.Context, x *executions.Execution) Summary {
	sum := Summary{ID: x.ID, State: x.State(), Owner: x.Owner, Started: x.Started, Profile: x.Profile, Session: x.Session, Written: x.Written()}
	info, err := s.Book.Logs.LogInfo(ctx, x.ID)
	if err != nil {
		sum.withoutLog(x)
		return sum
	}
	sum.Profile, sum.Command, sum.Description = info.Profile, info.Command, info.Description
	if sum.Keep = info.Keep; !info.Running {
		sum.Ended, sum.Expires = &info.Ended, &info.Expires
	}
	if end := info.LogEnd; end != nil {
		sum.Status, sum.Cause, sum.ExitCode, sum.Stdout, sum.Stderr = end.Status, end.Cause, &end.ExitCode, &end.Stdout, &end.Stderr
	}
	return sum
}

// withoutLog is for an execution that has not begun, or never did.
func (s *Summary) withoutLog(x *executions.Execution) {
	if r := x.Outcome(); r != nil {
		s.State = executions.Ended
		s.Command, s.Description, s.Status, s.Cause, s.ExitCode = beginning(r.Command), r.Description, r.Status, r.Cause, &r.ExitCode
	} else if s.State != executions.Ended {
		s.Command, s.Description = beginning(x.Script), x.Description
	}
}

// beginning is that of a command which has no log yet.
func beginning(script string) string { return strings.ToValidUTF8(script[:min(len(script), 512)], "") }

// OfExecution is the path of what is about one execution.
type OfExecution struct {
	ID string `path:"id" maxLength:"64"`
}
