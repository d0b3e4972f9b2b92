package mcpapi

import (
	"context"
	"errors"
	"math"
	"time"

	"belljar/cmd/internal/access"
	"belljar/cmd/internal/executions"
	"belljar/sandbox"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The bounds of what a model gets at once. The text and the data have the output both, since
// clients show one of them: together they cost less than 10,000 tokens.
const (
	viewBytes = 12 << 10
	viewLines = 400
	viewChars = 1000 // of one line
)

// defaultYield is below the 60 s after which many clients cut a call.
const (
	defaultYield = 45.0
	maxYield     = 3600.0
)

// decisionTime is how long a call waits for what the policy decides, and for what comes of a
// person's answer, also where its own time is shorter: it asks that person.
const decisionTime = 5 * time.Second

// runInput is shell_run's.
type runInput struct {
	Command     string   `json:"command" jsonschema:"A shell script, passed to sh -c unchanged."`
	Description string   `json:"description,omitempty" jsonschema:"What the command is for, in a few words: shown to those who approve it, and in the audit log."`
	Directory   string   `json:"directory,omitempty" jsonschema:"Where it runs, in the container: absolute, or relative to the workspace, which is the default."`
	Timeout     *float64 `json:"timeout_seconds,omitempty" jsonschema:"Ends the command after so long."`
	IdleTimeout *float64 `json:"idle_timeout_seconds,omitempty" jsonschema:"Ends the command after so long without output; 0: never."`
	Session     string   `json:"session,omitempty" jsonschema:"Run in the session of this name, which keeps files and processes between commands. It is made if there is none."`
	Yield       *float64 `json:"yield_seconds,omitempty" jsonschema:"Answer after so long with the output so far, and let the command go on; default 45. shell_output reads the rest by the answer's id."`
	StdinOpen   bool     `json:"stdin_open,omitempty" jsonschema:"Keep stdin open for shell_input. Otherwise it is empty."`
}

func (s *Server) addRun(m *mcp.Server, text string) {
	add(s, m, mcp.Tool{
		Name: "shell_run", Title: "Run a command", Description: text,
		Annotations: &mcp.ToolAnnotations{DestructiveHint: yes(), OpenWorldHint: yes()},
	}, func(p map[string]*jsonschema.Schema) {
		p["description"].MaxLength = new(int)
		*p["description"].MaxLength = sandbox.MaxDescription
		within(p["timeout_seconds"], sandbox.MinTimeout.Seconds(), 31536000)
		within(p["idle_timeout_seconds"], 0, 31536000)
		within(p["yield_seconds"], 0, maxYield)
	}, s.run)
}

func (s *Server) run(ctx context.Context, c call, in runInput) (answer[Ran], error) {
	if _, err := access.Need(ctx, access.Run); err != nil {
		return answer[Ran]{}, err
	}
	command, yield, sum := s.command(c, in), seconds(in.Yield, defaultYield), callSum(c.Params.Name, in)
	waiting, cancel := context.WithTimeout(ctx, yield)
	defer cancel()
	if c.isAnswer() {
		x, err := s.answered(ctx, c, sum)
		if err != nil {
			return answer[Ran]{}, err
		}
		return s.follow(ctx, waiting, c, x, command)
	}
	deciding, cancel := context.WithTimeout(ctx, max(yield, decisionTime))
	defer cancel()
	asked, stop := s.Approvals.Watch(command.ID)
	defer stop()
	x, err := s.start(ctx, deciding, c.who, command, in.StdinOpen)
	if err != nil {
		return answer[Ran]{}, err
	}
	if q, ok := c.question(deciding, x, asked); ok {
		if r := s.ask(ctx, c, sum, x, q); r != nil {
			return answer[Ran]{ask: r}, nil
		}
		waiting, cancel = context.WithTimeout(ctx, yield) // the person's time does not count
		defer cancel()
	}
	return s.follow(ctx, waiting, c, x, command)
}

// command is what the book takes of the arguments.
func (s *Server) command(c call, in runInput) sandbox.Command {
	command := sandbox.Command{
		ID: s.Book.ChooseID(), Script: in.Command, Description: in.Description, Dir: in.Directory, Session: in.Session,
		Profile: s.Profile, Caller: sandbox.Caller{FrontEnd: frontEnd, Token: c.who.Name},
		Timeout: seconds(in.Timeout, 0), IdleTimeout: seconds(in.IdleTimeout, 0),
		View:    sandbox.View{Mode: sandbox.ViewMerged, Bytes: viewBytes, Lines: viewLines, LineChars: viewChars},
		Streams: sandbox.StreamsView,
	}
	if in.IdleTimeout != nil && *in.IdleTimeout == 0 {
		command.IdleTimeout = sandbox.NoIdleTimeout
	}
	if c.Params.GetProgressToken() != nil {
		command.Live = sandbox.LiveView
	}
	return command
}

func seconds(s *float64, otherwise float64) time.Duration {
	if s == nil {
		s = &otherwise
	}
	return time.Duration(math.Ceil(*s * float64(time.Second)))
}

// start begins a command, or has it wait for its turn or for an approval. Cancelling ctx ends it;
// waiting ends when it is time to answer.
func (s *Server) start(ctx, waiting context.Context, who access.Identity, command sandbox.Command, stdin bool) (*executions.Execution, error) {
	defer s.Owners.Use(command.Session)()
	if err := s.own().Admit(ctx, who, command); err != nil {
		return nil, err
	}
	request := executions.Request{Owner: who.Name, Detached: true}
	if stdin {
		var err error
		if request.Input, err = executions.NewInput(nil); err != nil {
			return nil, err
		}
	}
	x, err := s.Book.Start(waiting, command, request)
	if waiting.Err() != nil && errors.Is(err, waiting.Err()) {
		x, err = s.Book.Find(command.ID) // it goes on
	}
	switch {
	case err != nil:
		return nil, refused(command, err)
	case ctx.Err() != nil:
		giveUp(x)
		return nil, context.Cause(ctx)
	}
	return x, nil
}

var errCanceled = &sandbox.Error{Cause: sandbox.CauseCanceled, Message: "canceled: the call was canceled"}

// giveUp kills a command whose call was canceled, and waits for its end.
func giveUp(x *executions.Execution) {
	x.Cancel(errCanceled, true)
	<-x.Done()
}

// follow waits for the end of an execution, and tells how far it is.
func (s *Server) follow(ctx, waiting context.Context, c call, x *executions.Execution, command sandbox.Command) (answer[Ran], error) {
	defer context.AfterFunc(ctx, func() { x.Cancel(errCanceled, true) })() // at once, also where the client reads no progress
	stop := c.report(ctx, x)
	defer stop()
	select {
	case <-x.Done():
	case <-waiting.Done():
	}
	stop()
	switch {
	case isOver(x):
		return s.ended(ctx, x, nil)
	case ctx.Err() != nil:
		giveUp(x)
		return answer[Ran]{}, context.Cause(ctx)
	}
	return s.soFar(ctx, x, command)
}

// report sends the end of the output whenever there is more, if the client wants to know.
func (c call) report(ctx context.Context, x *executions.Execution) (stop func()) {
	token := c.Params.GetProgressToken()
	if token == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		f := x.Follow(0, false)
		defer f.Close()
		for {
			e, err := f.Next(ctx)
			if err != nil {
				return
			}
			if e.Type == sandbox.EventView {
				c.tell(ctx, float64(e.Seq), string(e.Data))
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// tell sends one progress notification. A client that cannot be told still gets the answer.
func (c call) tell(ctx context.Context, progress float64, text string) {
	if token := c.Params.GetProgressToken(); token != nil {
		_ = c.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: progress, Message: text})
	}
}
