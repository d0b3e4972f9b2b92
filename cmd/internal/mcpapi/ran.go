package mcpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"belljar/cmd/internal/executions"
	"belljar/sandbox"
	"belljar/sandbox/report"
	"belljar/view"
)

// Ran is what shell_run and shell_output tell of a command.
type Ran struct {
	ID          string           `json:"id" jsonschema:"For shell_output, shell_input and shell_signal."`
	State       executions.State `json:"state" jsonschema:"queued, waiting (for an approval), running or ended."`
	Status      string           `json:"status" jsonschema:"As state, or how it ended: success, error, timeout or canceled."`
	Cause       string           `json:"cause,omitempty" jsonschema:"Why it ended."`
	ExitCode    *int             `json:"exit_code,omitempty" jsonschema:"The command's own; -1 if belljar ended it."`
	Signal      string           `json:"signal,omitempty"`
	Message     string           `json:"message,omitempty"`
	Next        string           `json:"next,omitempty" jsonschema:"What usually helps."`
	Directory   string           `json:"directory,omitempty"`
	Session     string           `json:"session,omitempty"`
	SessionLost string           `json:"session_lost,omitempty" jsonschema:"Why the session's files and processes are gone."`
	Background  []Process        `json:"background,omitempty" jsonschema:"What still ran when the command ended."`
	Notes       []string         `json:"notes,omitempty"`
	Elapsed     float64          `json:"elapsed_seconds"`
	Output      string           `json:"output" jsonschema:"stdout and stderr in order of arrival. Characters that are not visible are escaped."`
	Omitted     int64            `json:"omitted_bytes,omitempty" jsonschema:"Bytes that are not in output: shell_output reads them."`
	NextOffset  int64            `json:"next_offset" jsonschema:"Where shell_output continues."`
}

// Process is one that a command left.
type Process struct {
	PID     int    `json:"pid"`
	Command string `json:"command"`
}

const (
	maxProcesses = 20
	maxArguments = 200 // bytes of one process's command
)

func processOf(p sandbox.Process) Process {
	command := p.Command
	if len(command) > maxArguments {
		command = command[:maxArguments] + "…"
	}
	return Process{p.PID, view.SafeLine(command)}
}

// ran is the answer about a command. A result of one that has not ended has no cause to tell.
func ran(r sandbox.Result, state executions.State, next int64, notes ...string) answer[Ran] {
	a := answer[Ran]{out: Ran{
		ID: r.ID, State: state, Status: string(r.Status), Signal: r.Signal, Message: view.SafeLine(r.Message), Directory: view.SafeLine(r.Dir), Session: r.Session,
		SessionLost: view.SafeLine(r.SessionLost), Elapsed: r.Timing.Total.Round(time.Millisecond).Seconds(), NextOffset: next,
	}}
	for _, n := range notes {
		a.out.Notes = append(a.out.Notes, view.SafeLine(n))
	}
	readMore := ""
	if state == executions.Ended {
		a.out.Cause, a.out.ExitCode, a.out.Next = string(r.Cause), &r.ExitCode, report.Next(r)
		readMore = fmt.Sprintf("shell_output with id %q reads it, from any offset", r.ID)
	}
	for _, p := range r.Lingering[:min(len(r.Lingering), maxProcesses)] {
		a.out.Background = append(a.out.Background, processOf(p))
	}
	if r.Views != nil && r.Views.Merged != nil {
		a.out.Output, a.out.Omitted = r.Views.Merged.Text, r.Views.Merged.OmittedBytes
	} else if r.Summary != "" {
		a.out.Output, a.out.Omitted = view.Safe(r.Summary), r.Stdout.Total+r.Stderr.Total
	}
	a.text = report.Text(r, report.Options{Notices: notes, ReadMore: readMore})
	return a
}

// ended is the answer about an execution that ended. With a part of its output it has that. One
// that belljar or the engine failed, or that was never allowed, is a refusal.
func (s *Server) ended(ctx context.Context, x *executions.Execution, p *part) (answer[Ran], error) {
	r, notices, err := x.Ending(ctx)
	switch {
	case err != nil:
		return answer[Ran]{}, err
	case r.Status == sandbox.StatusDenied || r.Status == sandbox.StatusFatal || r.Status == sandbox.StatusCanceled && r.ExitCode == sandbox.ExitNeverRan:
		return answer[Ran]{}, refusal(report.Text(r, report.Options{Notices: notices}))
	}
	next := int64(0)
	if p != nil {
		r.Views, r.Summary, next = &sandbox.Views{Merged: &p.Text}, "", p.next
		if p.more {
			notices = append(notices, fmt.Sprintf("there is more output: call shell_output with offset %d", p.next))
		}
		notices = append(notices, p.notes()...)
	}
	return ran(r, executions.Ended, next, notices...), nil
}

