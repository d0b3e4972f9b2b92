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

// terminal is the person's that a command's stands for. A nil terminal is none.
type terminal struct {
	shown   bool                      // the command's output is, as it is, on it
	sizes   chan sandbox.TerminalSize // its newest, where that changed
	signals chan os.Signal
	done    chan struct{} // closed when signals are not handled any more
	end     func()

	mu    sync.Mutex
	typed *os.File    // where keys come from; nil: they are not the command's
	begun bool        // the command has it
	over  bool        // and not any more
	saved *term.State // what it was before it was made raw; nil: it is not
}

// newTerminal is the terminal of -t. With -i the keys are the command's, too,
// once it has begun: until then, and again from the moment that ctx ends, Ctrl-C
// is ours.
func newTerminal(ctx context.Context, f *runFlags) (*terminal, error) {
	if !f.tty {
		return nil, nil
	}
	if f.stdin && !term.IsTerminal(int(os.Stdin.Fd())) {
		return nil, &sandbox.Error{Cause: sandbox.CauseInvalid, Message: "the input device is not a TTY", Hint: "leave out -t to pass stdin to the command, or -i to pass none"}
	}
	t := &terminal{
		shown: f.format == "text" && term.IsTerminal(int(os.Stdout.Fd())),
		sizes: make(chan sandbox.TerminalSize, 1), signals: make(chan os.Signal, 8), done: make(chan struct{}),
	}
	wanted := []os.Signal{syscall.SIGWINCH}
	if f.stdin {
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

// lend gives it to a command.
func (t *terminal) lend(c *sandbox.Command, show *printer) {
	if t == nil {
		return
	}
	size := t.size()
	c.TTY, c.Resize = &size, t.sizes
	if t.typed != nil {
		c.Stdin = reopened(t.typed)
	}
	if show.terminal {
		show.err = rawWriter{t, show.err}
	}
}

// begin is called when the command has begun: from now on the keys are its own.
func (t *terminal) begin() {
	if t == nil || t.typed == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begun = true
	t.makeRaw()
}

// makeRaw is called with the lock held, also where the shell changed it while we
// were stopped.
func (t *terminal) makeRaw() {
	if !t.begun || t.over {
		return
	}
	// Where it fails, the terminal went, which its signal tells.
	if before, err := term.MakeRaw(int(t.typed.Fd())); err == nil && t.saved == nil {
		t.saved = before
	}
}

// restore makes it what it was, for good.
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

// close restores it, and ends what goes on with it.
func (t *terminal) close() {
	if t != nil {
		t.restore()
		t.end()
	}
}

// handle follows what happens to the terminal: it changes its size, and it is
// taken from us, by a signal from outside, and given back.
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
		if t.shown {
			select {
			case <-t.sizes: // nobody needs the one before
			default:
			}
			t.sizes <- t.size()
		}
	}
}

// size is the terminal's where the output is on it, and else a common one.
func (t *terminal) size() sandbox.TerminalSize {
	if t.shown {
		columns, rows, err := term.GetSize(int(os.Stdout.Fd()))
		if err == nil && columns > 0 && rows > 0 {
			return sandbox.TerminalSize{Columns: columns, Rows: rows}.Bounded()
		}
	}
	return sandbox.TerminalSize{}.Bounded()
}

// reopened is a terminal of whose reading there is an end: what is typed after
// the command's is the shell's. The original cannot be read so, without a change
// to what the shell reads from, too.
func reopened(f *os.File) io.Reader {
	own, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), os.O_RDONLY|syscall.O_NOCTTY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return f // another user's, or of another place
	}
	return own
}

// rawWriter writes our own words where the terminal may be raw: it does not go
// to a line's beginning by itself then.
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
