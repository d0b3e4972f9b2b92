package main

import (
	"bytes"
	"context"
	"os"
	"testing"

	"belljar/sandbox"

	"github.com/creack/pty"
	"golang.org/x/term"
)

// atTerminal has this process sit at a terminal for one test.
func atTerminal(t *testing.T, size pty.Winsize) {
	t.Helper()
	person, its, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := pty.Setsize(person, &size); err != nil {
		t.Fatal(err)
	}
	stdin, stdout := os.Stdin, os.Stdout
	os.Stdin, os.Stdout = its, its
	t.Cleanup(func() {
		os.Stdin, os.Stdout = stdin, stdout
		its.Close()
		person.Close()
	})
}

// modes are the terminal's.
func modes(t *testing.T) term.State {
	t.Helper()
	state, err := term.GetState(int(os.Stdin.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	return *state
}

func TestTerminalIsRestoredByPanic(t *testing.T) {
	atTerminal(t, pty.Winsize{Cols: 80, Rows: 24})
	before := modes(t)
	func() {
		defer func() { recover() }()
		terminal, err := newTerminal(t.Context(), &runFlags{attached: attached{tty: true, stdin: true}, format: "text"})
		if err != nil {
			t.Fatal(err)
		}
		defer terminal.close()
		terminal.begin()
		if modes(t) == before {
			t.Error("it is not raw")
		}
		panic("a bug")
	}()
	if modes(t) != before {
		t.Error("it stays raw")
	}
}

// A command that begins when it was canceled already gets no terminal: its
// person wants Ctrl-C to work.
func TestTerminalIsNotLentAfterTheEnd(t *testing.T) {
	atTerminal(t, pty.Winsize{Cols: 80, Rows: 24})
	before := modes(t)
	ctx, cancel := context.WithCancel(t.Context())
	terminal, err := newTerminal(ctx, &runFlags{attached: attached{tty: true, stdin: true}, format: "text"})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	terminal.close() // waits for no one, so the cancellation's own call may come later
	terminal.begin()
	if modes(t) != before {
		t.Error("it is raw")
	}
}

func TestTerminalSize(t *testing.T) {
	for _, test := range []struct {
		is     pty.Winsize
		format string
		want   sandbox.TerminalSize
	}{
		{pty.Winsize{Cols: 101, Rows: 33}, "text", sandbox.TerminalSize{Columns: 101, Rows: 33}},
		{pty.Winsize{}, "text", sandbox.TerminalSize{Columns: 80, Rows: 24}},
		{pty.Winsize{Cols: 1, Rows: 1}, "text", sandbox.TerminalSize{Columns: 1, Rows: 1}},
		{pty.Winsize{Cols: 65535, Rows: 65535}, "text", sandbox.TerminalSize{Columns: 500, Rows: 200}},
		{pty.Winsize{Cols: 101, Rows: 33}, "json", sandbox.TerminalSize{Columns: 80, Rows: 24}},
	} {
		atTerminal(t, test.is)
		terminal, err := newTerminal(t.Context(), &runFlags{attached: attached{tty: true}, format: test.format})
		if err != nil {
			t.Fatal(err)
		}
		defer terminal.close()
		if got := terminal.size(); got != test.want {
			t.Errorf("%+v in %s: %+v", test.is, test.format, got)
		}
	}
}

func TestOurWordsInARawTerminal(t *testing.T) {
	atTerminal(t, pty.Winsize{})
	terminal, err := newTerminal(t.Context(), &runFlags{attached: attached{tty: true, stdin: true}, format: "text"})
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.close()
	var out bytes.Buffer
	show := &printer{err: &out, terminal: true}
	terminal.lend(&sandbox.Command{}, show)
	show.say("before")
	terminal.begin()
	show.say("raw")
	show.say("and more")
	terminal.restore()
	show.say("after")
	if want := "belljar: before\nbelljar: raw\r\nbelljar: and more\r\nbelljar: after\n"; out.String() != want {
		t.Errorf("%q, want %q", &out, want)
	}
}
