package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"belljar/cmd/internal/access"
	"belljar/cmd/internal/approvals"
	"belljar/cmd/internal/problem"
	"belljar/sandbox"

	"github.com/danielgtaylor/huma/v2"
)

// question is what a person reads before the answer. All of it may be hostile.
type question struct {
	ID          string          `json:"id" doc:"The execution's."`
	Question    string          `json:"question" doc:"Names this question: its answer has it."`
	Command     string          `json:"command"`
	Shell       string          `json:"shell"`
	Dir         string          `json:"dir"`
	Env         []string        `json:"env,omitempty" doc:"What the caller set, or takes from its environment."`
	Stdin       bool            `json:"stdin" doc:"The command reads input that is not shown here."`
	Files       []string        `json:"files,omitempty" doc:"PATH:SIZE of the files that the command finds. What is in them is not shown here."`
	Description string          `json:"description,omitempty" doc:"In the caller's words."`
	Image       string          `json:"image"`
	User        string          `json:"user"`
	Network     string          `json:"network"`
	Mounts      []mount         `json:"mounts,omitempty"`
	Tmpfs       []string        `json:"tmpfs,omitempty"`
	Runtime     string          `json:"runtime,omitempty"`
	Profile     string          `json:"profile"`
	Session     string          `json:"session,omitempty"`
	Verdict     sandbox.Verdict `json:"verdict"`
	Always      bool            `json:"always" doc:"The answer always is possible."`
	Deadline    time.Time       `json:"deadline"`
}

func asked(q approvals.Asked) question {
	mounts := []mount{}
	for _, m := range q.Mounts {
		mounts = append(mounts, mount{m.Source, m.Target, m.Writable})
	}
	return question{ID: q.ID, Question: q.Name, Command: q.Script, Shell: q.Shell, Dir: q.Dir, Env: q.Env, Stdin: q.Stdin, Files: q.Files, Description: q.Description, Image: q.Image, User: q.User.String(),
		Network: q.Network, Mounts: mounts, Tmpfs: q.Tmpfs, Runtime: q.Runtime, Profile: q.Profile, Session: q.Session, Verdict: q.Verdict, Always: q.Always, Deadline: q.Deadline}
}

type approvalsOutput struct {
	Body struct {
		Approvals []question `json:"approvals"`
		Partial
	}
}

func (s *Server) registerApprovals(api huma.API) {
	huma.Register(api, huma.Operation{OperationID: "list-approvals", Method: http.MethodGet, Path: "/v1/approvals", Summary: "List the commands that wait for an approval"}, s.listApprovals)
	huma.Register(api, huma.Operation{OperationID: "answer-approval", Method: http.MethodPost, Path: "/v1/approvals/{id}", Summary: "Approve a command, or deny it", Errors: []int{404}}, s.answer)
}

func (s *Server) listApprovals(ctx context.Context, _ *struct{}) (*approvalsOutput, error) {
	if _, err := access.Need(ctx, access.Approve); err != nil {
		return nil, err
	}
	out := &approvalsOutput{}
	out.Body.Approvals = []question{}
	for _, q := range s.Approvals.Waiting() {
		out.Body.Approvals = append(out.Body.Approvals, asked(q))
	}
	return out, nil
}

type answerInput struct {
	OfExecution
	Body struct {
		Answer   sandbox.Answer `json:"answer" enum:"once,always,deny"`
		Question string         `json:"question" minLength:"1" maxLength:"64" doc:"The question that was read, from GET /v1/approvals. By now another command may have the same ID: that is another question."`
	}
}

func (s *Server) answer(ctx context.Context, in *answerInput) (*struct{}, error) {
	who, err := access.Need(ctx, access.Approve)
	if err != nil {
		return nil, err
	}
	if !s.Approvals.Answer(in.ID, in.Body.Question, sandbox.Approval{Answer: in.Body.Answer, By: who.Name}) {
		return nil, problem.New(problem.NotFound, fmt.Sprintf("no question %.80q waits for an answer", in.ID), "it was answered, or its time is over: GET /v1/approvals")
	}
	return nil, nil
}
