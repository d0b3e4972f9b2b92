package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"belljar/policy"
	"belljar/sandbox"
	"belljar/view"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// byYes approves all that is asked about, and says so.
type byYes struct{ show *printer }

// Approve implements sandbox.Approver.
func (y byYes) Approve(_ context.Context, q sandbox.Question) (sandbox.Approval, error) {
	y.show.say("approved by --yes: " + view.SafeLine(reason(q.Verdict.Who(), q.Verdict.Span, q.Verdict.Reason)) + ": " + cut(q.Script, 200))
	return sandbox.Approval{Answer: sandbox.AnswerOnce, By: "--yes"}, nil
}

// byTerminal asks the person at the controlling terminal, one question at a
// time. The command's stdin has no say: it may be anybody's.
type byTerminal struct{}

// errNobody is why nobody is asked.
var errNobody = &sandbox.Error{Cause: sandbox.CauseDenied, Message: "nobody is there to ask",
	Hint: "run it in the foreground of a terminal, or add --yes to approve all that the policy asks about"}

// look is how often a question that waits for its answer is looked at: whether
// it still waits, and is still in the foreground.
const look = 100 * time.Millisecond

// Approve implements sandbox.Approver.
func (byTerminal) Approve(ctx context.Context, q sandbox.Question) (sandbox.Approval, error) {
	// In the background a read, and what flushes, stops us: it is to fail.
	signal.Ignore(syscall.SIGTTIN, syscall.SIGTTOU)
	defer signal.Reset(syscall.SIGTTIN, syscall.SIGTTOU)
	keys, err := openKeys()
	if err != nil {
		return sandbox.Approval{}, errNobody
	}
	defer keys.close()
	columns, _, err := term.GetSize(int(os.Stderr.Fd()))
	if err != nil || columns <= 0 {
		columns = 80
	}
	fmt.Fprint(os.Stderr, question(q, columns, paint(os.Stderr, policy.Ask)))
	for {
		typed, err := keys.ask(ctx, q)
		if err != nil {
			fmt.Fprintln(os.Stderr) // after the question
			keys.flush()            // half an answer is no command for a shell
		}
		if errors.Is(err, io.EOF) {
			typed, err = "n", nil
		}
		if err != nil {
			return sandbox.Approval{}, err
		}
		if a, ok := parseAnswer(typed, q.Always); ok {
			return sandbox.Approval{Answer: a, By: "terminal"}, nil
		}
	}
}

// parseAnswer is what a person means, if that can be told.
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

// keys is where a person types who sees our stderr.
type keys struct {
	tty  *os.File
	back chan os.Signal // we were stopped, and go on
}

func openKeys() (*keys, error) {
	if !inForeground() {
		return nil, errNobody
	}
	tty, err := os.OpenFile("/dev/tty", os.O_RDONLY|syscall.O_NOCTTY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	k := &keys{tty, make(chan os.Signal, 1)}
	signal.Notify(k.back, syscall.SIGCONT)
	return k, nil
}

func (k *keys) close() {
	signal.Stop(k.back)
	k.tty.Close()
}

// inForeground tells whether stderr is our controlling terminal, and we are who
// it listens to (tcgetpgrp(3)).
func inForeground() bool {
	group, err := unix.IoctlGetInt(int(os.Stderr.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// flush drops what was typed and not read, unless that is for another program.
func (k *keys) flush() {
	if inForeground() {
		unix.IoctlSetInt(int(os.Stderr.Fd()), unix.TCFLSH, unix.TCIFLUSH)
	}
}

// ask writes the last line of the question and reads a line. What was typed
// before answers something else.
func (k *keys) ask(ctx context.Context, q sandbox.Question) (string, error) {
	k.flush()
	choice := "[y]es, this once; [N]o"
	if q.Always {
		choice = "[y]es, this once; [a]lways in this session; [N]o"
	}
	fmt.Fprintf(os.Stderr, "belljar: may it run? %s (%v left): ", choice, time.Until(q.Deadline).Round(time.Second))
	var typed []byte
	for len(typed) < 256 {
		k.tty.SetReadDeadline(time.Now().Add(look))
		chunk := make([]byte, 256)
		n, err := k.tty.Read(chunk)
		typed = append(typed, chunk[:n]...)
		if line, _, ended := bytes.Cut(bytes.ReplaceAll(typed, []byte("\r"), []byte("\n")), []byte("\n")); ended {
			return string(line), nil
		}
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return "", ctx.Err()
		case !inForeground():
			return "", errNobody
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return "", err
		}
		select {
		case <-k.back:
			return "?", nil // what the screen has is not known
		default:
		}
	}
	return "?", nil
}
