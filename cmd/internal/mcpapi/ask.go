package mcpapi

import (
	"context"
	"errors"
	"fmt"
	"time"

	"belljar/cmd/internal/access"
	"belljar/cmd/internal/approvals"
	"belljar/cmd/internal/executions"
	"belljar/cmd/internal/question"
	"belljar/sandbox"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// answerKey names the one question of a result, and the one field of its form.
	answerKey = "answer"

	// maxQuestion is the longest that a client is asked to show. A longer one waits at
	// /v1/approvals only.
	maxQuestion     = 32 << 10
	questionColumns = 100
)

// errNobody says why no one is asked.
var errNobody = &sandbox.Error{Cause: sandbox.CauseDenied, Message: "no one is available to ask: the client cannot show the question",
	Hint: "use a command that needs no approval; the policy in sandbox.yaml can allow this one, and a client that supports MCP elicitation can ask"}

// canAnswer reports whether the person at the client may approve commands, and the client can ask.
func (c call) canAnswer() bool {
	can := c.ClientCapabilities()
	return c.who.Can(access.Approve) && can != nil && can.Elicitation != nil && (can.Elicitation.Form != nil || can.Elicitation.URL == nil)
}

// question is what this call has a person asked about the execution, if that comes in time.
func (c call) question(waiting context.Context, x *executions.Execution, asked <-chan approvals.Asked) (q approvals.Asked, ok bool) {
	if !c.alone && !c.canAnswer() {
		return q, false
	}
	select {
	case q = <-asked:
		return q, true
	case <-x.Begun():
	case <-waiting.Done():
	}
	select { // one that is there is asked, however short the time
	case q = <-asked:
		return q, true
	default:
		return q, false
	}
}

// ask has the person at the client decide. By the newest protocol the call ends with the
// question, and comes again with the answer; by the others the client is asked meanwhile. Either
// way someone else may answer first, at /v1/approvals. Where no one can be asked it is denied.
func (s *Server) ask(ctx context.Context, c call, sum string, x *executions.Execution, q approvals.Asked) *mcp.CallToolResult {
	form := formOf(q.Question)
	switch {
	case len(form.Message) > maxQuestion || !c.canAnswer():
		if !c.alone {
			return nil
		}
		s.Approvals.Decline(q.ID, errNobody)
	case c.ProtocolVersion() >= sessionless:
		state := s.seal(promise{ID: x.ID, Question: q.Name, Expires: q.Deadline.Unix(), Who: c.who.Name, Call: sum})
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{answerKey: form}, RequestState: state}
	default:
		s.elicit(ctx, c, q, form)
	}
	settle(ctx, x)
	return nil
}

// settle waits for what comes of an answer: the call must not tell that the command waits for it.
func settle(ctx context.Context, x *executions.Execution) {
	select {
	case <-x.Begun():
	case <-time.After(decisionTime):
	case <-ctx.Done():
	}
}

// elicit asks the client, until there is an answer from there or from elsewhere.
func (s *Server) elicit(ctx context.Context, c call, q approvals.Asked, form *mcp.ElicitParams) {
	ctx, cancel := context.WithDeadline(ctx, q.Deadline)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		r, err := c.Session.Elicit(ctx, form)
		if err == nil || ctx.Err() == nil {
			s.Approvals.Answer(q.ID, q.Name, c.approval(r))
		}
	}()
	select {
	case <-done:
	case <-q.Gone:
		cancel()
		<-done
	}
}

// approval is the answer of the person at the client, in the name of its token. Whatever is not
// clearly a yes is a no.
func (c call) approval(r *mcp.ElicitResult) sandbox.Approval {
	a := sandbox.Approval{Answer: sandbox.AnswerDeny, By: c.who.Name}
	if r == nil || r.Action != "accept" {
		return a
	}
	switch given, _ := r.Content[answerKey].(string); sandbox.Answer(given) {
	case sandbox.AnswerOnce:
		a.Answer = sandbox.AnswerOnce
	case sandbox.AnswerAlways:
		a.Answer = sandbox.AnswerAlways // which the Runner takes for once where it is not offered
	}
	return a
}

// formOf is a question as clients show it.
func formOf(q sandbox.Question) *mcp.ElicitParams {
	look := question.Look{Columns: questionColumns, Beyond: "for all commands without a session, until belljar ends"}
	_, always := question.Always(q, look)
	answers, meaning := []any{sandbox.AnswerOnce, sandbox.AnswerDeny}, "once: run this command. deny: do not run it."
	if q.Always = q.Always && always; q.Always {
		answers = []any{sandbox.AnswerOnce, sandbox.AnswerAlways, sandbox.AnswerDeny}
		meaning = "once: run this command. always: also what \"if always\" names. deny: do not run it."
	}
	return &mcp.ElicitParams{Mode: "form", Message: question.Text(q, look), RequestedSchema: &jsonschema.Schema{
		Type: "object", Required: []string{answerKey},
		Properties: map[string]*jsonschema.Schema{answerKey: {Type: "string", Title: "Allow it?", Description: meaning, Enum: answers}},
	}}
}

// isAnswer reports whether the call is repeated with an answer.
func (c call) isAnswer() bool { return c.Params.RequestState != "" || c.Params.InputResponses != nil }

// answered is the execution that a repeated call is about, once its answer is given. A call that
// is repeated again gives no second answer, and waits for the same execution.
func (s *Server) answered(ctx context.Context, c call, sum string) (*executions.Execution, error) {
	p, err := s.unseal(c.Params.RequestState, time.Now())
	if err == nil && (p.Who != c.who.Name || p.Call != sum) {
		err = errors.New("it belongs to another call")
	}
	if err != nil {
		return nil, sandbox.Invalid(fmt.Sprintf("call %s again without requestState, and answer what that asks", c.Params.Name), "requestState: %v", err)
	}
	x, err := s.Book.Find(p.ID)
	if err != nil {
		return nil, err
	}
	if c.who.Can(access.Approve) {
		r, _ := c.Params.InputResponses[answerKey].(*mcp.ElicitResult)
		s.Approvals.Answer(x.ID, p.Question, c.approval(r))
		settle(ctx, x)
	}
	return x, nil
}
