package policy

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// A word is no option if what it starts with is known to be no dash. Of a
// variable that is known where the script itself set it.

// isUndashed reports whether the variable, where it is read at that offset, was
// surely set by the script before, and only ever to what starts with no dash.
func (s *script) isUndashed(name string, at int) bool {
	v := s.variables()
	return !v.any && v.undashed[name] && slices.ContainsFunc(v.sure[name], func(r [2]int) bool { return r[0] <= at && at < r[1] })
}

// surely notes what a statement of the script's own list assigns: one in && or
// if may not be run, and then the variable is as the environment has it.
func (v *variables) surely(stmt *syntax.Stmt, end int) {
	call, ok := stmt.Cmd.(*syntax.CallExpr)
	if !ok || len(call.Args) > 0 || len(stmt.Redirs) > 0 || stmt.Background {
		return
	}
	for _, a := range call.Assigns {
		if a.Name != nil {
			v.sure[a.Name.Value] = append(v.sure[a.Name.Value], [2]int{int(stmt.End().Offset()), end})
		}
	}
}

// isUndashed reports whether the word is empty or starts with what is no dash,
// whenever it is expanded, as one field or, in a list, as several.
func isUndashed(w *syntax.Word, fields bool) bool {
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
		return !part.Dollar && len(part.Parts) > 0 && (len(w.Parts) == 1 || isLit(part.Parts[0])) && isUndashed(&syntax.Word{Parts: part.Parts}, false)
	case *syntax.ParamExp:
		return len(w.Parts) == 1 && part.Short && (part.Param.Value == "PWD" || part.Param.Value == "HOME")
	case *syntax.CmdSubst:
		return len(w.Parts) == 1 && undashedOutput(part)
	}
	return false
}

func isLit(part syntax.WordPart) bool {
	_, ok := part.(*syntax.Lit)
	return ok
}

// isQuoted reports whether no part of the word can make several fields of it, but
// for a pattern, all of whose fields start as it does.
func isQuoted(parts []syntax.WordPart) bool {
	return !slices.ContainsFunc(parts, func(part syntax.WordPart) bool {
		switch part.(type) {
		case *syntax.Lit, *syntax.SglQuoted, *syntax.DblQuoted:
			return false
		}
		return true
	})
}

// undashedOutput knows the few substitutions that print a hash, an absolute path
// or nothing, whatever the world is like.
func undashedOutput(c *syntax.CmdSubst) bool {
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
