package sandboxtest

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"strings"

	"belljar/sandbox"
)

// isGate reports whether a script is not a command, but waits for one.
func isGate(script string) bool { return strings.HasPrefix(script, "set -- '\n'\n") }

// gate is the shell that plays that script. It understands nothing but what
// package sandbox writes it, and reads that its own way.
func (e *Engine) gate(p *Proc) int {
	fmt.Fprintln(p.Stdout, p.pid)
	for {
		line, ok := p.readLine()
		if !ok {
			return 1
		}
		if line != "" {
			return e.obey(p, line)
		}
		if e.OnAnswer.strike(context.Background()) != nil {
			<-p.Killed
			runtime.Goexit()
		}
		fmt.Fprintln(p.Stdout)
	}
}

func (p *Proc) readLine() (string, bool) {
	var line []byte
	for b := make([]byte, 1); ; line = append(line, b[0]) {
		if n, err := p.Stdin.Read(b); n == 0 || err != nil {
			return "", false
		}
		if b[0] == '\n' {
			return string(line), true
		}
	}
}

// obey makes p the command that it reads.
func (e *Engine) obey(p *Proc, line string) int {
	told := &words{rest: line}
	told.skip("c ")
	dir := told.word()
	p.Env = nil
	if told.has(";export") {
		for !told.has(" 2>&3") {
			told.skip(" ")
			p.Env = append(p.Env, told.word())
		}
	}
	p.Shell = sandbox.ShellSh
	switch {
	case told.has(";x "):
		p.Stdin = strings.NewReader("")
	case told.has(";y "):
		p.Shell, p.Stdin = sandbox.ShellBash, strings.NewReader("")
	case told.has(";j "):
		p.Shell = sandbox.ShellBash
	default:
		told.skip(";i ")
	}
	p.Script = told.word()
	if told.has(" '" + p.Shell + "' ") { // see sandbox.ShellArgs
		for p.Script = told.word(); told.has(" "); {
			p.Script += told.word()
		}
	}
	if told.bad || told.rest != "" {
		panic("the fake gate does not understand " + line)
	}
	if dir == missingDir {
		fmt.Fprintln(p.Stdout, "n")
		return 126
	}
	p.Dir = dir
	p.box.mu.Lock()
	p.command = p.Shell + " -c " + p.Script
	p.box.mu.Unlock()
	fmt.Fprintln(p.Stdout)
	return e.play(p.Script)(p)
}

// words takes apart what a POSIX shell whose $1 is a newline would read.
type words struct {
	rest string
	bad  bool
}

func (w *words) has(text string) bool {
	rest, ok := strings.CutPrefix(w.rest, text)
	if ok {
		w.rest = rest
	}
	return ok
}

func (w *words) skip(text string) { w.bad = !w.has(text) || w.bad }

// word is one word, of which parts stand in quotes.
func (w *words) word() string {
	var b bytes.Buffer
	for w.rest != "" && !strings.ContainsAny(w.rest[:1], " ;") {
		switch {
		case w.has(`\'`):
			b.WriteByte('\'')
		case w.has(`"$1"`):
			b.WriteByte('\n')
		case w.has("'"):
			text, rest, closed := strings.Cut(w.rest, "'")
			b.WriteString(text)
			w.rest, w.bad = rest, w.bad || !closed
		default:
			b.WriteByte(w.rest[0])
			w.rest = w.rest[1:]
		}
	}
	return b.String()
}
