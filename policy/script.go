package policy

import (
	"errors"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"
)

const langBash = syntax.LangBash

// script is a text that a shell runs, read in one dialect. Spans in a script
// within a script are those of the words that contain it.
type script struct {
	j         *judge
	lang      syntax.LangVariant
	text      string
	shift     int   // where the text starts in the judged script,
	fixed     *Span // unless its text is not in the judged script unchanged
	onlyBash  bool  // the shell is certainly bash, so bash's own syntax is allowed
	outer     bool  // the text as given, before its one sh -c is removed
	nested    int
	depth     int
	file      *syntax.File
	functions map[string]bool
	vars      *variables
	lost      bool // the effect of cd cannot be followed
	elsewhere bool // it runs in another root, or on another host
	piped     bool // the judged command writes to a pipe
	pages     bool // no variable says that git uses no pager
}

func (s *script) span(start, end int) Span {
	if s.fixed != nil {
		return *s.fixed
	}
	return s.j.span(s.shift+start, s.shift+end)
}

func (s *script) spanOf(n syntax.Node) Span {
	return s.span(int(n.Pos().Offset()), int(n.End().Offset()))
}

// judgeText parses and judges the script, and returns the directories it may end in.
func (s *script) judgeText(in dirSet) dirSet {
	if s.nested > maxTexts {
		s.deny("scripts are nested too deeply", s.span(0, len(s.text)))
		return unknownDirs
	}
	file, err := parse(s.text, s.lang)
	if err != nil && s.lang == syntax.LangPOSIX {
		if plain := s.parseReplaced(); plain != nil {
			file, err = plain, nil
		}
	}
	if at := strings.IndexByte(s.text, placeholder); err != nil && at >= 0 {
		s.deny(badChar(s.j.src[at:]), s.span(at, at+1))
		return unknownDirs
	}
	if err != nil {
		at, what := parseError(err)
		if what = "the script has a syntax error: " + what; s.onlyBash || !s.parsesAs(s.other()) {
			s.deny(what, s.span(at, at+1))
		} else {
			s.unsure(what, s.span(at, at+1))
		}
		return unknownDirs
	}
	s.file = file
	if at := unquotedPlaceholder(file, s.text); at >= 0 {
		s.deny(badChar(s.j.src[at:]), s.span(at, at+1))
		return unknownDirs
	}
	if at := splitComment(file, s.text); at >= 0 {
		s.deny("a comment ends in a backslash, which shells read differently", s.span(at, at+1))
		return unknownDirs
	}
	if at := hereDocAfter(file, s.text); at >= 0 {
		s.deny("a here-document in a substitution continues after it, which shells read differently (end the line before the closing bracket)", s.span(at, at+1))
		return unknownDirs
	}
	if at := joinedDollar(file, s.text); at >= 0 {
		s.deny("a dollar sign before a line end, which shells read differently", s.span(at, at+1))
		return unknownDirs
	}
	if inner := s.unwrapped(); inner != nil {
		return inner.judgeText(in)
	}
	s.functions = map[string]bool{}
	return s.stmts(file.Stmts, in, true)
}

// parsers are reused, since a new one costs as much as parsing a line.
var parsers = sync.Pool{New: func() any { return syntax.NewParser() }}

func parse(text string, lang syntax.LangVariant) (*syntax.File, error) {
	p := parsers.Get().(*syntax.Parser)
	defer parsers.Put(p)
	syntax.Variant(lang)(p)
	syntax.KeepComments(strings.Contains(text, "\\\n"))(p)
	return p.Parse(strings.NewReader(text), "")
}

func parseError(err error) (at int, what string) {
	var bad syntax.ParseError
	var other syntax.LangError
	switch {
	case errors.As(err, &bad):
		return int(bad.Pos.Offset()), oneLine(bad.Text)
	case errors.As(err, &other):
		return int(other.Pos.Offset()), "some shells do not have " + oneLine(other.Feature)
	}
	return 0, oneLine(err.Error())
}

func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if isControl(r) {
			return ' '
		}
		return r
	}, text)
}

// splitComment finds a comment that ends in a backslash. mvdan.cc/sh v3.14.1
// continues the same command there, where shells start a new one.
func splitComment(file *syntax.File, text string) int {
	if !strings.Contains(text, "\\\n") || !strings.Contains(text, "#") {
		return -1
	}
	at := -1
	syntax.Walk(file, func(n syntax.Node) bool {
		if c, ok := n.(*syntax.Comment); ok && at < 0 && strings.HasSuffix(strings.TrimRight(c.Text, "\n"), "\\") {
			at = int(c.Hash.Offset())
		}
		return at < 0
	})
	return at
}

// deny adds a denial that no rule can lift.
func (s *script) deny(what string, at Span) {
	s.j.add(CommandVerdict{Decision: Deny, Reason: what, Span: at})
}

// unsure is for text that shells read differently. A person who is asked can
// decide; otherwise it is denied.
func (s *script) unsure(what string, at Span) {
	if s.j.policy.rules.Default == Ask {
		s.hidden(what, at)
		return
	}
	s.deny(what, at)
}

// hidden adds what is known only at run time: it gets the decision on any command.
func (s *script) hidden(what string, at Span) {
	s.j.unknown = append(s.j.unknown, Unknown{What: what, Span: at})
	s.j.ruled = true
	s.j.granted.narrow(s.j.policy.least.Grant)
	s.j.granted.share(nil)
	s.j.add(CommandVerdict{Decision: s.j.policy.worst, Reason: "known only when it runs: " + what, Span: at})
}

// enter counts a step. It returns false past a limit.
func (s *script) enter(n syntax.Node) bool {
	s.depth++
	start, end := int(n.Pos().Offset()), int(n.End().Offset())
	if !s.spend(1, start, end) {
		return false
	}
	if s.depth > maxDepth {
		s.deny(tooLarge, s.span(start, end))
	}
	return s.depth <= maxDepth
}

const tooLarge = "the script is too large or nested too deeply to judge"

// spend counts steps. It returns false past the limit, which is a denial.
func (s *script) spend(steps, start, end int) bool {
	before := s.j.steps
	if s.j.steps += steps; s.j.steps <= maxSteps {
		return true
	}
	if before <= maxSteps {
		s.deny(tooLarge, s.span(start, end))
	}
	return false
}

func (s *script) leave() { s.depth-- }
