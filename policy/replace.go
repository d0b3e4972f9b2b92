package policy

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// A shell reads some of bash's syntax as bash does, or ends the
// script there with an error: dash and busybox have no other meaning for `<(…)`,
// `<<<`, `a=(…)`, `${x//a/b}`, `for ((…))` and `|&`. A script for sh may use
// these. To parse it as POSIX as well, each is replaced by plain text of the same
// length, and the script that it contained is judged by itself.

// maxReplacements bounds them, since the script in each is parsed again.
const maxReplacements = 100

// replacement replaces text[from:to], which may contain a script.
type replacement struct {
	from, to int
	text     string // as long as what it replaces
	within   string // "" is none
	at       int    // the offset of within
}

// replaceBash rewrites the text so that POSIX can parse it, if these are the only problems.
func replaceBash(text string) (plain string, within []replacement, ok bool) {
	file, err := parse(text, langBash)
	if err != nil || strings.IndexByte(text, placeholder) >= 0 {
		return "", nil, false
	}
	f := &replacementFinder{text: text}
	syntax.Walk(file, f.visit)
	if f.failed || len(f.found) == 0 || len(f.found) > maxReplacements {
		return "", nil, false
	}
	slices.SortFunc(f.found, func(a, b replacement) int { return a.from - b.from })
	var b strings.Builder
	end := 0
	for _, in := range f.found {
		if in.from < end || len(in.text) != in.to-in.from {
			return "", nil, false
		}
		b.WriteString(text[end:in.from] + in.text)
		end = in.to
	}
	return b.String() + text[end:], f.found, true
}

type replacementFinder struct {
	text   string
	found  []replacement
	failed bool
}

// visit replaces each node that needs it, and does not look inside.
func (f *replacementFinder) visit(n syntax.Node) bool {
	switch n := n.(type) {
	case *syntax.ProcSubst:
		from, to := offsets(n)
		f.fill(from, to, f.text[from+2:to-1], from+2)
		return false
	case *syntax.ParamExp:
		return f.param(n)
	case *syntax.Stmt:
		f.redirects(n)
	case *syntax.Redirect:
		return n.Op != syntax.WordHdoc
	case *syntax.BinaryCmd:
		if at := int(n.OpPos.Offset()); n.Op == syntax.PipeAll {
			f.add(at, at+2, "| ")
		}
	case *syntax.Assign:
		if n.Array != nil && !n.Append && n.Index == nil {
			from, to := offsets(n.Array)
			f.fill(from, to, ": "+f.text[from+1:to-1], from-1)
			return false
		}
	case *syntax.CStyleLoop:
		from, to := int(n.Lparen.Offset()), int(n.Rparen.Offset())+2
		if to-from < 8 || !sameInAll(f.text[from+2:to-2]) {
			f.failed = true
			return false
		}
		f.add(from, to, "i in "+strings.Repeat("0", to-from-5))
		return false
	}
	return true
}

// redirects replaces `<<< word` by `< x`, and `&> f` by `;> f`: other shells
// run the command before it in the background, which is the same except for cd.
func (f *replacementFinder) redirects(stmt *syntax.Stmt) {
	for _, r := range stmt.Redirs {
		at := int(r.OpPos.Offset())
		switch r.Op {
		case syntax.WordHdoc:
			from, to := offsets(r.Word)
			f.add(at, at+3, "<  ")
			f.fill(from, to, ": "+f.text[from:to], from-2)
		case syntax.RdrAll, syntax.AppAll:
			f.failed = f.failed || changesDir(stmt)
			f.add(at, at+1, ";")
		}
	}
}

// param replaces what POSIX does not have by ${x-…}, if nothing is expanded in it.
func (f *replacementFinder) param(p *syntax.ParamExp) bool {
	from, to := offsets(p)
	posix := p.Repl == nil && p.Slice == nil && p.Index == nil && (p.Exp == nil || !changesCase(p.Exp.Op))
	if posix || p.Param == nil || p.Excl {
		return true
	}
	name := p.Param.Value
	pad := to - from - len("${-}") - len(name)
	if pad < 0 || !sameInAll(f.text[from+2:to-1]) {
		f.failed = true
		return false
	}
	f.add(from, to, "${"+name+"-"+strings.Repeat("x", pad)+"}")
	return false
}

func changesCase(op syntax.ParExpOperator) bool {
	switch op {
	case syntax.UpperFirst, syntax.UpperAll, syntax.LowerFirst, syntax.LowerAll:
		return true
	}
	return false
}

// sameInAll reports whether all shells find the end of such text at the same place,
// and expand nothing in it.
func sameInAll(text string) bool { return !strings.ContainsAny(text, "$`'\"\\(){}\n") }

func (f *replacementFinder) add(from, to int, text string) {
	f.found = append(f.found, replacement{from: from, to: to, text: text})
}

func (f *replacementFinder) fill(from, to int, within string, at int) {
	f.found = append(f.found, replacement{from: from, to: to, text: strings.Repeat("x", to-from), within: within, at: at})
}

func offsets(n syntax.Node) (from, to int) {
	return int(n.Pos().Offset()), int(n.End().Offset())
}

// parseReplaced parses the script with bash's syntax replaced, and judges
// the replaced parts. It returns nil where the script cannot be parsed so.
func (s *script) parseReplaced() *syntax.File {
	plain, within, ok := replaceBash(s.text)
	if !ok {
		return nil
	}
	file, err := parse(plain, s.lang)
	if err != nil {
		return nil
	}
	s.text = plain
	for _, in := range within {
		if in.within != "" {
			inner := &script{j: s.j, lang: s.lang, text: in.within, fixed: s.fixed, shift: s.shift + in.at, nested: s.nested + 1, elsewhere: s.elsewhere}
			inner.judgeText(unknownDirs)
		}
	}
	return file
}

// other is the dialect that the shell may use instead.
func (s *script) other() syntax.LangVariant {
	if s.lang == langBash {
		return syntax.LangPOSIX
	}
	return langBash
}

func (s *script) parsesAs(lang syntax.LangVariant) bool {
	_, err := parse(s.text, lang)
	return err == nil
}
