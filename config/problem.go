package config

import (
	"belljar/internal/lazyregexp"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Problem is one thing that is wrong with the configuration.
type Problem struct {
	Place   string // "sandbox.yaml", "BELLJAR_TIMEOUT" or "--timeout"
	Line    int    // in the file; 0 if there is none
	Key     string // "limits.memory"; empty for the whole file
	Message string
	Hint    string // the next step

	discreet string // the message without the value; used unless that was on the command line
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

func (ps Problems) Error() string { return strings.Join(ps.Lines(), "\n") }

// maxLines is how many problems are shown: a file that has more is not a sandbox.yaml.
const maxLines = 50

// Lines are the problems as messages, one line for each of the first.
func (ps Problems) Lines() (lines []string) {
	for _, p := range ps[:min(len(ps), maxLines)] {
		lines = append(lines, p.Error())
	}
	if more := len(ps) - maxLines; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more problems: fix these first", more))
	}
	return lines
}

// tidy sorts by line, and reports once what profiles inherit.
func (ps Problems) tidy() Problems {
	slices.SortFunc(ps, func(a, b *Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Error(), b.Error()))
	})
	return slices.CompactFunc(ps, func(a, b *Problem) bool { return *a == *b })
}

// said is a value as it was written. The person who runs belljar sees the command line
// in any case. But a file or a variable may have a secret in the wrong place, and
// messages end in logs: its value is shown only if it can be nothing but a number.
type said string

var harmless = lazyregexp.New(`^-?[0-9.]{1,12}[A-Za-z]{0,3}$`)

// wrong is a Problem whose place the caller fills in.
func wrong(hint, format string, args ...any) *Problem {
	loud, discreet := slices.Clone(args), slices.Clone(args)
	for i, arg := range args {
		if text, ok := arg.(said); ok {
			loud[i], discreet[i] = strconv.Quote(string(text)), "the value"
			if harmless.MatchString(string(text)) {
				discreet[i] = loud[i]
			}
		}
	}
	return &Problem{Message: fmt.Sprintf(format, loud...), Hint: hint, discreet: fmt.Sprintf(format, discreet...)}
}

func position(place string, line int) string {
	if line == 0 {
		return place
	}
	return fmt.Sprintf("%s:%d", place, line)
}
