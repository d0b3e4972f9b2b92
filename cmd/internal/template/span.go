package template

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

const (
	// maxSpan is the longest span, in bytes. A longer script belongs in a file.
	maxSpan = 16 << 10

	// maxTries is how many closing braces may end a span, and maxRead bounds
	// how much is parsed in total to find out, in bytes.
	maxTries = 100
	maxRead  = 8 << 20

	// maxNested is how deep parentheses may be, and braces: the parser is a
	// hundred times slower deep down.
	maxNested = 100
)

// finder finds spans in a template.
type finder struct {
	text        string
	read        int
	posix, bash *syntax.Parser
}

func newFinder(text string) *finder {
	grammar := func(lang syntax.LangVariant) *syntax.Parser {
		return syntax.NewParser(syntax.Variant(lang), syntax.KeepComments(true))
	}
	return &finder{text: text, posix: grammar(syntax.LangPOSIX), bash: grammar(syntax.LangBash)}
}

// span is the one that begins there.
func (f *finder) span(start int) (*span, error) {
	at := locate(f.text, start)
	from, tries, parens, braces := start+len(open), 0, 0, 0
	body := f.text[from:]
	for i := range min(len(body), maxSpan+1) {
		switch body[i] {
		case '(':
			parens++
		case ')':
			parens = max(parens-1, 0)
		case '{':
			braces++
		case '}':
			braces = max(braces-1, 0)
		}
		if max(parens, braces) > maxNested {
			return nil, at.errorf("its parentheses or braces are nested more than %d deep: put the command into a file", maxNested)
		}
		if body[i] != '}' || oddBackslashes(body[:i]) {
			continue
		}
		tries++
		if f.read += i; tries > maxTries || f.read > maxRead {
			return nil, at.errorf("it takes too long to find its end: use fewer braces, or put the command into a file")
		}
		found, err := survey(f.posix, body[:i])
		switch {
		case err != nil || found.braces != 0:
			continue
		case f.divides(from, from+i) >= 0:
			return nil, f.notWord(f.divides(from, from+i))
		case found.inComment:
			return nil, locate(f.text, from+i).errorf("a comment contains a }, or the } that ends the command: put that } on the next line")
		case found.empty:
			return nil, at.errorf("it is empty (write \\!{ if that is text)")
		}
		s := &span{script: body[:i], at: at}
		return s, s.punch(f, found, from)
	}
	return nil, at.errorf("it does not end: no } within %d bytes completes the command that begins here (pair its braces and quotes; or write \\!{ if that is text)", maxSpan)
}

// divides is the position of a hole that begins in a span and ends after it, or -1.
func (f *finder) divides(start, end int) int {
	for i := max(start, end-len(hole)+1); i < end; i++ {
		if strings.HasPrefix(f.text[i:], hole) {
			return i
		}
	}
	return -1
}

func (f *finder) notWord(at int) error {
	return f.refused(at, hole+" is not a word of a command here: write {{args}} outside quotes, as an argument after the program's name")
}

func (f *finder) refused(at int, why string) error {
	return locate(f.text, at).errorf("%s", why)
}

// punch finds the holes, and refuses those where arguments could be more than
// one word, or the program.
func (s *span) punch(f *finder, posix surveyed, start int) error {
	var bash surveyed
	for from := 0; ; {
		i := strings.Index(s.script[from:], hole)
		if i < 0 {
			return nil
		}
		i += from
		from = i + len(hole)
		if len(s.holes) == 0 {
			var err error
			if bash, err = survey(f.bash, s.script); err != nil {
				return s.at.errorf("shells read it in different ways, so it cannot have arguments: %v (write POSIX syntax)", err)
			}
			if posix.joined {
				return s.at.errorf("it joins lines with a backslash next to a comment or a here-document, which shells read in different ways, so it cannot have arguments (write that as one line)")
			}
		}
		for _, found := range []surveyed{posix, bash} {
			switch w, takes := found.takes(s.script, i); {
			case !takes:
				return f.notWord(start + i)
			case w.why != "":
				return f.refused(start+i, w.why)
			}
		}
		s.holes = append(s.holes, i)
	}
}

// takes returns the word that contains the hole at that position, if any.
func (found surveyed) takes(script string, at int) (extent, bool) {
	in := slices.IndexFunc(found.words, func(w extent) bool { return w.start <= at && at+len(hole) <= w.end })
	if in < 0 || oddBackslashes(script[found.words[in].start:at]) {
		return extent{}, false
	}
	return found.words[in], true
}

func oddBackslashes(text string) bool {
	return (len(text)-len(strings.TrimRight(text, `\`)))%2 == 1
}

// surveyed is what the parser found in a script.
type surveyed struct {
	braces int      // unquoted opening minus closing braces that are text
	words  []extent // where arguments may be a word

	empty     bool
	inComment bool // the script ends in a comment
	joined    bool // other readers may see a comment there
}

type extent struct {
	start, end int
	why        string // why arguments are not allowed there
}

// place is a position in a script's syntax.
type place struct {
	quoted bool // braces have no meaning for any shell
	closed bool // a quoted word would change its meaning
	word   bool // directly in a word which is an argument,
	why    string
}

func survey(grammar *syntax.Parser, script string) (found surveyed, err error) {
	file, err := grammar.Parse(strings.NewReader(script), "")
	if err != nil {
		return found, err
	}
	found.empty = len(file.Stmts) == 0
	joins := strings.Contains(script, "\\\n")
	stack := []place{{}}
	arguments, bodies := map[*syntax.Word]string{}, map[*syntax.Word]bool{}
	syntax.Walk(file, func(n syntax.Node) bool {
		if n == nil {
			stack = stack[:len(stack)-1]
			return true
		}
		p := stack[len(stack)-1]
		switch n := n.(type) {
		case *syntax.CallExpr:
			words := sources(script, n.Args)
			for i, w := range n.Args {
				if i > 0 && strings.Contains(words[i], hole) {
					arguments[w] = refuses(words, i)
				}
			}
		case *syntax.Redirect:
			if n.Hdoc != nil {
				bodies[n.Hdoc] = true
				found.joined = found.joined || joins
			}
		case *syntax.Comment:
			found.inComment = found.inComment || int(n.End().Offset()) >= len(script)
			found.joined = found.joined || joins
		case *syntax.Word:
			p.why, p.word = arguments[n]
			if bodies[n] {
				p.quoted, p.closed = true, true
			}
		case *syntax.DblQuoted:
			p.quoted = true
		case *syntax.CmdSubst: // a backslash in backquotes is not part of the script in them
			p.quoted, p.word, p.closed = false, false, p.closed || n.Backquotes
		case *syntax.ParamExp, *syntax.ArithmExp, *syntax.ArithmCmd:
			p.closed = true
		case *syntax.Lit:
			found.literal(p, script, int(n.Pos().Offset()), int(n.End().Offset()))
		}
		stack = append(stack, p)
		return true
	})
	return found, nil
}

func (found *surveyed) literal(p place, script string, start, end int) {
	if p.quoted || start < 0 || end > len(script) || start > end {
		return
	}
	if p.word && !p.closed {
		found.words = append(found.words, extent{start, end, p.why})
	}
	for i := start; i < end; i++ {
		switch script[i] {
		case '\\':
			i++
		case '{':
			found.braces++
		case '}':
			found.braces--
		}
	}
}
