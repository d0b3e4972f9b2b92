package policy

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// A word is no option if its first character is known not to be a dash. For a
// variable that is known where the script itself set it.

// startsWithoutDash reports whether the script certainly set the variable before that
// offset, and only ever to values that do not start with a dash.
func (s *script) startsWithoutDash(name string, at int) bool {
	v := s.variables()
	return !v.any && v.noDash[name] && slices.ContainsFunc(v.assignedIn[name], func(r [2]int) bool { return r[0] <= at && at < r[1] })
}

// noteAssigned records what a statement of the script's own list assigns: in && or
// if it may not run, and then the variable has the environment's value.
func (v *variables) noteAssigned(stmt *syntax.Stmt, end int) {
	call, ok := stmt.Cmd.(*syntax.CallExpr)
	if !ok || len(call.Args) > 0 || len(stmt.Redirs) > 0 || stmt.Background {
		return
	}
	for _, a := range call.Assigns {
		if a.Name != nil {
			v.assignedIn[a.Name.Value] = append(v.assignedIn[a.Name.Value], [2]int{int(stmt.End().Offset()), end})
		}
	}
}

// startsWithoutDash reports whether the word is always empty or starts with another
// character than a dash, as one field or, in a list, as several.
func startsWithoutDash(w *syntax.Word, fields bool) bool {
	if w == nil || len(w.Parts) == 0 {
		return true
	}
	if fields && !isQuoted(w.Parts) {
		return false
	}
	switch part := w.Parts[0].(type) {
	case *syntax.Lit:
		return part.Value != "" && !strings.ContainsAny(part.Value[:1], "-~\\*?[{")
	case *syntax.SglQuoted:
		return !part.Dollar && part.Value != "" && part.Value[0] != '-'
	case *syntax.DblQuoted:
		return !part.Dollar && len(part.Parts) > 0 && (len(w.Parts) == 1 || isLit(part.Parts[0])) && startsWithoutDash(&syntax.Word{Parts: part.Parts}, false)
	case *syntax.ParamExp:
		return len(w.Parts) == 1 && part.Short && (part.Param.Value == "PWD" || part.Param.Value == "HOME")
	case *syntax.CmdSubst:
		return len(w.Parts) == 1 && outputWithoutDash(part)
	}
	return false
}

func isLit(part syntax.WordPart) bool {
	_, ok := part.(*syntax.Lit)
	return ok
}

// isQuoted reports whether no part of the word can expand to several fields, except
// a pattern, whose fields all start as it does.
func isQuoted(parts []syntax.WordPart) bool {
	return !slices.ContainsFunc(parts, func(part syntax.WordPart) bool {
		switch part.(type) {
		case *syntax.Lit, *syntax.SglQuoted, *syntax.DblQuoted:
			return false
		}
		return true
	})
}

// outputWithoutDash lists the few substitutions that always print a hash, an absolute
// path or nothing.
func outputWithoutDash(c *syntax.CmdSubst) bool {
	if len(c.Stmts) != 1 {
		return false
	}
	stmt := c.Stmts[0]
	call, ok := stmt.Cmd.(*syntax.CallExpr)
	if !ok || stmt.Background || len(call.Assigns) > 0 || len(call.Args) == 0 {
		return false
	}
	if slices.ContainsFunc(stmt.Redirs, func(r *syntax.Redirect) bool { return r.N == nil || r.N.Value != "2" || r.Word.Lit() != "/dev/null" }) {
		return false
	}
	var words []string
	for _, arg := range call.Args {
		words = append(words, arg.Lit())
	}
	switch strings.Join(words, " ") {
	case "pwd", "git rev-parse HEAD", "git rev-parse --verify HEAD", "git rev-parse --short HEAD", "git rev-parse --show-toplevel":
		return true
	}
	return numericOutput(c)
}
