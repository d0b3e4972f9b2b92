package policy

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// variables is what the script makes of its variables, wherever it does.
type variables struct {
	number   map[string]bool     // assigned, and only ever numbers
	tame     map[string]bool     // assigned, and only ever text without brackets
	away     map[string]bool     // assigned, and never the name of a connection, nor the start of one
	undashed map[string]bool     // assigned, and only ever what starts with no dash
	sure     map[string][][2]int // where it surely is, from and to
	any      bool                // something may assign to any of them
	ranges   bool                // the shell makes numbers of {1..9}, which it does in no assignment
}

// numberVariables are numbers unless the script makes them something else.
var numberVariables = map[string]bool{
	"#": true, "?": true, "$": true, "!": true, "RANDOM": true, "SECONDS": true, "LINENO": true, "EPOCHSECONDS": true, "BASHPID": true,
}

func (s *script) isNumber(name string) bool {
	v := s.variables()
	number, assigned := v.number[name]
	return !v.any && (number || !assigned && numberVariables[name]) || !isName(name) && numberVariables[name]
}

func (s *script) isTame(name string) bool {
	v := s.variables()
	return !v.any && v.tame[name]
}

// variables gathers them when they are first asked for. In a script within a
// script they may come from outside.
func (s *script) variables() *variables {
	if s.vars != nil {
		return s.vars
	}
	v := &variables{number: map[string]bool{}, tame: map[string]bool{}, away: map[string]bool{}, undashed: map[string]bool{}, sure: map[string][][2]int{}, any: s.nested > 0 || s.file == nil, ranges: s.lang == langBash}
	s.vars = v
	if !v.any {
		for _, stmt := range s.file.Stmts {
			v.surely(stmt, len(s.text))
		}
		syntax.Walk(s.file, func(n syntax.Node) bool { v.visit(n); return true })
	}
	return v
}

func (v *variables) visit(n syntax.Node) {
	switch n := n.(type) {
	case *syntax.Assign:
		if n.Name != nil && !n.Naked {
			plain := n.Index == nil && n.Array == nil && !n.Append
			v.set(n.Name.Value, plain && isNumeric(n.Value), plain && isTameText(n.Value), plain && isAway(n.Value), plain && isUndashed(n.Value, false))
		}
	case *syntax.ForClause:
		if loop, ok := n.Loop.(*syntax.WordIter); ok {
			some := len(loop.Items) > 0
			number, tame, away, undashed := some, some, some, some
			for _, item := range loop.Items {
				number, tame, away, undashed = number && (isNumeric(item) || v.ranges && isRange(item.Lit())), tame && isTameText(item), away && isAway(item), undashed && isUndashed(item, true)
			}
			v.set(loop.Name.Value, number, tame, away, undashed)
			v.sure[loop.Name.Value] = append(v.sure[loop.Name.Value], [2]int{int(n.DoPos.Offset()), int(n.DonePos.Offset())})
		}
	case *syntax.ParamExp:
		if n.Exp != nil && n.Param != nil && (n.Exp.Op == syntax.AssignUnset || n.Exp.Op == syntax.AssignUnsetOrNull) {
			v.set(n.Param.Value, isNumeric(n.Exp.Word), isTameText(n.Exp.Word), isAway(n.Exp.Word), false)
		}
	case *syntax.BinaryArithm:
		if name, ok := n.X.(*syntax.Word); ok && assigns(n.Op) {
			v.set(name.Lit(), true, true, true, false) // the sum is a number, or nothing
		}
	case *syntax.UnaryArithm:
		if name, ok := n.X.(*syntax.Word); ok && (n.Op == syntax.Inc || n.Op == syntax.Dec) {
			v.set(name.Lit(), true, true, true, false)
		}
	case *syntax.DeclClause:
		v.any = v.any || n.Variant.Value != "export" && n.Variant.Value != "readonly" && n.Variant.Value != "local" || hasOptions(n)
	case *syntax.CallExpr:
		v.call(n)
	}
}

// shellSets are variables that bash sets by itself: the last word of the command
// before, and what read reads where it names no variable.
var shellSets = []string{"_", "REPLY"}

func (v *variables) set(name string, number, tame, away, undashed bool) {
	if slices.Contains(shellSets, name) {
		number, tame, away, undashed = false, false, false, false
	}
	before, assigned := v.number[name]
	v.number[name] = number && (before || !assigned)
	before, assigned = v.tame[name]
	v.tame[name] = tame && (before || !assigned)
	before, assigned = v.away[name]
	v.away[name] = away && (before || !assigned)
	before, assigned = v.undashed[name]
	v.undashed[name] = undashed && (before || !assigned)
}

