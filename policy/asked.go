package policy

import (
	"fmt"
	"slices"
)

// maxAsked is how many parts of a command are asked about one by one.
const maxAsked = 8

// addAsked adds the other parts that need the approval: what a person is not shown, no
// one approves.
func (c *call) addAsked(verdict CommandVerdict, asked []CommandVerdict) {
	if len(asked) > maxAsked {
		asked = []CommandVerdict{{Rule: verdict.Rule, Reason: fmt.Sprintf("%d parts of it need an approval", len(asked)), Span: c.span()}}
	}
	for _, v := range asked {
		if v.Decision, v.Program = Ask, c.words[0].text; v != verdict {
			c.s.j.add(v)
		}
	}
}

// showInput adds the here-documents that a command which needs an approval may read: for
// a shell they are its script, so a person must see them.
func (s *script) showInput(judge func()) {
	commands, docs := len(s.j.commands), len(s.j.hereDocs)
	judge()
	i := slices.IndexFunc(s.j.commands[commands:], func(c CommandVerdict) bool { return c.Decision == Ask })
	if i < 0 {
		return
	}
	asked := s.j.commands[commands+i]
	asked.Reason = "it may read this"
	for _, asked.Span = range s.j.hereDocs[docs:] {
		if !slices.Contains(s.j.commands[commands:], asked) {
			s.j.add(asked)
		}
	}
}
