package policy

import (
	"fmt"
	"maps"
	"slices"
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

// JudgeIn is Judge of a script that this shell runs: bash, or whatever sh is.
func (p *CommandPolicy) JudgeIn(shell, text, dir string) Verdict {
	switch isBash := shell == ShellBash; {
	case p.rules.Shell == ShellBash && !isBash:
		return p.refuse(text, 0, "policy.shell is bash, but the command runs in "+shell+": set shell to bash, or leave out policy.shell")
	case p.rules.Shell == "" && isBash:
		bash := *p
		bash.rules.Shell = ShellBash
		return bash.Judge(text, dir)
	}
	return p.Judge(text, dir)
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
		v.Reason = "no rule applies to it"
	}
	// What only moves within the shell, such as cd, is no reason to allow.
	if d := j.policy.rules.Default; !j.ruled && d < v.Decision {
		v.Decision, v.Rule, v.Span = d, "", j.span(0, len(j.src))
		v.Reason = "no rule applies to it, and the default is " + d.String()
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