// call sees commands that assign. Of read the names are known, if they are
// plain; of others nothing is.
func (v *variables) call(n *syntax.CallExpr) {
	if len(n.Args) == 0 {
		return
	}
	switch name := n.Args[0].Lit(); name {
	case "read":
		for _, arg := range n.Args[1:] {
			if lit := arg.Lit(); isName(lit) {
				v.set(lit, false, false, false, false)
			} else if !strings.HasPrefix(lit, "-") {
				v.any = true
			}
		}
	case "export", "readonly", "local":
		for _, arg := range n.Args[1:] {
			lit := arg.Lit()
			name, value, _ := strings.Cut(lit, "=")
			if !isName(name) {
				v.any = true
			}
			v.set(name, isDigits(value), lit != "" && !strings.ContainsAny(value, "[`$\\~*?"), false, false)
		}
	case "", "eval", ".", "source", "mapfile", "readarray", "getopts", "declare", "typeset", "let", "command", "builtin", "trap", "wait":
		v.any = true
	case "printf":
		v.any = v.any || len(n.Args) > 1 && (strings.HasPrefix(n.Args[1].Lit(), "-") || !quotedOrPlain(n.Args[1]))
	default:
		v.any = v.any || strings.Contains(name, "\\")
	}
}

func quotedOrPlain(w *syntax.Word) bool {
	switch part := w.Parts[0].(type) {
	case *syntax.Lit:
		return true
	case *syntax.SglQuoted:
		return !strings.HasPrefix(part.Value, "-")
	case *syntax.DblQuoted:
		if len(part.Parts) == 0 {
			return true
		}
		lit, ok := part.Parts[0].(*syntax.Lit)
		return ok && !strings.HasPrefix(lit.Value, "-")
	}
	return false
}

func hasOptions(d *syntax.DeclClause) bool {
	for _, a := range d.Args {
		if a.Naked && a.Name == nil {
			return true
		}
	}
	return false
}

// isNumeric reports whether the word is a number whenever it is expanded.
func isNumeric(w *syntax.Word) bool {
	if w == nil || len(w.Parts) != 1 {
		return false
	}
	switch part := w.Parts[0].(type) {
	case *syntax.Lit:
		return isDigits(part.Value) || isDigits(strings.TrimPrefix(part.Value, "-"))
	case *syntax.SglQuoted:
		return isDigits(part.Value)
	case *syntax.DblQuoted:
		return len(part.Parts) == 1 && !part.Dollar && isNumeric(&syntax.Word{Parts: part.Parts})
	case *syntax.ArithmExp:
		return true
	case *syntax.ParamExp:
		return part.Length || part.Param != nil && part.Exp == nil && !isName(part.Param.Value) && numberVariables[part.Param.Value]
	case *syntax.CmdSubst:
		return numericOutput(part)
	}
	return false
}

// isRange knows {1..10}.
func isRange(text string) bool {
	from, to, ok := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(text, "{"), "}"), "..")
	return ok && isDigits(from) && isDigits(to)
}

func isTameText(w *syntax.Word) bool {
	if w == nil || isNumeric(w) {
		return true
	}
	for _, part := range w.Parts {
		switch part := part.(type) {
		case *syntax.Lit:
			if strings.ContainsAny(part.Value, "[`$\\~*?{") {
				return false
			}
		case *syntax.SglQuoted:
			if part.Dollar || strings.ContainsAny(part.Value, "[`$") {
				return false
			}
		case *syntax.DblQuoted:
			if !isTameText(&syntax.Word{Parts: part.Parts}) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// printsOnly reports whether none of the redirections adds to what is printed, as
// 2>&1 adds the program's complaints.
func printsOnly(redirs []*syntax.Redirect) bool {
	return !slices.ContainsFunc(redirs, func(r *syntax.Redirect) bool {
		return r.Op != syntax.RdrIn && r.Op != syntax.Hdoc && r.Op != syntax.DashHdoc && r.Op != syntax.WordHdoc && (r.N == nil || r.N.Value != "2" || r.Word.Lit() != "/dev/null")
	})
}

// numericOutput knows the few substitutions that print a number whatever the
// world is like.
func numericOutput(c *syntax.CmdSubst) bool {
	if len(c.Stmts) != 1 {
		return false
	}
	stmt := c.Stmts[0]
	for {
		pipe, ok := stmt.Cmd.(*syntax.BinaryCmd)
		if !ok || pipe.Op != syntax.Pipe {
			break
		}
		stmt = pipe.Y
	}
	call, ok := stmt.Cmd.(*syntax.CallExpr)
	if !ok || stmt.Background || len(call.Assigns) > 0 || len(call.Args) == 0 || !printsOnly(stmt.Redirs) {
		return false
	}
	var words []string
	for _, arg := range call.Args {
		words = append(words, arg.Lit())
	}
	switch strings.Join(words, " ") {
	case "wc -l", "wc -c", "wc -w", "date +%s", "date +%s%N", "nproc":
		return true
	}
	return false
}
