// Package template reads prompt files for agents, in which !{COMMAND} is replaced by
// a shell command's output and {{args}} by what the prompt is about.
//
// The one rule: the file is the operator's, the arguments may be anyone's. In a
// command they are one word, quoted, and never its program; elsewhere they are
// text; and nothing that was filled in is read again.
//
//	t, err := template.Parse("Review !{git log --end-of-options {{args}} --}:")
//	commands, err := t.Commands("it's a branch")
//	// commands[0].Script is git log --end-of-options 'it'\''s a branch' --
//	text := t.Fill("it's a branch", []string{"…"})
//
// # Design
//
// A span has no end mark of its own, so that commands need no other quoting
// than a shell's: it ends with the first brace that leaves a whole script
// before it, whose own braces are paired; what is in quotes does not count.
//
// sh may be dash, busybox or bash. A hole is where all of them read one word of
// a simple command: the grammars of POSIX and of bash must agree on it, and what
// the parser and shells are known to read differently is refused next to a hole.
// Nor may the command be one that a shell runs itself and whose words it might
// evaluate. What a program does with its arguments is the template author's concern.
package template

import (
	"belljar/internal/lazyregexp"
	"cmp"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"belljar/sandbox"
)

// Bounds of a template.
const (
	MaxBytes = 1 << 20
	MaxSpans = 100
	MaxText  = 16 << 20 // bytes of text, with the arguments, but without the commands' output
)