// soFar is the answer about a command that goes on, with a view of all its output.
func (s *Server) soFar(ctx context.Context, x *executions.Execution, c sandbox.Command) (answer[Ran], error) {
	text, next, err := s.view(ctx, x)
	if err != nil {
		return answer[Ran]{}, err
	}
	return unfinished(x, sandbox.Result{Command: c.Script, Description: c.Description, Dir: c.Dir}, text, next), nil
}

// unfinished is the answer about an execution that has not ended. r has what the caller said of it.
func unfinished(x *executions.Execution, r sandbox.Result, text sandbox.Text, next int64, notes ...string) answer[Ran] {
	state := x.State()
	if state == executions.Ended { // just now: the next answer says how
		state = executions.Running
	}
	r.ID, r.Session, r.Status, r.Cause, r.ExitCode = x.ID, x.Session, sandbox.Status(state), sandbox.CauseExited, sandbox.ExitEnded
	r.Timing.Total = time.Since(x.Started)
	if state == executions.Running {
		r.Views = &sandbox.Views{Merged: &text}
	} else {
		r.ExitCode = sandbox.ExitNeverRan
	}
	if why := why[state]; why != "" {
		notes = append(notes, why)
	}
	more := fmt.Sprintf("to see more, call shell_output with id %q, offset %d and wait_seconds; shell_signal ends the command", x.ID, next)
	return ran(r, state, next, append(notes, more)...)
}

// why is what a command waits for that has not begun.
var why = map[executions.State]string{
	executions.Queued:  "the command has not begun: it waits for its turn",
	executions.Waiting: "the command has not begun: it waits until someone with the scope approve answers at /v1/approvals, or at a client that shell_output can ask",
}

func isOver(x *executions.Execution) bool {
	select {
	case <-x.Done():
		return true
	default:
		return false
	}
}

// view is a view of all that an execution has written, and how much that is.
func (s *Server) view(ctx context.Context, x *executions.Execution) (sandbox.Text, int64, error) {
	var total sandbox.Total
	err := chunks(ctx, x, 0, func(c sandbox.Chunk) bool {
		total.Bytes = c.Offset + int64(len(c.Data))
		total.Lines += int64(bytes.Count(c.Data, []byte("\n")))
		return true
	})
	if err != nil {
		return sandbox.Text{}, 0, err
	}
	bounds := sandbox.View{Bytes: viewBytes, Lines: viewLines, LineChars: viewChars}
	text := view.Viewer{}.View(bounds, func(yield func(sandbox.Chunk) bool) {
		err = chunks(ctx, x, 0, func(c sandbox.Chunk) bool {
			c.Data = c.Data[:min(int64(len(c.Data)), total.Bytes-c.Offset)]
			return len(c.Data) > 0 && yield(c)
		})
	}, total)
	return text, total.Bytes, err
}

// chunks calls each with what was written from an offset on, without waiting for more.
func chunks(ctx context.Context, x *executions.Execution, offset int64, each func(sandbox.Chunk) bool) error {
	r, err := x.Read(ctx, sandbox.Merged, offset)
	if err != nil {
		return err
	}
	defer r.Close()
	for {
		c, err := r.Ready(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil || !each(c) {
			return err
		}
	}
}

// part is a piece of an execution's output.
type part struct {
	sandbox.Text
	from, next int64
	missed     int64 // bytes before it that are no longer kept
	more       bool  // behind it, already
}

// of fills the part with as much of the data as one answer holds. A character that is there in part
// comes in the next one, unless nothing follows.
func (p *part) of(data []byte, over bool) {
	if !over {
		data = data[:wholeRunes(data)]
	}
	text, n := fit(data)
	p.Text, p.next, p.more = sandbox.Text{Text: text, Charset: "utf-8"}, p.from+int64(n), p.more || n < len(data)
}

func (p *part) notes() (list []string) {
	if p.missed > 0 {
		list = append(list, fmt.Sprintf("%d bytes before this output are no longer kept", p.missed))
	}
	return list
}

// wholeRunes is how much of the data is not the beginning of a character.
func wholeRunes(data []byte) int {
	for i := len(data) - 1; i >= 0 && i > len(data)-utf8.UTFMax; i-- {
		if utf8.RuneStart(data[i]) {
			if !utf8.FullRune(data[i:]) {
				return i
			}
			break
		}
	}
	return len(data)
}

// fit is how much of the data an answer holds, and that made safe to show: characters that are
// escaped take more room.
func fit(data []byte) (text string, n int) {
	for n = min(len(data), viewBytes); ; n = n * viewBytes / len(text) {
		for cut := 0; n < len(data) && cut < utf8.UTFMax && !utf8.RuneStart(data[n]); cut++ {
			n--
		}
		if text = view.Safe(string(data[:n])); len(text) <= viewBytes {
			return text, n
		}
	}
}
