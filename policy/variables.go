package policy

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// variables is what the script assigns to its variables, anywhere in it.
type variables struct {
	number     map[string]bool     // assigned, and always numbers
	noBracket  map[string]bool     // assigned, and always text without brackets
	notConn    map[string]bool     // assigned, and never the name of a connection, nor the start of one
	noDash     map[string]bool     // assigned, and never starting with a dash
	assignedIn map[string][][2]int // the offsets from and to between which it is certainly set
	any        bool                // something may assign to any of them
	ranges     bool                // the shell expands {1..9} to numbers, but not in assignments
}

// numberParameters are numbers in every shell.
var numberParameters = map[string]bool{"#": true, "?": true, "$": true, "!": true}

// numberVariables are numbers in bash since 4.0, unless the script assigns something else. In other
// shells they are what the caller's environment says.
var numberVariables = map[string]bool{"RANDOM": true, "SECONDS": true, "LINENO": true, "BASHPID": true}

func (s *script) isNumber(name string) bool {
	v := s.variables()
	number, assigned := v.number[name]
	return numberParameters[name] || !v.any && (number || !assigned && s.lang == langBash && numberVariables[name])
}

func (s *script) hasNoBracket(name string) bool {
	v := s.variables()
	return !v.any && v.noBracket[name]
}

// variables collects them at the first call. In a script within a
// script they may come from outside.
func (s *script) variables() *variables {
	if s.vars != nil {
		return s.vars
	}
	v := &variables{number: map[string]bool{}, noBracket: map[string]bool{}, notConn: map[string]bool{}, noDash: map[string]bool{}, assignedIn: map[string][][2]int{}, any: s.nested > 0 || s.file == nil, ranges: s.lang == langBash}
	s.vars = v
	if !v.any {
		for _, stmt := range s.file.Stmts {
			v.noteAssigned(stmt, len(s.text))
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
			v.set(n.Name.Value, plain && isNumeric(n.Value), plain && isBracketFree(n.Value), plain && valueNotConn(n.Value), plain && startsWithoutDash(n.Value, false))
		}
	case *syntax.ForClause:
		if loop, ok := n.Loop.(*syntax.WordIter); ok {
			some := len(loop.Items) > 0
			number, noBracket, notConn, noDash := some, some, some, some
			for _, item := range loop.Items {
				number, noBracket, notConn, noDash = number && (isNumeric(item) || v.ranges && isRange(item.Lit())), noBracket && isBracketFree(item), notConn && valueNotConn(item), noDash && startsWithoutDash(item, true)
			}
			v.set(loop.Name.Value, number, noBracket, notConn, noDash)
			v.assignedIn[loop.Name.Value] = append(v.assignedIn[loop.Name.Value], [2]int{int(n.DoPos.Offset()), int(n.DonePos.Offset())})
		}
	case *syntax.ParamExp:
		if n.Exp != nil && n.Param != nil && (n.Exp.Op == syntax.AssignUnset || n.Exp.Op == syntax.AssignUnsetOrNull) {
			v.set(n.Param.Value, isNumeric(n.Exp.Word), isBracketFree(n.Exp.Word), valueNotConn(n.Exp.Word), false)
		}
	case *syntax.BinaryArithm:
		if name, ok := n.X.(*syntax.Word); ok && assigns(n.Op) {
			v.set(name.Lit(), true, true, true, false) // the result is a number, or empty
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

// shellSets are variables that bash itself sets: the last word of the previous
// command, and the variable of a read without a name.
var shellSets = []string{"_", "REPLY"}

func (v *variables) set(name string, number, noBracket, notConn, noDash bool) {
	if slices.Contains(shellSets, name) {
		number, noBracket, notConn, noDash = false, false, false, false
	}
	before, assigned := v.number[name]
	v.number[name] = number && (before || !assigned)
	before, assigned = v.noBracket[name]
	v.noBracket[name] = noBracket && (before || !assigned)
	before, assigned = v.notConn[name]
	v.notConn[name] = notConn && (before || !assigned)
	before, assigned = v.noDash[name]
	v.noDash[name] = noDash && (before || !assigned)
}

// call handles commands that assign. The names of read are known, if they are
// plain; those of other commands are not.
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

// isNumeric reports whether the word always expands to a number.
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
		return part.Length || part.Param != nil && isPlain(part) && numberParameters[part.Param.Value]
	case *syntax.CmdSubst:
		return numericOutput(part)
	}
	return false
}

// isRange matches {1..10}.
func isRange(text string) bool {
	from, to, ok := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(text, "{"), "}"), "..")
	return ok && isDigits(from) && isDigits(to)
}

func isBracketFree(w *syntax.Word) bool {
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
			if !isBracketFree(&syntax.Word{Parts: part.Parts}) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// printsOnly reports whether none of the redirections adds to the output, as
// 2>&1 adds error messages.
func printsOnly(redirs []*syntax.Redirect) bool {
	return !slices.ContainsFunc(redirs, func(r *syntax.Redirect) bool {
		return r.Op != syntax.RdrIn && r.Op != syntax.Hdoc && r.Op != syntax.DashHdoc && r.Op != syntax.WordHdoc && (r.N == nil || r.N.Value != "2" || r.Word.Lit() != "/dev/null")
	})
}

// numericOutput lists the few substitutions that always print a
// number.
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
