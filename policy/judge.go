package policy

import (
	"fmt"
	"maps"
	"slices"
	"unicode"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// Limits. A script that exceeds one is denied, never judged in part.
const (
	maxScript = 128 << 10 // of syntax, and of one word that is parsed: Linux accepts no longer argument
	maxSteps  = 50_000    // visited nodes, and commands with their words
	maxDepth  = 100       // nested nodes
	maxTexts  = 6         // scripts within scripts, which are judged once per dialect
	maxParens = 500       // the parser needs seconds for 100,000 of them

	wordsInStep = 128 // of a command: to read one is less work than to visit a node
)

// Judge decides on a script as `sh -c` would run it, or on the script within one outer
// `sh -c '…'`. It reads only the text: what the image's
// programs are, what files contain and where links lead is unknown. The script starts
// in dir, an absolute path in the container; any other value means an unknown directory.
func (p *CommandPolicy) Judge(text, dir string) Verdict {
	if len(p.matches) == 0 && p.rules.Default == Allow && len(p.rules.Writes) == 0 {
		return Verdict{Decision: Allow, Reason: "there are no rules, and the default is allow"}
	}
	if at, what := tooMuch(text); what != "" {
		return p.refuse(text, at, what)
	}
	j := &judge{policy: p, src: text, wide: isWide(text), start: startIn(dir), names: newNames()}
	text = withPlaceholders(text)
	j.readings(p.dialects(), func(one *judge, lang syntax.LangVariant) {
		s := &script{j: one, lang: lang, text: text, onlyBash: p.rules.Shell == ShellBash, outer: true}
		s.judgeText(j.start)
	})
	return j.verdict()
}

// JudgeIn is Judge for a script that this shell runs: bash, or any sh.
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

// dialects are the grammars that a script must pass. What sh is depends on the
// image: some read `a &> b` as one redirection and some as two commands.
func (p *CommandPolicy) dialects() []syntax.LangVariant {
	if p.rules.Shell == ShellBash {
		return []syntax.LangVariant{langBash}
	}
	return []syntax.LangVariant{syntax.LangPOSIX, langBash}
}

// judge collects the findings in one script and the scripts within it.
type judge struct {
	policy   *CommandPolicy
	src      string
	wide     bool // src has characters that are not ASCII
	start    dirSet
	lines    []int // where each line starts
	steps    int
	commands []CommandVerdict
	hereDocs []Span
	unknown  []Unknown
	names    *names
	ruled    bool // a rule or the default decided on a command
	granted  granted
}

// names are collected over all readings and the scripts within.
type names struct {
	roots  map[string]bool // programs that are run
	called map[string]bool // functions that are called
	unset  map[string]bool // variables or functions that are unset
}

func newNames() *names {
	return &names{roots: map[string]bool{}, called: map[string]bool{}, unset: map[string]bool{}}
}

// readings judges a text in several dialects, one of which is the shell's. The result
// is the strictest reading, plus everything the others would ask about.
func (j *judge) readings(dialects []syntax.LangVariant, read func(*judge, syntax.LangVariant)) {
	var strictest *judge
	ruled := true
	for _, lang := range dialects {
		one := &judge{policy: j.policy, src: j.src, wide: j.wide, start: j.start, lines: j.lines, steps: j.steps, names: j.names}
		read(one, lang)
		j.lines, j.steps = one.lines, one.steps
		ruled = ruled && one.ruled
		j.granted.add(one.granted)
		switch {
		case strictest == nil:
			strictest = one
		case one.decision() < strictest.decision():
			strictest, one = one, strictest
			fallthrough
		default:
			strictest.asksFor(one)
		}
	}
	j.ruled = j.ruled || ruled
	j.commands = append(j.commands, strictest.commands...)
	j.unknown = append(j.unknown, strictest.unknown...)
}

func (j *judge) decision() Decision {
	strictest := Allow
	for _, c := range j.commands {
		strictest = min(strictest, c.Decision)
	}
	return strictest
}

// asksFor adds what only another reading asks about: an approval covers both
// readings.
func (j *judge) asksFor(other *judge) {
	asked := func(c CommandVerdict) CommandVerdict { // whatever the reason
		c.Reason = ""
		return c
	}
	known := map[CommandVerdict]bool{}
	for _, mine := range j.commands {
		known[asked(mine)] = true
	}
	for _, c := range other.commands {
		if c.Decision == Ask && !known[asked(c)] {
			known[asked(c)] = true
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
	// Commands that change only the shell, such as cd, are no reason to allow.
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

// span counts lines and columns itself, since the parser's are limited to 2^14.
func (j *judge) span(start, end int) Span {
	start = min(max(start, 0), len(j.src))
	end = min(max(end, start), len(j.src))
	for end < len(j.src) && end > start && !utf8.RuneStart(j.src[end]) {
		end++ // what was refused because of its first byte is shown whole
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

// refuse is the verdict on a script that cannot be read.
func (p *CommandPolicy) refuse(src string, at int, what string) Verdict {
	j := &judge{policy: p, src: src}
	return Verdict{Reason: what, Span: j.span(at, at+1)}
}

// tooMuch finds scripts that are too large to parse.
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
