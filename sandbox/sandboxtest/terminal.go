package sandboxtest

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"belljar/sandbox"
)

// terminal is an exec's: its processes' outputs are one, with the line ends of a
// terminal. It does not echo what it is given, and no key in it means anything.
type terminal struct {
	mu      sync.Mutex
	sizes   []sandbox.TerminalSize
	changed chan struct{} // closed and replaced with every size
}

// newTerminal is nil where there is none.
func newTerminal(size *sandbox.TerminalSize) *terminal {
	if size == nil {
		return nil
	}
	t := &terminal{changed: make(chan struct{})}
	t.resize(*size)
	return t
}

func (t *terminal) resize(size sandbox.TerminalSize) {
	if size == (sandbox.TerminalSize{}) {
		size = sandbox.TerminalSize{Columns: 80, Rows: 24}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sizes = append(t.sizes, size)
	close(t.changed)
	t.changed = make(chan struct{})
}

// output is what a terminal makes of it.
func (t *terminal) output(b []byte) []byte {
	if t == nil {
		return b
	}
	return bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n"))
}

// Sizes are all that p's terminal had, the last of them now, and a channel that
// is closed with the next. They are none where p has no terminal.
func (p *Proc) Sizes() ([]sandbox.TerminalSize, <-chan struct{}) {
	t := p.out.terminal
	if t == nil {
		return nil, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.sizes), t.changed
}

// Resize implements sandbox.Running.
func (r *running) Resize(ctx context.Context, size sandbox.TerminalSize) error {
	select {
	case <-r.proc.done:
		return nil
	default:
	}
	if err := r.proc.box.engine.OnResize.strike(ctx); err != nil {
		return err
	}
	if t := r.proc.out.terminal; t != nil {
		t.resize(size)
	}
	return nil
}
