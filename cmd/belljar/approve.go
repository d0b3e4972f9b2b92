package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"belljar/cmd/internal/question"
	"belljar/policy"
	"belljar/sandbox"
	"belljar/view"

	"golang.org/x/term"
)

// byYes approves every question, and says so.
type byYes struct{ show *printer }

// Approve implements sandbox.Approver.
func (y byYes) Approve(_ context.Context, q sandbox.Question) (sandbox.Approval, error) {
	y.show.say("approved by --yes: " + view.SafeLine(question.Reason(q.Verdict.Who(), q.Verdict.Span, q.Verdict.Reason)) + ": " + cut(q.Script, 200))
	return sandbox.Approval{Answer: sandbox.AnswerOnce, By: "--yes"}, nil
}

// byTerminal asks the person at the controlling terminal, one question at a
// time. It never reads the command's stdin, which may come from anyone.
type byTerminal struct{ several bool } // commands may follow, also without a session

// errNoTerminal says why no one is asked.
var errNoTerminal = &sandbox.Error{Cause: sandbox.CauseDenied, Message: "no one is available to ask",
	Hint: "run belljar in the foreground of a terminal, without redirecting stderr, or add --yes to approve everything that the policy asks about"}

// look is how often a waiting question checks whether it is still needed, and
// still in the foreground.
const look = 100 * time.Millisecond

// Approve implements sandbox.Approver.
func (b byTerminal) Approve(ctx context.Context, q sandbox.Question) (sandbox.Approval, error) {
	keys, err := openKeys(ctx)
	if err != nil {
		return sandbox.Approval{}, err
	}
	defer keys.close()
	columns, _, err := term.GetSize(int(os.Stderr.Fd()))
	if err != nil || columns <= 0 {
		columns = 80
	}
	if columns < question.LeastColumns {
		return sandbox.Approval{}, tooNarrow(columns)
	}
	q.Always = q.Always && (q.Session != "" || b.several)
	look := question.Look{Columns: columns, Colour: paint(os.Stderr, policy.Ask), Beyond: "for all commands of the template"}
	_, always := question.Always(q, look)
	always = always && q.Always
	fmt.Fprint(os.Stderr, afresh(), question.Text(q, look))
	for {
		typed, err := keys.ask(ctx, q, always)
		if err != nil {
			fmt.Fprintln(os.Stderr) // after the question
			keys.flush()            // half an answer must not become a shell command
		}
		if errors.Is(err, io.EOF) {
			typed, err = "n", nil
		}
		if err != nil {
			return sandbox.Approval{}, err
		}
		if a, ok := parseAnswer(typed, always); ok {
			return sandbox.Approval{Answer: a, By: "terminal"}, nil
		}
	}
}

// tooNarrow says why no one is asked: the terminal is too narrow to read a question.
func tooNarrow(columns int) error {
	return &sandbox.Error{Cause: sandbox.CauseDenied, Message: fmt.Sprintf("the terminal is too narrow to show the question: it has %d columns", columns),
		Hint: fmt.Sprintf("widen it to %d columns or more, or add --yes to approve everything that the policy asks about", question.LeastColumns)}
}

// afresh resets what an earlier command's output left on: a string, hidden text and
// colours, a charset of lines, rows that do not wrap.
func afresh() string {
	if os.Getenv("TERM") == "dumb" {
		return ""
	}
	return "\x1b\\\x1b[0m\x0f\x1b(B\x1b[?7h"
}

// parseAnswer is the answer in what a person typed, if it is clear.
func parseAnswer(text string, always bool) (sandbox.Answer, bool) {
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "y", "yes":
		return sandbox.AnswerOnce, true
	case "a", "always":
		return sandbox.AnswerAlways, always
	case "", "n", "no":
		return sandbox.AnswerDeny, true
	}
	return "", false
}

// paint returns a function that colours text for a decision, if w is a terminal.
func paint(w io.Writer, d policy.Decision) func(string) string {
	if !colourful(w) {
		return func(text string) string { return text }
	}
	colour := map[policy.Decision]string{policy.Allow: "32", policy.Ask: "33"}[d]
	if colour == "" {
		colour = "31"
	}
	return func(text string) string { return "\x1b[1;" + colour + "m" + text + "\x1b[0m" }
}
