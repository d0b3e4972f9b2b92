package policy

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// connections are prefixes of file names that programs open as
// connections: bash in redirections, and gawk for all its files.
var connections = []string{"/dev/tcp/", "/dev/udp/", "/inet"}

// mayConnect reports whether a name that begins with the text may be one of them.
func mayConnect(start string) bool {
	return slices.ContainsFunc(connections, func(name string) bool {
		return strings.HasPrefix(start, name) || strings.HasPrefix(name, start)
	})
}

// connects reports whether one of the word's fields may be the name of a connection.
func (w word) connects() bool {
	switch {
	case w.static:
		return slices.ContainsFunc(connections, func(name string) bool { return strings.HasPrefix(w.text, name) })
	case w.splits:
		return true
	}
	return !w.notConn && !w.number && !w.path && mayConnect(w.text)
}

// isNotConn reports whether the word, if it is one field, is certainly no connection.
func (s *script) isNotConn(w *syntax.Word) bool {
	return w != nil && partsNotConn(w.Parts, func(name string) bool {
		v := s.variables()
		return !v.any && v.notConn[name]
	})
}

// valueNotConn reports whether a variable of that value is no connection, nor a prefix of one.
func valueNotConn(w *syntax.Word) bool {
	return w == nil || partsNotConn(w.Parts, func(string) bool { return false })
}

// partsNotConn looks at the parts of a word up to the first that decides. Of some
// variables only possible values are known, and any may be empty.
func partsNotConn(parts []syntax.WordPart, notConn func(name string) bool) bool {
	known := ""
	for _, part := range unquoted(parts) {
		switch part := part.(type) {
		case *syntax.Lit:
			i := strings.IndexAny(part.Value, "*?[~\\{")
			if i == 0 && known == "" && strings.IndexByte("*?[~", part.Value[0]) >= 0 {
				return true // names of this directory, or a home
			}
			if i < 0 {
				i = len(part.Value)
			}
			if known += part.Value[:i]; i < len(part.Value) {
				return !mayConnect(known)
			}
		case *syntax.SglQuoted:
			known += part.Value
			if part.Dollar {
				return false
			}
		case *syntax.ProcSubst:
			return known == ""
		case *syntax.ParamExp:
			if known != "" || part.Param == nil || !isPlain(part) || !notConn(part.Param.Value) {
				return false
			}
		default:
			return false
		}
		if !mayConnect(known) {
			return true
		}
	}
	return known == ""
}

// isPlain matches $x and ${x}.
func isPlain(p *syntax.ParamExp) bool {
	return p.Slice == nil && p.Repl == nil && p.Exp == nil && p.Index == nil && !p.Excl && !p.Length
}

// unquoted are the parts without double quotes around them.
func unquoted(parts []syntax.WordPart) (flat []syntax.WordPart) {
	for _, part := range parts {
		if quoted, ok := part.(*syntax.DblQuoted); ok && !quoted.Dollar {
			flat = append(flat, unquoted(quoted.Parts)...)
		} else {
			flat = append(flat, part)
		}
	}
	return flat
}
