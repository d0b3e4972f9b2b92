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

// gate is the shell that runs that script. It understands only the lines that
// package sandbox writes, with a parser of its own.
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

// obey makes p run the command that it reads.
func (e *Engine) obey(p *Proc, line string) int {
	input := &words{rest: line}
	input.skip("c ")
	dir := input.word()
	p.Env = nil
	if input.has(";export") {
		for !input.has(" 2>&3") {
			input.skip(" ")
			p.Env = append(p.Env, input.word())
		}
	}
	p.Shell = sandbox.ShellSh
	switch {
	case input.has(";x "):
		p.Stdin = strings.NewReader("")
	case input.has(";y "):
		p.Shell, p.Stdin = sandbox.ShellBash, strings.NewReader("")
	case input.has(";j "):
		p.Shell = sandbox.ShellBash
	default:
		input.skip(";i ")
	}
	p.Script = input.word()
	if input.has(" '" + p.Shell + "' ") { // see package shellargs
		for p.Script = input.word(); input.has(" "); {
			p.Script += input.word()
		}
	}
	if input.bad || input.rest != "" {
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
	return e.program(p.Script)(p)
}

// words splits a line as a POSIX shell whose $1 is a newline would.
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

// word is one word, parts of which are quoted.
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
