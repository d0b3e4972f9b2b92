package policy

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// Limits deny: a script past one is not judged in part.
const (
	maxScript = 128 << 10 // of syntax, and of one word that is looked into: Linux takes no longer argument
	maxSteps  = 50_000    // nodes looked at
	maxDepth  = 100       // nodes within nodes
	maxTexts  = 6         // scripts within scripts, which are judged once per dialect
	maxParens = 500       // the parser needs seconds for 100,000 of them
)

// Judge decides on a script as `sh -c` would run it, or on what one outer
// `sh -c '…'` would run. It looks at nothing but the text: what the image's
// programs are, what files say and where links lead is not known here. It starts
// in dir, absolute and in the container; any other is unknown.
func (p *CommandPolicy) Judge(text, dir string) Verdict {
	if len(p.matches) == 0 && p.rules.Default == Allow && len(p.rules.Writes) == 0 {
		return Verdict{Decision: Allow, Reason: "there are no rules, and the default is allow"}
	}
	if at, what := tooMuch(text); what != "" {
		return p.refuse(text, at, what)
	}
	j := &judge{policy: p, src: text, start: startIn(dir), names: newNames()}
	text = veiled(text)
	j.readings(p.dialects(), func(one *judge, lang syntax.LangVariant) {
		s := &script{j: one, lang: lang, text: text, onlyBash: p.rules.Shell == ShellBash, outer: true}
		s.judgeText(j.start)
	})
	return j.verdict()
}

// dialects are the grammars a script must pass. What sh is depends on the
// image: some read `a &> b` as one redirection and some as two commands.
func (p *CommandPolicy) dialects() []syntax.LangVariant {
	if p.rules.Shell == ShellBash {
		return []syntax.LangVariant{langBash}
	}
	return []syntax.LangVariant{syntax.LangPOSIX, langBash}
}

// judge gathers what is found in one script and the scripts within it.
type judge struct {
	policy   *CommandPolicy
	src      string
	start    where
	lines    []int // where each starts
	steps    int
	commands []CommandVerdict
	unknown  []Unknown
	names    *names
	ruled    bool // a rule or the default spoke on a command
	granted  granted
}

// names are what is gathered of them in all readings and scripts within.
type names struct {
	roots  map[string]bool // programs that are run
	called map[string]bool // functions that are called
	unset  map[string]bool // what is unset, variables or functions
}

func newNames() *names {
	return &names{roots: map[string]bool{}, called: map[string]bool{}, unset: map[string]bool{}}
}

// readings judges a text in several dialects, of which the shell has one. What
// is told is the strictest reading, with all that the others would ask about.
func (j *judge) readings(dialects []syntax.LangVariant, read func(*judge, syntax.LangVariant)) {
	var told *judge
	ruled := true
	for _, lang := range dialects {
		one := &judge{policy: j.policy, src: j.src, start: j.start, lines: j.lines, steps: j.steps, names: j.names}
		read(one, lang)
		j.lines, j.steps = one.lines, one.steps
		ruled = ruled && one.ruled
		j.granted.add(one.granted)
		switch {
		case told == nil:
			told = one
		case one.decision() < told.decision():
			told, one = one, told
			fallthrough
		default:
			told.asksFor(one)
		}
	}
	j.ruled = j.ruled || ruled
	j.commands = append(j.commands, told.commands...)
	j.unknown = append(j.unknown, told.unknown...)
}

func (j *judge) decision() Decision {
	strictest := Allow
	for _, c := range j.commands {
		strictest = min(strictest, c.Decision)
	}
	return strictest
}

// asksFor adds what only another reading asks about: who approves the one
// approves the other.
func (j *judge) asksFor(other *judge) {
	for _, c := range other.commands {
		known := func(mine CommandVerdict) bool {
			return mine.Decision == Ask && mine.Program == c.Program && mine.Rule == c.Rule
		}
		if c.Decision == Ask && !slices.ContainsFunc(j.commands, known) {
			j.commands = append(j.commands, c)
		}
	}
	if len(j.unknown) == 0 {
		j.unknown = other.unknown
	}
}

func (j *judge) verdict() Verdict {
	v := Verdict{Decision: Allow, Roots: slices.Sorted(maps.Keys(j.names.roots)), Unknown: j.unknown, Commands: j.commands}
	for i, c := range j.commands {
		if i == 0 || c.Decision < v.Decision {
			v.Decision, v.Rule, v.Reason, v.Span = c.Decision, c.Rule, c.Reason, c.Span
		}
	}
	if len(j.commands) == 0 {
		v.Reason = "it runs nothing that a rule decides on"
	}
	// What only moves within the shell, such as cd, is no reason to allow.
	if d := j.policy.rules.Default; !j.ruled && d < v.Decision {
		v.Decision, v.Rule, v.Span = d, "", j.span(0, len(j.src))
		v.Reason = "it runs nothing that a rule decides on, and the default is " + d.String()
	}
	if v.Decision > Deny {
		v.Grant, v.Withheld = j.granted.Grant, j.granted.withheld()
	}
	return v
}

func (j *judge) add(c CommandVerdict) { j.commands = append(j.commands, c) }

