package mcpapi

import (
	"context"
	"fmt"
	"strings"
	"time"

	"belljar/cmd/internal/access"
	"belljar/sandbox"
	"belljar/view"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func (s *Server) addSessions(m *mcp.Server) {
	add(s, m, mcp.Tool{
		Name: "session_list", Title: "List sessions", Description: "List the sessions that there are, and what runs in them.",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: no()},
	}, nil, s.listSessions)
	add(s, m, mcp.Tool{
		Name: "session_end", Title: "End a session", Description: "End a session, with its files and all that runs in it.",
		Annotations: &mcp.ToolAnnotations{DestructiveHint: yes(), OpenWorldHint: no()},
	}, nil, s.endSession)
}

// Listed are the sessions of a caller.
type Listed struct {
	Sessions []Session `json:"sessions"`
}

// Session is one of them.
type Session struct {
	Name    string    `json:"name"`
	Idle    float64   `json:"idle_seconds" jsonschema:"Since its last command."`
	Left    float64   `json:"left_seconds" jsonschema:"Until it ends, if no command runs in it."`
	Lost    string    `json:"lost,omitempty" jsonschema:"Why its files and processes are gone."`
	Running []Process `json:"running" jsonschema:"The first 20 processes."`
}

func (s *Server) listSessions(ctx context.Context, _ call, _ struct{}) (a answer[Listed], err error) {
	list, err := s.own().List(ctx, access.Read)
	if err != nil {
		return a, err
	}
	a.out.Sessions = []Session{}
	var text strings.Builder
	for _, i := range list {
		one := sessionOf(i, time.Now())
		a.out.Sessions = append(a.out.Sessions, one)
		fmt.Fprintf(&text, "%s: idle for %.0f s, ends in %.0f s, %d processes\n", one.Name, one.Idle, one.Left, len(i.Runs))
		if one.Lost != "" {
			fmt.Fprintf(&text, "  lost: %s\n", one.Lost)
		}
		for _, p := range one.Running {
			fmt.Fprintf(&text, "  PID %d: %s\n", p.PID, p.Command)
		}
	}
	if a.text = text.String(); a.text == "" {
		a.text = "There are no sessions: shell_run with a new name as session makes one.\n"
	}
	return a, nil
}

func sessionOf(i sandbox.SessionInfo, now time.Time) Session {
	end := i.Deadline
	if i.IdleEnd.Before(end) {
		end = i.IdleEnd
	}
	one := Session{Name: i.Name, Idle: max(now.Sub(i.LastUsed), 0).Round(time.Second).Seconds(), Left: max(end.Sub(now), 0).Round(time.Second).Seconds(), Lost: view.SafeLine(i.Lost), Running: []Process{}}
	for _, p := range i.Runs[:min(len(i.Runs), maxProcesses)] {
		one.Running = append(one.Running, processOf(p))
	}
	return one
}

type endInput struct {
	Session string `json:"session" jsonschema:"Its name."`
}

func (s *Server) endSession(ctx context.Context, _ call, in endInput) (a answer[Done], err error) {
	if err := s.own().EndSession(ctx, in.Session); err != nil {
		return a, err
	}
	return done("Session %s is ended.", in.Session), nil
}
