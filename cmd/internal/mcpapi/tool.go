package mcpapi

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"belljar/cmd/internal/access"
	"belljar/cmd/internal/problem"
	"belljar/sandbox"
	"belljar/sandbox/report"
	"belljar/view"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// call is one call of a tool.
type call struct {
	who   access.Identity
	alone bool // no one but the person at this client can be asked
	*mcp.CallToolRequest
}

// answer is a tool's: a text for models, and the same as data.
type answer[Out any] struct {
	text string
	out  Out
	ask  *mcp.CallToolResult // instead of an answer: what a person is asked first
}

// add adds a tool. What handle refuses is an answer with isError. edit bounds the arguments.
func add[In, Out any](s *Server, m *mcp.Server, t mcp.Tool, edit func(properties map[string]*jsonschema.Schema), handle func(context.Context, call, In) (answer[Out], error)) {
	t.InputSchema = arguments[In](edit)
	mcp.AddTool(m, &t, func(ctx context.Context, r *mcp.CallToolRequest, in In) (*mcp.CallToolResult, Out, error) {
		ctx, c, leave := s.enter(ctx, r)
		defer leave()
		a, err := handle(ctx, c, in)
		switch {
		case err != nil:
			return nil, a.out, refusalOf(err)
		case a.ask != nil:
			return a.ask, a.out, nil
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: a.text}}}, a.out, nil
	})
}

// arguments is the schema of a tool's arguments. A pointer is a number that may be left out: null
// is none.
func arguments[In any](edit func(map[string]*jsonschema.Schema)) *jsonschema.Schema {
	schema, err := jsonschema.For[In](nil)
	if err != nil {
		panic(err) // the types are ours
	}
	for _, p := range schema.Properties {
		if i := slices.Index(p.Types, "null"); i >= 0 && len(p.Types) == 2 {
			p.Type, p.Types = p.Types[1-i], nil
		}
	}
	if edit != nil {
		edit(schema.Properties)
	}
	return schema
}

func within(p *jsonschema.Schema, least, most float64) { p.Minimum, p.Maximum = &least, &most }

// refusal is what a model reads of an error: what is wrong, and what to do next.
type refusal string

func (r refusal) Error() string { return string(r) }

func refusalOf(err error) refusal {
	if r, ok := errors.AsType[refusal](err); ok {
		return r
	}
	p := problem.Of(err)
	text := fmt.Sprintf("Refused (%s): %s\n", p.Code, view.SafeLine(p.Detail))
	if p.Hint != "" {
		text += "Next: " + view.SafeLine(p.Hint) + "\n"
	}
	return refusal(text)
}

// refused is the refusal of a command, in the words that reports have for it.
func refused(c sandbox.Command, err error) error {
	if _, ok := errors.AsType[*sandbox.Error](err); !ok {
		return err
	}
	return refusal(report.Text(sandbox.Refused(c, err), report.Options{Brief: true}))
}

// lifeKey has the context of the HTTP request, or of the client's connection: the protocol's own
// loses that ending.
type lifeKey struct{}

// caller is a call's context, with what the context of its own request has: the protocol's has that of its session's first request.
type caller struct {
	context.Context
	request context.Context
}

// Value implements context.Context.
func (c caller) Value(key any) any {
	if v := c.request.Value(key); v != nil {
		return v
	}
	return c.Context.Value(key)
}

// enter is the context of a call: with the identity that the request came with, and as long as
// the call, the request that waits for it and the server are.
func (s *Server) enter(ctx context.Context, r *mcp.CallToolRequest) (context.Context, call, func()) {
	who, life, alone := access.FromContext(ctx), ctx.Value(lifeKey{}), true
	if r.Extra != nil && r.Extra.TokenInfo != nil {
		request := r.Extra.TokenInfo.Extra[requestContext].(context.Context)
		who, life, alone = access.FromContext(request), request, false
	}
	end := s.begin()
	if life, ok := life.(context.Context); ok {
		ctx = caller{ctx, life}
	}
	ctx, cancel := context.WithCancelCause(access.With(ctx, who))
	stops := []func() bool{context.AfterFunc(s.ctx, func() { cancel(errClosing) })}
	if life, ok := life.(context.Context); ok {
		stops = append(stops, context.AfterFunc(life, func() { cancel(context.Cause(life)) }))
	}
	return ctx, call{who, alone, r}, func() {
		for _, stop := range stops {
			stop()
		}
		cancel(nil)
		end()
	}
}

// begin counts what Close waits for. After Close there is nothing to count: all is canceled.
func (s *Server) begin() (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return func() {}
	}
	s.all.Add(1)
	return s.all.Done
}

func yes() *bool { b := true; return &b }
func no() *bool  { return new(bool) }