// span counts lines and columns itself, since the parser's are cut at 2^14.
func (j *judge) span(start, end int) Span {
	start = min(max(start, 0), len(j.src))
	end = min(max(end, start), len(j.src))
	for end < len(j.src) && end > start && !utf8.RuneStart(j.src[end]) {
		end++ // what was refused by its first byte is shown whole
	}
	if j.lines == nil {
		j.lines = []int{0}
		for i := range len(j.src) {
			if j.src[i] == '\n' {
				j.lines = append(j.lines, i+1)
			}
		}
	}
	line, found := slices.BinarySearch(j.lines, start)
	if !found {
		line--
	}
	return Span{Start: start, End: end, Line: line + 1, Column: start - j.lines[line] + 1}
}

// refuse is the verdict on what cannot be read.
func (p *CommandPolicy) refuse(src string, at int, what string) Verdict {
	j := &judge{policy: p, src: src}
	return Verdict{Reason: what, Span: j.span(at, at+1)}
}

// tooMuch finds what is not parsed at all.
func tooMuch(src string) (at int, what string) {
	if wordsOnly(src) {
		return 0, ""
	}
	if len(src) > maxScript {
		return maxScript, fmt.Sprintf("the script is longer than %d bytes", maxScript)
	}
	parens := 0
	for i := range len(src) {
		switch src[i] {
		case '(':
			parens++
		case ')':
			parens = max(parens-1, 0)
		}
		if parens > maxParens {
			return i, "the script is nested too deeply"
		}
	}
	return 0, ""
}

func isControl(r rune) bool { return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' }

const langBash = syntax.LangBash

// script is a text that a shell runs, read in one dialect. Spans of a script
// within a script are those of the words that it came from.
type script struct {
	j         *judge
	lang      syntax.LangVariant
	text      string
	shift     int   // where the text starts in the judged script,
	fixed     *Span // unless it does not stand there as it is
	onlyBash  bool  // the shell is bash for sure, so its own syntax is fine
	outer     bool  // the text as it was given, whose one sh -c is taken off
	nested    int
	depth     int
	file      *syntax.File
	functions map[string]bool
	vars      *variables
	lost      bool // what cd does cannot be followed
	elsewhere bool // it runs in another root, or on another host
	piped     bool // the command that is judged writes to a pipe
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

// judgeText parses and judges the script, and tells where it may end up.
func (s *script) judgeText(in where) where {
	if s.nested > maxTexts {
		s.deny("scripts are nested too deeply", s.span(0, len(s.text)))
		return lostWhere
	}
	file, err := parse(s.text, s.lang)
	if err != nil && s.lang == syntax.LangPOSIX {
		if plain := s.standIn(); plain != nil {
			file, err = plain, nil
		}
	}
	if at := strings.IndexByte(s.text, veil); err != nil && at >= 0 {
		s.deny(odd(s.j.src[at:]), s.span(at, at+1))
		return lostWhere
	}
	if err != nil {
		at, what := parseError(err)
		if what = "the script does not parse: " + what; s.onlyBash || !s.parsesAs(s.other()) {
			s.deny(what, s.span(at, at+1))
		} else {
			s.unsure(what, s.span(at, at+1))
		}
		return lostWhere
	}
	s.file = file
	if at := unveiled(file, s.text); at >= 0 {
		s.deny(odd(s.j.src[at:]), s.span(at, at+1))
		return lostWhere
	}
	if at := splitComment(file, s.text); at >= 0 {
		s.deny("a comment ends in a backslash, which readers take differently", s.span(at, at+1))
		return lostWhere
	}
	if at := hereDocAfter(file, s.text); at >= 0 {
		s.deny("a here-document of a substitution stands after it, which readers take differently (end the line before the bracket)", s.span(at, at+1))
		return lostWhere
	}
	if at := joinedDollar(file, s.text); at >= 0 {
		s.deny("a dollar sign goes on in the next line, which readers take differently", s.span(at, at+1))
		return lostWhere
	}
	if inner := s.unwrapped(); inner != nil {
		return inner.judgeText(in)
	}
	s.functions = map[string]bool{}
	return s.stmts(file.Stmts, in, true)
}

// parsers are kept, since a new one costs as much as reading a line.
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
		return int(other.Pos.Offset()), "not every sh has " + oneLine(other.Feature)
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
// reads on in the same command there, where shells start a new one.
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

// unsure is for what shells read differently, where a person who is asked can
// tell. Without one it is denied.
func (s *script) unsure(what string, at Span) {
	if s.j.policy.rules.Default == Ask {
		s.hidden(what, at)
		return
	}
	s.deny(what, at)
}

// hidden adds what only the run reveals: it gets what anything could get.
func (s *script) hidden(what string, at Span) {
	s.j.unknown = append(s.j.unknown, Unknown{What: what, Span: at})
	s.j.ruled = true
	s.j.granted.narrow(s.j.policy.least.Grant)
	s.j.granted.share(nil)
	s.j.add(CommandVerdict{Decision: s.j.policy.worst, Reason: "unknown until it runs: " + what, Span: at})
}

// enter counts a step, and is false past a limit.
func (s *script) enter(n syntax.Node) bool {
	s.depth++
	s.j.steps++
	if s.depth <= maxDepth && s.j.steps <= maxSteps {
		return true
	}
	if s.j.steps <= maxSteps || s.j.steps == maxSteps+1 {
		s.deny("the script is too large or nested too deeply to judge", s.spanOf(n))
	}
	return false
}

func (s *script) leave() { s.depth-- }
