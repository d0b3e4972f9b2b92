package mcpapi_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"belljar/cmd/internal/access"
	"belljar/cmd/internal/executions"
	"belljar/cmd/internal/mcpapi"
	"belljar/sandbox"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// answering is a client whose person answers so. It counts the questions.
func answering(asked *atomic.Int64, r mcp.ElicitResult) *mcp.ClientOptions {
	return &mcp.ClientOptions{ElicitationHandler: func(_ context.Context, q *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		asked.Add(1)
		if m := q.Params.Message; !strings.Contains(m, "1 | touch ") || !strings.Contains(m, `rule "ask-touch"`) || !strings.Contains(m, "a person decides") || strings.Contains(m, "\x1b") {
			return nil, context.Canceled
		}
		return &r, nil
	}}
}

func accept(answer string) mcp.ElicitResult {
	return mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": answer}}
}

// What the policy asks about is asked at the client, once, and only a clear yes is one.
func TestElicitation(t *testing.T) {
	s := serve(t)
	s.listen(t)
	for _, version := range versions {
		for over, open := range map[string]func(testing.TB, *mcp.ClientOptions) client{
			"stdio": func(t testing.TB, o *mcp.ClientOptions) client { return s.overPipes(t, version, o) },
			"http":  func(t testing.TB, o *mcp.ClientOptions) client { return s.overHTTP(t, "judge", version, o) },
		} {
			t.Run(over+" "+version, func(t *testing.T) {
				var asked atomic.Int64
				var r mcpapi.Ran
				c := open(t, answering(&asked, accept("once")))
				c.call("shell_run", fields{"command": "touch x && ls", "description": "\x1b[31mred"}, &r)
				if r.Status != "success" || asked.Load() != 1 {
					t.Errorf("asked %d times: %+v", asked.Load(), r)
				}
				for _, no := range []mcp.ElicitResult{accept("deny"), {Action: "decline"}, {Action: "cancel"}} {
					c := open(t, answering(&asked, no))
					if got := c.refused("shell_run", fields{"command": "touch x"}); !strings.Contains(got, "not approved") || !strings.Contains(got, "Next: do not run it again") {
						t.Errorf("%+v: %s", no, got)
					}
				}
			})
		}
	}
}

// An answer for always is one for the session.
func TestElicitAlways(t *testing.T) {
	s := serve(t)
	var asked atomic.Int64
	c := s.overPipes(t, "", answering(&asked, accept("always")))
	for range 2 {
		c.call("shell_run", fields{"command": "touch x", "session": "always"}, nil)
	}
	if asked.Load() != 1 {
		t.Errorf("asked %d times", asked.Load())
	}
}

// Without the scope, or without a client that can ask, the question waits for others. The call
// need not.
func TestQuestionWaits(t *testing.T) {
	s := serve(t)
	s.listen(t)
	var asked atomic.Int64
	for name, c := range map[string]client{
		"no scope":       s.overHTTP(t, "ann", "", answering(&asked, accept("once"))),
		"no elicitation": s.overHTTP(t, "judge", "", nil),
		"earlier":        s.overHTTP(t, "ann", "2025-06-18", answering(&asked, accept("once"))),
	} {
		var r mcpapi.Ran
		got := text(c.call("shell_run", fields{"command": "touch x; echo done", "yield_seconds": 0.1}, &r))
		for r.State == "queued" { // the time was too short to judge it
			c.call("shell_output", fields{"id": r.ID, "wait_seconds": 0.1}, &r)
			got = "/v1/approvals"
		}
		if r.State != "waiting" || !strings.Contains(got, "/v1/approvals") {
			t.Fatalf("%s: %+v: %s", name, r, got)
		}
		if !s.asked.Answer(r.ID, s.asked.Waiting()[0].Name, sandbox.Approval{Answer: sandbox.AnswerOnce, By: "someone"}) {
			t.Fatal("it is answered already")
		}
		c.call("shell_output", fields{"id": r.ID, "wait_seconds": 60}, &r)
		if r.State != "ended" || r.Output != "done\n" {
			t.Errorf("%s: %+v", name, r)
		}
		c.call("shell_run", fields{"command": "touch x", "yield_seconds": 0.1}, &r)
		eventually(t, "it waits", func() bool { return len(s.asked.Waiting()) == 1 })
		s.asked.Answer(r.ID, s.asked.Waiting()[0].Name, sandbox.Approval{Answer: sandbox.AnswerDeny, By: "someone"})
		if got := c.refused("shell_output", fields{"id": r.ID, "wait_seconds": 60}); !strings.Contains(got, "not approved") {
			t.Errorf("%s: %s", name, got)
		}
	}
	if asked.Load() != 0 {
		t.Errorf("asked %d times", asked.Load())
	}
}