const (
	open   = "!{"
	hole   = "{{args}}"
	escape = `\` // before either, to write it as text
)

// blanked is syntax of other templates. It is refused
// rather than left as it is.
var (
	blanked     = lazyregexp.New(`\{\{([ \t]+args[ \t]*|args[ \t]+)\}\}`)
	blankedHere = lazyregexp.New(`^` + blanked.String())
)

// Template is a prompt file.
type Template struct {
	parts []part
	args  position // of the first hole, if any
}

// part is a piece of the file: text, a hole or a span.
type part struct {
	raw  string // as written in the file
	text string
	hole bool
	span *span
}

// span is a command.
type span struct {
	script string
	holes  []int // where its arguments go
	at     position
}

// position is a place in the file, as editors count: from 1, and
// in bytes.
type position struct{ line, column int }

// Command is a span with its arguments filled in.
type Command struct {
	Script       string
	Line, Column int // of the span
}

func (at position) errorf(format string, args ...any) error {
	return fmt.Errorf("%d:%d: %s", at.line, at.column, fmt.Sprintf(format, args...))
}

// Parse reads a template. Errors begin with the line and the column.
func Parse(text string) (*Template, error) {
	if len(text) > MaxBytes {
		return nil, position{1, 1}.errorf("the template is longer than %d bytes: split it", MaxBytes)
	}
	for i, r := range text {
		if r == 0 || notUTF8(text[i:], r) {
			return nil, locate(text, i).errorf("this is not UTF-8 text: save it as UTF-8, without NUL bytes")
		}
	}
	for _, i := range blanked.Get().FindAllStringIndex(text, -1) {
		if !strings.HasSuffix(text[:i[0]], escape) {
			return nil, locate(text, i[0]).errorf("%s contains blanks: write {{args}} (or \\%[1]s if that is text)", text[i[0]:i[1]])
		}
	}
	t, spans, f := &Template{}, 0, newFinder(text)
	for at := 0; at < len(text); {
		n, kind := next(text[at:])
		t.add(part{raw: text[at : at+n], text: text[at : at+n]})
		at += n
		switch {
		case strings.HasPrefix(kind, escape):
			t.add(part{raw: kind, text: kind[1:]})
		case kind == hole:
			t.add(part{raw: kind, hole: true})
			t.args = cmp.Or(t.args, locate(text, at))
		case kind == open:
			s, err := f.span(at)
			if err != nil {
				return nil, err
			}
			if spans++; spans > MaxSpans {
				return nil, s.at.errorf("more than %d commands: join some, or split the template", MaxSpans)
			}
			kind = open + s.script + "}"
			t.add(part{raw: kind, span: s})
			if len(s.holes) > 0 {
				t.args = cmp.Or(t.args, locate(text, at+len(open)+s.holes[0]))
			}
		}
		at += len(kind)
	}
	return t, nil
}

func (t *Template) add(p part) {
	if p.raw != "" {
		t.parts = append(t.parts, p)
	}
}

// next is how much text comes before the next thing that is not text, and what that is.
func next(text string) (int, string) {
	for i := range len(text) {
		for _, kind := range []string{escape + open, escape + hole, open, hole} {
			if strings.HasPrefix(text[i:], kind) {
				return i, kind
			}
		}
		if strings.HasPrefix(text[i:], escape+"{{") {
			if found := blankedHere.FindString(text[i+1:]); found != "" {
				return i, escape + found
			}
		}
	}
	return len(text), ""
}

func locate(text string, at int) position {
	return position{1 + strings.Count(text[:at], "\n"), at - strings.LastIndex(text[:at], "\n")}
}

// HasArgs reports whether the template uses the arguments.
func (t *Template) HasArgs() bool { return t.args != position{} }

// Args is where they are used first, from 1.
func (t *Template) Args() (line, column int) { return t.args.line, t.args.column }

// Commands are the commands in order. An error says why the arguments
// cannot be filled in, as those of Parse do.
func (t *Template) Commands(args string) ([]Command, error) {
	size := 0
	for _, p := range t.parts {
		if size += len(p.text); p.hole {
			size += len(args)
		}
	}
	if size > MaxText {
		return nil, position{1, 1}.errorf("with the arguments the template has %d bytes of text, more than %d: shorten them", size, MaxText)
	}
	var list []Command
	for _, p := range t.parts {
		if p.span == nil {
			continue
		}
		script, err := p.span.fill(args)
		if err != nil {
			return nil, err
		}
		list = append(list, Command{script, p.span.at.line, p.span.at.column})
	}
	return list, nil
}

func (s *span) fill(args string) (string, error) {
	if len(s.holes) == 0 {
		return s.script, nil
	}
	word, err := quote(args)
	if err != nil {
		return "", s.at.errorf("%v", err)
	}
	if n := len(s.script) + len(s.holes)*(len(word)-len(hole)); n > sandbox.MaxArgument {
		return "", s.at.errorf("with the arguments the command has %d bytes, more than %d: shorten it", n, sandbox.MaxArgument)
	}
	var b strings.Builder
	at := 0
	for _, h := range s.holes {
		b.WriteString(s.script[at:h])
		b.WriteString(word)
		at = h + len(hole)
	}
	b.WriteString(s.script[at:])
	return b.String(), nil
}

// quote makes one word for any shell, whatever is next to it:
// syntax.Quote leaves some text unquoted, and refuses line ends.
func quote(args string) (string, error) {
	for i, r := range args {
		if notUTF8(args[i:], r) {
			return "", fmt.Errorf("the arguments are not UTF-8 at byte %d: write UTF-8 text", i)
		}
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return "", fmt.Errorf("the arguments contain the control character %U at byte %d: leave it out", r, i)
		}
	}
	return "'" + strings.ReplaceAll(args, "'", `'\''`) + "'", nil
}

// notUTF8 distinguishes invalid UTF-8 from a real replacement character.
func notUTF8(text string, r rune) bool {
	return r == utf8.RuneError && !strings.HasPrefix(text, "\uFFFD")
}

// Fill is the text, with an output in place of each command.
func (t *Template) Fill(args string, outputs []string) string {
	var b strings.Builder
	for _, p := range t.parts {
		switch {
		case p.span != nil:
			b.WriteString(outputs[0])
			outputs = outputs[1:]
		case p.hole:
			b.WriteString(args)
		default:
			b.WriteString(p.text)
		}
	}
	return b.String()
}
