package mcpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"belljar/cmd/internal/access"
	"belljar/cmd/internal/executions"
	"belljar/cmd/internal/problem"
	"belljar/internal/names"
	"belljar/sandbox"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func (s *Server) addShell(m *mcp.Server) {
	add(s, m, mcp.Tool{
		Name: "shell_output", Title: "Read a command's output", Description: "Read what a command wrote, from an offset on, and how it ended. Each byte comes once if the offset is the last answer's next_offset.",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: no()},
	}, func(p map[string]*jsonschema.Schema) {
		within(p["offset"], 0, 1<<53)
		within(p["wait_seconds"], 0, maxYield)
	}, s.output)
	add(s, m, mcp.Tool{
		Name: "shell_input", Title: "Type into a command", Description: "Send text to the stdin of a command that was started with stdin_open. It adds no line end.",
		Annotations: &mcp.ToolAnnotations{DestructiveHint: yes(), IdempotentHint: true, OpenWorldHint: yes()},
	}, func(p map[string]*jsonschema.Schema) { within(p["offset"], 0, 1<<53) }, s.input)
	add(s, m, mcp.Tool{
		Name: "shell_signal", Title: "Signal a command", Description: "Send a signal to the processes of a running command: SIGINT as Ctrl-C does, SIGTERM to ask it to end, SIGKILL to end it.",
		Annotations: &mcp.ToolAnnotations{DestructiveHint: yes(), OpenWorldHint: no()},
	}, nil, s.signal)
}

type outputInput struct {
	ID     string   `json:"id" jsonschema:"The command's, from shell_run."`
	Offset int64    `json:"offset,omitempty" jsonschema:"Bytes of output before it are skipped; the last answer's next_offset continues."`
	Wait   *float64 `json:"wait_seconds,omitempty" jsonschema:"Wait so long for the command's end, or until the answer is full; default 0, and below 60 for most clients."`
}

func (s *Server) output(ctx context.Context, c call, in outputInput) (answer[Ran], error) {
	if _, err := access.Need(ctx, access.Read); err != nil {
		return answer[Ran]{}, err
	}
	x, err := s.own().Execution(ctx, access.Read, in.ID)
	if err != nil {
		return answer[Ran]{}, err
	}
	waiting, cancel := context.WithTimeout(ctx, seconds(in.Wait, 0))
	defer cancel()
	sum := callSum(c.Params.Name, in)
	if c.isAnswer() {
		if _, err := s.answered(ctx, c, sum); err != nil {
			return answer[Ran]{}, err
		}
	}
	asked, stop := s.Approvals.Watch(x.ID) // what shell_run answered too early to ask
	defer stop()
	if q, ok := c.question(waiting, x, asked); ok {
		if r := s.ask(ctx, c, sum, x, q); r != nil {
			return answer[Ran]{ask: r}, nil
		}
		waiting, cancel = context.WithTimeout(ctx, seconds(in.Wait, 0)) // the person's time does not count
		defer cancel()
	}
	p, whole, err := s.part(ctx, waiting, x, in.Offset)
	switch {
	case err != nil:
		return answer[Ran]{}, err
	case whole:
		return s.ended(ctx, x, p)
	}
	return unfinished(x, sandbox.Result{}, p.Text, p.next, p.notes()...), nil
}

// part reads output until there is enough for one answer, the execution ends or waiting does.
// over says that the execution has ended, and the part is the last one or full.
func (s *Server) part(ctx, waiting context.Context, x *executions.Execution, offset int64) (p *part, over bool, err error) {
	r, err := x.Read(ctx, sandbox.Merged, offset)
	if err != nil {
		return nil, false, err
	}
	defer r.Close()
	p = &part{from: offset}
	var data []byte
	for len(data) <= viewBytes && !over {
		var c sandbox.Chunk
		if c, err = r.Ready(ctx); errors.Is(err, io.EOF) {
			if c, err = r.Next(waiting); errors.Is(err, io.EOF) {
				over = true
				break
			}
		}
		if err != nil && waiting.Err() != nil && ctx.Err() == nil {
			break // enough waited
		}
		if err != nil {
			return nil, false, err
		}
		if c.Missed > 0 && len(data) > 0 {
			p.more = true // the next answer says so
			break
		}
		p.missed, p.from = p.missed+c.Missed, p.from+c.Missed
		data = append(data, c.Data...)
	}
	p.of(data, over)
	return p, over || p.more && isOver(x), nil
}

type inputInput struct {
	ID     string `json:"id" jsonschema:"The command's, from shell_run."`
	Text   string `json:"text,omitempty" jsonschema:"What to type, with its line end where the program reads lines."`
	Offset int64  `json:"offset" jsonschema:"Bytes that were sent before: 0 at first, then the last answer's offset. The same text at the same offset is typed once."`
	EOF    bool   `json:"eof,omitempty" jsonschema:"Close stdin after the text."`
}

// Typed is what shell_input answers.
type Typed struct {
	ID     string `json:"id"`
	Offset int64  `json:"offset" jsonschema:"For the next text."`
}

// inputWait is how long a command may take to read what is typed.
const inputWait = 10 * time.Second

func (s *Server) input(ctx context.Context, _ call, in inputInput) (a answer[Typed], err error) {
	x, err := s.own().Execution(ctx, access.Run, in.ID)
	if err != nil {
		return a, err
	}
	stdin, err := x.Input()
	if err != nil {
		return a, err
	}
	typing, cancel := context.WithTimeout(ctx, inputWait)
	defer cancel()
	n, err := stdin.Write(typing, in.Offset, strings.NewReader(in.Text), in.EOF)
	a.out = Typed{in.ID, n}
	switch {
	case err != nil && typing.Err() != nil && ctx.Err() == nil:
		return a, problem.New(problem.Timeout, fmt.Sprintf("the command does not read its stdin: it took the bytes up to offset %d", n), "send the rest later, from there on")
	case err != nil:
		return a, err
	}
	a.text = fmt.Sprintf("Typed. The next offset is %d; shell_output shows what the command answers.\n", n)
	return a, nil
}

type signalInput struct {
	ID     string `json:"id" jsonschema:"The command's, from shell_run."`
	Signal string `json:"signal" jsonschema:"Such as SIGINT, SIGTERM or SIGKILL."`
}

// Done says what was done.
type Done struct {
	Done string `json:"done"`
}

func done(format string, args ...any) answer[Done] {
	text := fmt.Sprintf(format, args...)
	return answer[Done]{text: text + "\n", out: Done{text}}
}

func (s *Server) signal(ctx context.Context, _ call, in signalInput) (a answer[Done], err error) {
	signal, err := names.ParseSignal(in.Signal)
	if err != nil {
		return a, err
	}
	x, err := s.own().Execution(ctx, access.Run, in.ID)
	if err != nil {
		return a, err
	}
	if signal == "SIGKILL" && (x.State() == executions.Queued || x.State() == executions.Waiting) {
		giveUp(x)
		return done("The command was given up before it began."), nil
	}
	if err := x.Signal(ctx, signal); err != nil {
		return a, err
	}
	return done("Sent %s. shell_output with wait_seconds shows how the command ends.", signal), nil
}