// At a program's stdin there is no one else to ask.
func TestNobodyToAsk(t *testing.T) {
	s := serve(t)
	for name, options := range map[string]*mcp.ClientOptions{
		"none": nil,
		"only by URL": {
			Capabilities:       &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{URL: &mcp.URLElicitationCapabilities{}}},
			ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) { return nil, nil },
		},
	} {
		for _, version := range versions {
			c := s.overPipes(t, version, options)
			if got := c.refused("shell_run", fields{"command": "touch x"}); !strings.Contains(got, "no one is available to ask") || !strings.Contains(got, "Next: run it again when a person can approve it") {
				t.Errorf("%s, %s: %s", name, version, got)
			}
		}
	}
}

// Who answers at /v1/approvals first has answered: the client's question is withdrawn.
func TestAnsweredElsewhere(t *testing.T) {
	s := serve(t)
	c := s.overPipes(t, "2025-06-18", &mcp.ClientOptions{ElicitationHandler: func(ctx context.Context, _ *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		for _, q := range s.asked.Waiting() {
			s.asked.Answer(q.ID, q.Name, sandbox.Approval{Answer: sandbox.AnswerOnce, By: "someone"})
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	var r mcpapi.Ran
	if got := text(c.call("shell_run", fields{"command": "touch x"}, &r)); !strings.Contains(got, "Approved by: someone") {
		t.Error(got)
	}
}

// A requestState is worth nothing to another caller, for another call, after its time or
// changed in any way, and gives its answer once.
func TestRequestState(t *testing.T) {
	s := serve(t)
	s.listen(t)
	var none atomic.Int64
	options := answering(&none, accept("once"))
	options.MultiRoundTrip = &mcp.MultiRoundTripOptions{Disabled: true}
	c, other := s.overHTTP(t, "judge", "", options), s.overPipes(t, "", options)
	arguments := fields{"command": "touch x; echo ran", "session": "once"}
	ask := func() *mcp.CallToolResult {
		t.Helper()
		r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "shell_run", Arguments: arguments})
		if err != nil || !r.NeedsInput() || r.RequestState == "" {
			t.Fatalf("%+v, %v", r, err)
		}
		return r
	}
	reply := func(c client, state string, arguments fields, answer string) *mcp.CallToolResult {
		t.Helper()
		yes := accept(answer)
		r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "shell_run", Arguments: arguments, RequestState: state, InputResponses: mcp.InputResponseMap{"answer": &yes}})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	state := ask().RequestState
	changed := []byte(state)
	changed[60] ^= 1
	for name, r := range map[string]*mcp.CallToolResult{
		"changed":         reply(c, string(changed), arguments, "once"),
		"empty":           reply(c, "", arguments, "once"),
		"short":           reply(c, "AAAA", arguments, "once"),
		"not base64":      reply(c, "?", arguments, "once"),
		"cut":             reply(c, state[:len(state)-4], arguments, "once"),
		"another's":       reply(other, state, arguments, "once"),
		"other arguments": reply(c, state, fields{"command": "touch y; echo ran"}, "once"),
	} {
		if !r.IsError || !strings.Contains(text(r), "requestState") {
			t.Errorf("%s: %s", name, text(r))
		}
	}
	if n := len(s.asked.Waiting()); n != 1 {
		t.Fatalf("%d questions wait", n)
	}
	var first, again mcpapi.Ran
	decode(t, reply(c, state, arguments, "once"), &first)
	decode(t, reply(c, state, arguments, "once"), &again) // as after a lost answer
	if first.Output != "ran\n" || again.ID != first.ID || again.Output != first.Output {
		t.Errorf("%+v, and again %+v", first, again)
	}
	denied := ask().RequestState
	if r := reply(c, denied, arguments, "deny"); !r.IsError || !strings.Contains(text(r), "not approved") {
		t.Errorf("denied: %s", text(r))
	}
	if r := reply(c, denied, arguments, "once"); !r.IsError || !strings.Contains(text(r), "not approved") {
		t.Errorf("a second answer counts: %s", text(r))
	}
	if none.Load() != 0 {
		t.Error("the client was asked another way")
	}
}

// Once a bug: a call that waits for less than the policy takes to decide asked no one.
func TestAskedWithoutWaiting(t *testing.T) {
	s := serve(t)
	s.listen(t)
	for _, version := range versions {
		for over, open := range map[string]func(*mcp.ClientOptions) client{
			"stdio": func(o *mcp.ClientOptions) client { return s.overPipes(t, version, o) },
			"http":  func(o *mcp.ClientOptions) client { return s.overHTTP(t, "judge", version, o) },
		} {
			t.Run(over+" "+version, func(t *testing.T) {
				var asked atomic.Int64
				var r mcpapi.Ran
				c := open(answering(&asked, accept("once")))
				c.call("shell_run", fields{"command": "touch x; sleep 1; echo done", "yield_seconds": 0}, &r)
				if r.State == "waiting" {
					t.Errorf("its answer is given: %+v", r)
				}
				for id := r.ID; r.State != "ended"; {
					c.call("shell_output", fields{"id": id, "wait_seconds": 10}, &r)
				}
				if r.Output != "done\n" || asked.Load() != 1 {
					t.Errorf("asked %d times: %+v", asked.Load(), r)
				}
			})
		}
	}
	c := s.overPipes(t, "", nil)
	if got := c.refused("shell_run", fields{"command": "touch x", "yield_seconds": 0}); !strings.Contains(got, "no one is available to ask") {
		t.Error(got)
	}
}

// A question that came after shell_run's answer is asked by shell_output.
func TestOutputAsks(t *testing.T) {
	s := serve(t)
	s.listen(t)
	late := func(owner string) string {
		t.Helper()
		x, err := s.Book.Start(t.Context(), sandbox.Command{Script: "touch x; echo done"}, executions.Request{Owner: owner, Detached: true})
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "it waits", func() bool { return len(s.asked.Waiting()) == 1 })
		return x.ID
	}
	for _, version := range versions {
		for over, open := range map[string]func(*mcp.ClientOptions) client{
			access.Local.Name: func(o *mcp.ClientOptions) client { return s.overPipes(t, version, o) },
			"judge":           func(o *mcp.ClientOptions) client { return s.overHTTP(t, "judge", version, o) },
		} {
			t.Run(over+" "+version, func(t *testing.T) {
				var asked atomic.Int64
				var r mcpapi.Ran
				for _, wait := range []float64{0, 60} {
					id := late(over)
					c := open(answering(&asked, accept("once")))
					for c.call("shell_output", fields{"id": id, "wait_seconds": wait}, &r); r.State != "ended"; {
						c.call("shell_output", fields{"id": id, "wait_seconds": 10}, &r)
					}
					if r.Output != "done\n" {
						t.Errorf("%+v", r)
					}
				}
				if asked.Load() != 2 {
					t.Errorf("asked %d times", asked.Load())
				}
				no := open(answering(&asked, accept("deny")))
				if got := no.refused("shell_output", fields{"id": late(over)}); !strings.Contains(got, "not approved") {
					t.Error(got)
				}
			})
		}
	}
	c := s.overPipes(t, "", nil)
	if got := c.refused("shell_output", fields{"id": late(access.Local.Name)}); !strings.Contains(got, "no one is available to ask") {
		t.Error(got)
	}
}
