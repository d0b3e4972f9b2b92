package sandboxtest

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"belljar/sandbox"
)

// terminal is an exec's terminal: both outputs go to one stream, with the line ends of a
// terminal. It does not echo its input, and no key has a special meaning.
type terminal struct {
	mu      sync.Mutex
	sizes   []sandbox.TerminalSize
	changed chan struct{} // closed and replaced with every change of size
}

// newTerminal returns nil if the exec has no terminal.
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

// output converts line ends as a terminal does.
func (t *terminal) output(b []byte) []byte {
	if t == nil {
		return b
	}
	return bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n"))
}

// Sizes are all sizes of p's terminal so far, the last one current, and a channel that
// is closed at the next. There are none if p has no terminal.
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
