package policy

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// resolver builds a word from its parts.
type resolver struct {
	word
	b        strings.Builder
	form     strings.Builder
	formless bool // it has unknown parts that are not numbers
	bracket  bool // one was opened, so that what follows may be in it
	decided  bool // what it starts with is known, or cannot be
}

// begins records how the word starts. A part that is empty does not count, and
// only the first other part does.
func (r *resolver) begins(noDash bool) {
	r.noDash = r.noDash && (r.decided || noDash)
	r.decided = true
}

// unknown ends the known text.
func (r *resolver) unknown() {
	if r.static {
		r.text, r.static = r.b.String(), false
		r.form.WriteString(r.text)
	}
	r.formless = true
}

// write adds known text.
func (r *resolver) write(text string) {
	switch {
	case r.static:
		r.b.WriteString(text)
	case !r.formless:
		r.form.WriteString(text)
	}
}

func (s *script) parts(parts []syntax.WordPart, quoted bool) word {
	r := &resolver{word: word{static: true, noBracket: true, inner: -1, noDash: true}}
	if len(parts) == 1 { // the usual cases
		switch part := parts[0].(type) {
		case *syntax.Lit:
			if !quoted && !strings.Contains(part.Value, "(") && (part.Value == "[" || part.Value == "[[" || !strings.ContainsAny(part.Value, "\\*?[~")) {
				r.text = part.Value
				return r.word
			}
		case *syntax.SglQuoted:
			if !part.Dollar && !isOpaqueText(part.Value) {
				r.text, r.noBracket = part.Value, !strings.ContainsAny(part.Value, "[`$")
				return r.word
			}
		}
	}
	for i, part := range parts {
		if !s.enter(part) {
			r.unknown()
			break
		}
		s.part(r, part, i == 0, quoted)
		s.leave()
	}
	if r.static {
		r.text = r.b.String()
	} else if !r.formless {
		r.word.form = r.form.String()
	}
	r.number = r.number && !r.static && r.b.Len() == 0 && len(parts) == 1
	r.path = r.path && (r.static || r.b.Len() == 0 || r.text == "")
	return r.word
}

func (s *script) part(r *resolver, part syntax.WordPart, first, quoted bool) {
	switch part := part.(type) {
	case *syntax.Lit:
		if !quoted && (strings.Contains(part.Value, "<(") || strings.Contains(part.Value, ">(")) {
			s.unsure("a process substitution, which only some shells have", s.spanOf(part)) // busybox does in ${x:-<(id)}
		}
		s.literal(r, part.Value, first, quoted)
	case *syntax.SglQuoted:
		s.single(r, part)
	case *syntax.DblQuoted:
		if part.Dollar {
			s.needBash(part)
			r.unknown() // bash translates it
			r.begins(false)
		}
		inner := s.parts(part.Parts, true)
		r.take(inner, len(part.Parts) == 1 && first)
	case *syntax.ParamExp:
		r.take(s.param(part, quoted), first)
	case *syntax.CmdSubst:
		if part.TempFile || part.ReplyVar {
			s.needBash(part)
		}
		if part.Backquotes {
			s.backquotes(part)
		}
		s.stmts(part.Stmts, unknownDirs, false)
		r.take(word{splits: !quoted, number: numericOutput(part), noDash: outputWithoutDash(part)}, first)
	case *syntax.ArithmExp:
		if part.Bracket || part.Unsigned {
			s.needBash(part)
		}
		s.arithm(part.X)
		r.take(word{noBracket: true, form: "\x00"}, first)
	case *syntax.ProcSubst:
		s.stmts(part.Stmts, unknownDirs, false)
		r.take(word{path: true, procSubst: true, noBracket: true, noDash: true}, first)
	case *syntax.ExtGlob:
		s.needBash(part)
		s.hidden("an extended pattern", s.spanOf(part))
		r.take(word{splits: true}, first)
	default:
		s.deny("an unsupported kind of word", s.spanOf(part))
		r.unknown()
	}
}

