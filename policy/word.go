package policy

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// word is what is known of a word before the script runs.
type word struct {
	text      string // all of it if static, else the known start of each of its fields
	static    bool
	splits    bool   // may expand to no field or several, of which only the first starts with text
	globs     bool   // may expand to several fields, all of which start with text
	number    bool   // consists of digits
	noBracket bool   // contains no bracket, so no subscript that bash would evaluate
	path      bool   // starts with a slash
	noDash    bool   // is empty or does not start with a dash
	form      string // of a word whose only unknown parts are numbers: all of it, with a NUL for each
	notConn   bool   // no field is the name of a connection, see connections
	dotted    bool   // contains a dot or slash outside brackets; so does each field, unless it splits
	procSubst bool
	start     int // its offset in its script's text
	end       int
	inner     int // the offset of text in the script, or -1 if it is not there unchanged
}

func (w word) show() string {
	if w.static {
		return quoteShort(w.text)
	}
	return "a name that is known only when it runs"
}

// mayBeOption reports whether one of the fields may start with a dash.
func (w word) mayBeOption() bool {
	switch {
	case w.static:
		return len(w.text) > 1 && w.text[0] == '-'
	case w.number, (w.path || w.noDash) && !w.splits:
		return false
	}
	return w.splits || w.text == "" || w.text[0] == '-'
}

func (w word) is(text string) bool { return w.static && w.text == text }

// words resolves words as the shell would, and judges the commands in them.
func (s *script) words(list []*syntax.Word) []word {
	words := make([]word, len(list))
	for i, w := range list {
		words[i] = s.word(w)
	}
	return words
}

func (s *script) word(w *syntax.Word) word {
	if w == nil || len(w.Parts) == 0 {
		return word{static: true, noBracket: true, inner: -1}
	}
	out := s.parts(w.Parts, false)
	out.start, out.end = int(w.Pos().Offset()), int(w.End().Offset())
	out.inner = s.verbatim(w, out)
	if s.lang == langBash && bracesIn(w) {
		// The text before the brace is the same in every field.
		out.static, out.number, out.globs, out.dotted, out.form = false, false, true, false, ""
		out.text, _, _ = strings.Cut(out.text, "{")
	}
	out.notConn = !out.static && !out.splits && s.isNotConn(w)
	return out
}

// verbatim returns the offset of the word's text in the script if it is there unchanged.
func (s *script) verbatim(w *syntax.Word, out word) int {
	if !out.static || len(w.Parts) != 1 {
		return -1
	}
	at := out.start
	if _, isLit := w.Parts[0].(*syntax.Lit); !isLit {
		at++
	}
	if at+len(out.text) <= len(s.text) && s.text[at:at+len(out.text)] == out.text {
		return at
	}
	return -1
}

// bracesIn reports whether bash would expand braces in the word. It may report
// some that bash would not expand.
func bracesIn(w *syntax.Word) bool {
	for i, part := range w.Parts {
		lit, ok := part.(*syntax.Lit)
		if !ok {
			continue
		}
		if open := strings.IndexByte(lit.Value, '{'); open >= 0 {
			rest := lit.Value[open:]
			return len(w.Parts) > i+1 || strings.Contains(rest, ",") || strings.Contains(rest, "..")
		}
	}
	return false
}
