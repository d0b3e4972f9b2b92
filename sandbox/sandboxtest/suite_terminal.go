package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"belljar/sandbox"
)

// inTerminal gives an exec a terminal of that size.
func inTerminal(columns, rows int) func(*sandbox.Exec) {
	return func(x *sandbox.Exec) { x.TTY = &sandbox.TerminalSize{Columns: columns, Rows: rows} }
}

// typing is the input typed on an exec's terminal.
func typing(r io.Reader) func(*sandbox.Exec) {
	return func(x *sandbox.Exec) { x.TTY, x.Stdin = &sandbox.TerminalSize{}, r }
}

var terminalTests = map[string]func(*testing.T, *fixture){
	"all three streams are one terminal": func(t *testing.T, f *fixture) {
		p := f.run(t, f.create(t), scriptIsTerminal, 7, inTerminal(0, 0))
		wantText(t, "stdout", p.stdout, "all\r\nerror\r\n")
		wantText(t, "stderr", p.stderr, "")
	},
	"without TTY there is no terminal": func(t *testing.T, f *fixture) {
		f.run(t, f.create(t), scriptIsTerminal, 1)
	},
	"a terminal has its size from the start": func(t *testing.T, f *fixture) { // moby#35407
		box := f.create(t)
		for range 5 {
			wantText(t, "size", f.run(t, box, scriptSize, 0, inTerminal(101, 33)).stdout, "33 101\r\n")
		}
		wantText(t, "size of none given", f.run(t, box, scriptSize, 0, inTerminal(0, 0)).stdout, "24 80\r\n")
	},
	"a terminal can be resized until its end": func(t *testing.T, f *fixture) {
		p := f.exec(t, f.create(t), scriptResized, inTerminal(80, 24))
		p.stdout.await(f.ctx, "ready")
		size := sandbox.TerminalSize{Columns: 120, Rows: 40}
		if err := p.Resize(f.ctx, size); err != nil {
			t.Error(err)
		}
		if status, err := p.Wait(f.ctx); status != 5 || err != nil {
			t.Errorf("status %d, error %v", status, err)
		}
		wantText(t, "stdout", p.stdout, "ready\r\n40 120\r\n")
		if err := p.Resize(f.ctx, size); err != nil {
			t.Errorf("after its end: %v", err)
		}
	},
	"a terminal's output is complete": func(t *testing.T, f *fixture) {
		box := f.create(t)
		wantText(t, "a long line", f.run(t, box, scriptLongLine, 0, inTerminal(0, 0)).stdout, strings.Repeat("x", 1<<20)+"end\r\n")
		wantText(t, "a flood", f.run(t, box, scriptFlood, 0, inTerminal(0, 0)).stdout, strings.Repeat("\x00", 8<<20))
		for range 20 {
			wantText(t, "a short command", f.run(t, box, scriptMarker, 0, inTerminal(0, 0)).stdout, "marker\r\n")
		}
	},
	"terminal input is streamed, and ends": func(t *testing.T, f *fixture) {
		box := f.create(t)
		for _, last := range []string{"two\n", "an open line"} {
			r, w := io.Pipe()
			defer w.Close()
			p := f.exec(t, box, scriptTyped, typing(r))
			p.stdout.await(f.ctx, "ready")
			io.WriteString(w, "one\n")
			p.stdout.await(f.ctx, "one")
			io.WriteString(w, last)
			w.Close()
			if status, err := p.Wait(f.ctx); status != 0 || err != nil {
				t.Errorf("status %d, error %v", status, err)
			}
			wantText(t, "stdout", p.stdout, "ready\r\none\r\n"+strings.ReplaceAll(last, "\n", "\r\n")+"end\r\n")
		}
	},
	"large terminal input arrives": func(t *testing.T, f *fixture) {
		r, w := io.Pipe()
		defer w.Close()
		p := f.exec(t, f.create(t), scriptTyped, typing(r))
		p.stdout.await(f.ctx, "ready")
		var want strings.Builder
		for i := range 20_000 {
			fmt.Fprintf(&want, "line %d\n", i)
		}
		io.WriteString(w, want.String())
		w.Close()
		if status, err := p.Wait(f.ctx); status != 0 || err != nil {
			t.Errorf("status %d, error %v", status, err)
		}
		wantText(t, "stdout", p.stdout, strings.ReplaceAll("ready\n"+want.String()+"end\n", "\n", "\r\n"))
	},
	"a terminal without input does not end": func(t *testing.T, f *fixture) {
		box := f.create(t)
		p := f.exec(t, box, scriptTyped, inTerminal(0, 0))
		p.stdout.await(f.ctx, "ready")
		select {
		case <-p.Exited():
			t.Error("it ended")
		case <-time.After(300 * time.Millisecond):
		}
		f.remove(t, box)
		wantKilled(t, f, p)
	},
	"Ctrl-C interrupts": func(t *testing.T, f *fixture) {
		r, w := io.Pipe()
		defer w.Close()
		p := f.exec(t, f.create(t), scriptInterrupted, typing(r))
		p.stdout.await(f.ctx, "ready")
		io.WriteString(w, "\x03")
		if status, err := p.Wait(f.ctx); status != 5 || err != nil {
			t.Errorf("status %d, error %v", status, err)
		}
	},
	"the engine has no detach keys": func(t *testing.T, f *fixture) { // which detaches at Ctrl-P Ctrl-Q
		const keys = "\x10\x11\x10\x10\x11\x1ex"
		r, w := io.Pipe()
		defer w.Close()
		p := f.exec(t, f.create(t), scriptKeys, typing(r))
		p.stdout.await(f.ctx, "ready")
		io.WriteString(w, keys)
		if status, err := p.Wait(f.ctx); status != 0 || err != nil {
			t.Errorf("status %d, error %v", status, err)
		}
		if got := p.stdout.String(); !strings.HasSuffix(got, keys) {
			t.Errorf("got %q", got)
		}
	},
	"a background process does not delay the end of a terminal command": func(t *testing.T, f *fixture) {
		wantText(t, "stdout", f.run(t, f.create(t), scriptHolder, 4, inTerminal(0, 0)).stdout, "done\r\n")
	},
	"remove kills a process that ignores signals in a terminal": func(t *testing.T, f *fixture) {
		box := f.create(t)
		p := f.exec(t, box, scriptStubborn, inTerminal(0, 0))
		p.stdout.await(f.ctx, "ready")
		f.remove(t, box)
		wantKilled(t, f, p)
	},
	"remove while a terminal's output is unread": func(t *testing.T, f *fixture) {
		removeUnread(t, f, inTerminal(0, 0))
	},
	"remove while terminals are being opened": func(t *testing.T, f *fixture) {
		removeStarting(t, f, inTerminal(0, 0))
	},
	"a missing directory is an error in a terminal, too": func(t *testing.T, f *fixture) {
		missing(t, f, inTerminal(0, 0))
	},
	"a canceled exec leaves no wait for its terminal": func(t *testing.T, f *fixture) {
		cancelOpening(t, f)
	},
}

// cancelOpening cancels execs at different points; the host decides which.
func cancelOpening(t *testing.T, f *fixture) {
	box := f.create(t)
	for i := range 8 {
		ctx, cancel := context.WithTimeout(f.ctx, time.Duration(i)*10*time.Millisecond)
		x := sandbox.Exec{Script: scriptMarker, Dir: "/work", User: user, Stdout: io.Discard, Stderr: io.Discard}
		inTerminal(0, 0)(&x)
		p, err := box.Exec(ctx, x)
		cancel()
		switch {
		case err == nil:
			if status, err := p.Wait(f.ctx); status != 0 || err != nil {
				t.Errorf("status %d, error %v", status, err)
			}
		case !errors.Is(err, context.DeadlineExceeded):
			t.Errorf("error %v", err)
		}
	}
	wantProcesses(t, f, box)
}