// backquotes denies text whose end the shells see elsewhere: they look
// for the next backquote first, or remove quotes twice.
func (s *script) backquotes(c *syntax.CmdSubst) {
	inner := s.source(c)
	if inner = inner[1:max(len(inner)-1, 1)]; strings.ContainsAny(inner, "`\\#") || strings.Contains(inner, "<<") {
		s.deny("backquotes around text that shells read differently (write $(…))", s.spanOf(c))
	}
}

func (s *script) source(n syntax.Node) string {
	start, end := int(n.Pos().Offset()), int(n.End().Offset())
	if start > end || end > len(s.text) {
		return s.text
	}
	return s.text[start:end]
}

// take appends a resolved part.
func (r *resolver) take(w word, first bool) {
	r.dotted = r.dotted || w.dotted && !r.bracket
	if !w.noDash || w.static && w.text != "" || w.path {
		r.begins(w.noDash || w.path || w.static && w.text[0] != '-')
	}
	if w.static {
		r.write(w.text)
		r.noBracket = r.noBracket && w.noBracket
		return
	}
	if w.number && w.form == "" {
		w.form = "\x00"
	}
	if r.static {
		r.b.WriteString(w.text)
		w.form = strings.TrimPrefix(w.form, w.text) // unknown includes the text
	}
	formless := r.formless || w.form == ""
	r.unknown()
	if r.formless = formless; !formless {
		r.form.WriteString(w.form)
	}
	r.splits, r.globs = r.splits || w.splits, r.globs || w.globs
	r.noBracket = r.noBracket && (w.noBracket || w.number)
	if first {
		r.number, r.path, r.procSubst = w.number, w.path, w.procSubst
	}
}

// literal removes the escapes from text that is not in single quotes.
func (s *script) literal(r *resolver, text string, first, quoted bool) {
	if !quoted && first && strings.HasPrefix(text, "~") {
		r.unknown()
		if len(text) > 1 && strings.IndexByte("-+0123456789", text[1]) >= 0 {
			r.begins(false) // ~- is $OLDPWD
			return
		}
		r.begins(true)
		r.path = true // a home directory; scripts do not set HOME
		return
	}
	if !quoted && (strings.Contains(text, "=~") || strings.Contains(text, ":~")) {
		r.unknown() // a home directory, in what looks like an assignment
	}
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\\' && i+1 < len(text) && (!quoted || strings.IndexByte("$`\"\\", text[i+1]) >= 0):
			i++
			c = text[i]
		case !quoted && (c == '*' || c == '?' || c == '['):
			r.unknown()
			r.begins(false)
			r.globs, r.noBracket = true, r.noBracket && c != '['
			r.bracket = r.bracket || c == '['
		case c == '.' || c == '/':
			r.dotted = r.dotted || !r.bracket
		}
		if c == '[' || c == '`' || c == '$' {
			r.noBracket = false
		}
		r.begins(c != '-' && c != '{')
		r.write(text[i : i+1])
	}
}

func (s *script) single(r *resolver, q *syntax.SglQuoted) {
	text := q.Value
	if q.Dollar {
		s.needBash(q)
		if strings.Contains(text, "\\") {
			text = ansiC.Replace(text)
			if strings.Contains(text, "\\") {
				r.unknown()
				r.begins(false)
				r.noBracket = false
				return
			}
		}
	}
	if text != "" {
		r.begins(text[0] != '-' && text[0] != placeholder)
	}
	if strings.ContainsAny(text, "[`$") {
		r.noBracket = false
	}
	if isOpaqueText(text) {
		r.write(text[:max(0, strings.IndexByte(text, placeholder))])
		r.unknown()
	}
	r.dotted = r.dotted || !r.bracket && strings.ContainsAny(text, "./")
	r.write(text)
}

// ansiC are the escapes of $'…' that are decoded here. With others the word is
// unknown.
var ansiC = strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\'`, "'", `\"`, `"`, `\r`, "\r")
