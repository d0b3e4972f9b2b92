package mcpapi

import (
	"context"
	"fmt"
	"strings"

	"belljar/sandbox"
	"belljar/view"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func (s *Server) addPolicy(m *mcp.Server) {
	add(s, m, mcp.Tool{
		Name: "policy_explain", Title: "Explain the policy", Description: "See what the policy says about a command, and why, without running it: allow, ask (a person decides) or deny.",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: no()},
	}, nil, s.explain)
}

type explainInput struct {
	Command   string `json:"command" jsonschema:"A shell script."`
	Directory string `json:"directory,omitempty" jsonschema:"Where it would run; as shell_run's."`
}

// Verdict is what the policy says.
type Verdict struct {
	Decision string `json:"decision" jsonschema:"allow, ask or deny."`
	Rule     string `json:"rule,omitempty" jsonschema:"That decided; without one it is the default."`
	Reason   string `json:"reason,omitempty"`
	Part     string `json:"part,omitempty" jsonschema:"Of the command, that decided."`
	Line     int    `json:"line,omitempty"`

	Commands []Judged `json:"commands" jsonschema:"Each command of the script."`
	Unknown  []string `json:"unknown,omitempty" jsonschema:"What only the run reveals."`
}

// Judged is one command of a script.
type Judged struct {
	Part     string `json:"part"`
	Decision string `json:"decision"`
	Rule     string `json:"rule,omitempty"`
	Reason   string `json:"reason,omitempty"`
}

const (
	maxJudged   = 50
	maxPart     = 200 // bytes of a script
	partOmitted = "…"
)

func (s *Server) explain(ctx context.Context, _ call, in explainInput) (a answer[Verdict], err error) {
	v, err := s.own().Judge(ctx, s.Profile, in.Command, in.Directory, "")
	if err != nil {
		return a, err
	}
	a.out = Verdict{Decision: v.Decision.String(), Rule: v.Rule, Reason: view.SafeLine(v.Reason), Part: partOf(in.Command, v.Span), Line: v.Span.Line, Commands: []Judged{}}
	var text strings.Builder
	fmt.Fprintf(&text, "Decision: %s\nBy: %s\n", v.Decision, v.Who())
	line := func(name, is string) {
		if is != "" {
			fmt.Fprintf(&text, "%s: %s\n", name, is)
		}
	}
	line("Reason", a.out.Reason)
	line("Part", a.out.Part)
	for _, u := range v.Unknown[:min(len(v.Unknown), maxJudged)] {
		a.out.Unknown = append(a.out.Unknown, view.SafeLine(u.What))
		line("Not known before it runs", view.SafeLine(u.What))
	}
	for _, c := range v.Commands[:min(len(v.Commands), maxJudged)] {
		one := Judged{partOf(in.Command, c.Span), c.Decision.String(), c.Rule, view.SafeLine(c.Reason)}
		a.out.Commands = append(a.out.Commands, one)
		line("  "+one.Decision, one.Part)
	}
	a.text = text.String()
	return a, nil
}

// partOf is the span of a script, safe to show.
func partOf(script string, span sandbox.ScriptSpan) string {
	part := script[min(max(span.Start, 0), len(script)):min(max(span.End, span.Start, 0), len(script))]
	if len(part) > maxPart {
		part = strings.ToValidUTF8(part[:maxPart], "") + partOmitted
	}
	return view.SafeLine(part)
}
