package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"belljar/sandbox"

	"golang.org/x/term"
)

// terminal is the person's terminal, which the command's terminal is connected to. nil means none.
type terminal struct {
	shown   bool                      // the command's output goes to it, unchanged
	sizes   chan sandbox.TerminalSize // its latest size, after a change
	signals chan os.Signal
	done    chan struct{} // closed when signals are no longer handled
	end     func()

	mu    sync.Mutex
	typed *os.File              // where keys come from; nil if the command gets none
	begun bool                  // the command has it
	over  bool                  // the command no longer has it
	fixed *sandbox.TerminalSize // by --tty-size; nil: it is the terminal's
	saved *term.State           // the state before raw mode; nil: it is not raw
}

// newTerminal is the terminal of -t. With -i the command also gets the keys,
// from its start until ctx ends: before and after that, Ctrl-C
// ends belljar.
func newTerminal(ctx context.Context, f *runFlags) (*terminal, error) {
	if !f.tty {
		return nil, nil
	}
	typed := f.stdin && term.IsTerminal(int(os.Stdin.Fd()))
	if f.stdin && !typed && !f.force {
		return nil, &sandbox.Error{Cause: sandbox.CauseInvalid, Message: "the input device is not a TTY", Hint: "leave out -t to pass stdin to the command, or -i to pass none; --force-tty types it in"}
	}
	size, err := parseSize(f.size)
	if err != nil {
		return nil, err
	}
	t := &terminal{
		fixed: size,
		shown: f.format == "text" && term.IsTerminal(int(os.Stdout.Fd())),
		sizes: make(chan sandbox.TerminalSize, 1), signals: make(chan os.Signal, 8), done: make(chan struct{}),
	}
	wanted := []os.Signal{syscall.SIGWINCH}
	if typed {
		t.typed = os.Stdin
		wanted = append(wanted, syscall.SIGCONT)
		if !signal.Ignored(syscall.SIGTSTP) {
			wanted = append(wanted, syscall.SIGTSTP)
		}
	}
	signal.Notify(t.signals, wanted...)
	go t.handle()
	unwatched := context.AfterFunc(ctx, t.restore)
	t.end = sync.OnceFunc(func() {
		unwatched()
		signal.Stop(t.signals)
		close(t.signals)
		<-t.done
	})
	return t, nil
}

// lend connects it to a command.
func (t *terminal) lend(c *sandbox.Command, show *printer) {
	if t == nil {
		return
	}
	size := t.size()
	c.TTY, c.Resize = &size, t.sizes
	if t.typed != nil {
		c.Stdin = reopened(t.typed)
	} else if c.Stdin != nil {
		c.Stdin = &typist{File: os.Stdin}
	}
	if show.terminal {
		show.err = rawWriter{t, show.err}
	}
}

// begin is called when the command has begun: from now on it gets the keys.
func (t *terminal) begin() {
	if t == nil || t.typed == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begun = true
	t.makeRaw()
}

// makeRaw is called with the lock held, also after a stop, as the shell may have
// changed the terminal.
func (t *terminal) makeRaw() {
	if !t.begun || t.over {
		return
	}
	// If it fails, the terminal is gone, and a signal reports that.
	if before, err := term.MakeRaw(int(t.typed.Fd())); err == nil && t.saved == nil {
		t.saved = before
	}
}

// restore restores the original state for the last time.
func (t *terminal) restore() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unmakeRaw()
	t.over = true
}

func (t *terminal) unmakeRaw() {
	if t.saved != nil {
		term.Restore(int(t.typed.Fd()), t.saved)
		t.saved = nil
	}
}

// close restores it, and ends its goroutines.
func (t *terminal) close() {
	if t != nil {
		t.restore()
		t.end()
	}
}

// handle follows the terminal's signals: its size changes, and signals from outside
// stop and continue us.
func (t *terminal) handle() {
	defer close(t.done)
	for s := range t.signals {
		t.mu.Lock()
		switch s {
		case syscall.SIGTSTP:
			t.unmakeRaw()
			syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		case syscall.SIGCONT:
			t.makeRaw()
		}
		t.mu.Unlock()
		if t.shown && t.fixed == nil {
			select {
			case <-t.sizes: // only the latest size matters
			default:
			}
			t.sizes <- t.size()
		}
	}
}

// size is the terminal's if the output goes to it, and otherwise a common one.
func (t *terminal) size() sandbox.TerminalSize {
	if t.fixed != nil {
		return *t.fixed
	}
	if t.shown {
		columns, rows, err := term.GetSize(int(os.Stdout.Fd()))
		if err == nil && columns > 0 && rows > 0 {
			return sandbox.TerminalSize{Columns: columns, Rows: rows}.Bounded()
		}
	}
	return sandbox.TerminalSize{}.Bounded()
}

// reopened is the terminal for reads that can be interrupted: keys typed after
// the command are for the shell. The original file cannot be read that way without
// changing it for the shell, too.
func reopened(f *os.File) io.Reader {
	own, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), os.O_RDONLY|syscall.O_NOCTTY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return f // another user's, or not found
	}
	return own
}

// rawWriter writes belljar's lines where the terminal may be raw: in raw mode a line
// end needs a carriage return.
type rawWriter struct {
	terminal *terminal
	io.Writer
}

func (w rawWriter) Write(p []byte) (int, error) {
	w.terminal.mu.Lock()
	raw := w.terminal.saved != nil
	w.terminal.mu.Unlock()
	text := p
	if raw {
		text = bytes.ReplaceAll(p, []byte("\n"), []byte("\r\n"))
	}
	if _, err := w.Writer.Write(text); err != nil {
		return 0, err
	}
	return len(p), nil
}
