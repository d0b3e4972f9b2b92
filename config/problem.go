package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong with the configuration.
type Problem struct {
	Place   string // "sandbox.yaml", "BELLJAR_TIMEOUT" or "--timeout"
	Line    int    // in the file; 0 where there is none
	Key     string // "limits.memory"; empty where it is about the whole file
	Message string
	Hint    string // the next step
}

func (p *Problem) Error() string {
	s := position(p.Place, p.Line) + ": "
	if p.Key != "" {
		s += p.Key + ": "
	}
	s += p.Message
	if p.Hint != "" {
		s += " (" + p.Hint + ")"
	}
	return s
}

// Problems are all that is wrong, by line.
type Problems []*Problem

func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// tidy sorts by line, and tells once what profiles inherit.
func (ps Problems) tidy() Problems {
	slices.SortFunc(ps, func(a, b *Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Error(), b.Error()))
	})
	return slices.CompactFunc(ps, func(a, b *Problem) bool { return *a == *b })
}

// wrong is a Problem whose place is filled in by who knows it.
func wrong(hint, format string, args ...any) *Problem {
	return &Problem{Message: fmt.Sprintf(format, args...), Hint: hint}
}

func position(place string, line int) string {
	if line == 0 {
		return place
	}
	return fmt.Sprintf("%s:%d", place, line)
}
