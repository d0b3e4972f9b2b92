package policy

import (
	"path"
	"slices"
	"strings"
)

// likely is whether a rule matches a command, as far as its words are known.
type likely uint8

const (
	no likely = iota
	maybe
	yes
)

// match reports whether the rule applies to the call.
func (m *ruleMatch) match(c *call) likely {
	best, length := no, 0
	for _, pattern := range m.candidates(c.subject[0]) {
		if l := m.matchWords(pattern, c); l > best {
			best, length = l, len(pattern)
		}
	}
	if best == no || len(m.Args) == 0 {
		return best
	}
	return min(best, m.matchArgs(c.subject[min(length, len(c.subject)):]))
}

// candidates are the patterns whose first word may be the program.
func (m *ruleMatch) candidates(program word) [][]string {
	if !program.static || strings.Contains(program.text, "/") {
		return m.patterns
	}
	if patterns, ok := m.byName[program.text]; ok {
		return patterns
	}
	return m.anyName
}

// longest is the length of the longest pattern that certainly matches.
func (m *ruleMatch) longest(c *call) (length int) {
	for _, pattern := range m.candidates(c.subject[0]) {
		if m.matchWords(pattern, c) == yes {
			length = max(length, len(pattern))
		}
	}
	return length
}

func (m *ruleMatch) matchWords(pattern []string, c *call) likely {
	words := c.subject
	result := yes
	for i, want := range pattern {
		if i >= len(words) {
			return no
		}
		w := words[i]
		switch {
		case i == 0 && m.Decision > Deny && w.static && isRelativePath(w.text) && !c.in.is(c.s.j.start.dirs[0]): // another directory's ./gradlew
			return no
		case w.static && (want == "*" && i > 0 || want == w.text):
		case w.static && i == 0 && m.Decision < Allow && path.Base(w.text) == want: // /bin/rm may be the rm that is denied
		case w.static && i == 0 && systemProgram(w.text) == want && slices.Contains(m.Allow, Reads):
		case w.static && i == 0 && want == "*" && !strings.Contains(w.text, "/"):
		case w.static && i == 0 && m.byBase && path.Base(w.text) == want:
			result = maybe
		case w.static:
			return no
		case want == "*" && !w.splits && !w.globs:
		case w.splits || w.globs: // any word may follow
			return maybe
		default:
			result = maybe
		}
	}
	return result
}

func isRelativePath(program string) bool {
	return strings.Contains(program, "/") && !path.IsAbs(program)
}

// matchArgs compares the words with the rule's globs: all must match one of
// them, or for a denial any.
func (m *ruleMatch) matchArgs(words []word) likely {
	all, anyOf := yes, no
	for _, w := range words {
		l := maybe
		if w.static {
			l = no
			if slices.ContainsFunc(m.Args, func(glob string) bool { return match(glob, w.text) }) {
				l = yes
			}
		}
		all, anyOf = min(all, l), max(anyOf, l)
	}
	if m.Decision == Deny {
		return anyOf
	}
	return all
}

// denies finds an option of the call that is, or may be, one that the rule denies.
func (m *ruleMatch) denies(c *call) string {
	for _, w := range c.words[1:] {
		for _, flag := range m.Deny {
			if w.static && isFlag(w.text, flag) {
				return flag
			}
			if !w.static && w.mayBeOption() && !m.AllowUnknown {
				return flag + ", and a word may be that"
			}
		}
	}
	return ""
}

// isFlag reports whether a word could be the option: itself, with a value, as an
// abbreviation, or in a cluster. If in doubt, it is.
func isFlag(text, flag string) bool {
	name, _, _ := strings.Cut(text, "=")
	switch {
	case len(text) < 2 || text[0] != '-':
		return false
	case name == flag:
		return true
	case strings.HasPrefix(flag, "--"):
		return len(name) > 2 && strings.HasPrefix(name, "--") && strings.HasPrefix(flag, name) ||
			name[1] != '-' && len(name) > 2 && strings.HasPrefix(flag[1:], name) // -exec for --exec
	case len(flag) == 2:
		return text[1] != '-' && strings.Contains(text, flag[1:])
	}
	return strings.HasPrefix(text, flag) || strings.HasPrefix(text, "-"+flag)
}
