package question

import (
	"fmt"
	"strings"

	"belljar/sandbox"
)

// page builds a text for a person.
type page struct {
	strings.Builder
	columns int
	colour  func(string) string
}

func (p *page) script(text string, spans []sandbox.ScriptSpan) {
	p.rows(Rows(text, spans, p.columns-marginScript), maxScriptRows, func(r Row) string {
		if r.begins {
			return fmt.Sprintf("%*d | ", marginScript-3, r.line)
		}
		return marginContinue
	})
}

// field adds a label and its text; nothing is left out.
func (p *page) field(name, text string) {
	first := name
	p.rows(Rows(text, nil, p.columns-marginField), maxFieldRows, func(Row) string {
		margin := fmt.Sprintf("  %-*s", marginField-2, first)
		first = ""
		return margin
	})
}

func (p *page) fields(name string, list []string) {
	for i, text := range list {
		if i == maxListed {
			p.field("", fmt.Sprintf("and %d more", len(list)-i))
			return
		}
		p.field(name, text)
		name = ""
	}
}

// rows adds rows, and says how many it leaves out if there are too many: never
// marked rows, nor those near to one.
func (p *page) rows(list []Row, most int, margin func(Row) string) {
	keep := kept(list, most)
	for i := 0; i < len(list); {
		r := list[i]
		if keep[i] {
			fmt.Fprintf(p, "%s%s\n", margin(r), r.Text)
			if r.Carets != "" {
				fmt.Fprintf(p, "%s%s\n", marginCarets, p.colour(r.Carets))
			}
			i++
			continue
		}
		end := i
		for end < len(list) && !keep[end] {
			end++
		}
		fmt.Fprintf(p, "  %s\n", p.colour(gap(list[i:end])))
		i = end
	}
}

// kept reports which rows are shown.
func kept(list []Row, most int) []bool {
	keep := make([]bool, len(list))
	for i, r := range list {
		if len(list) <= most || i < most/4 || i >= len(list)-most/4 {
			keep[i] = true
		}
		if r.marked {
			for j := max(i-nearRows, 0); j < min(i+nearRows+1, len(list)); j++ {
				keep[j] = true
			}
		}
	}
	// Blank rows could push the others off the screen.
	blank := 0
	for i, r := range list {
		if !r.blank() {
			blank = 0
		} else if blank++; blank > nearRows {
			keep[i] = false
		}
	}
	return keep
}

// gap describes the rows left out.
func gap(list []Row) string {
	lines, bytes, what := 0, 0, "blank "
	for _, r := range list {
		if r.begins {
			lines++
		}
		bytes += r.bytes
		if !r.blank() {
			what = ""
		}
	}
	if lines == 0 {
		return fmt.Sprintf("[… %s not shown …]", counted(bytes, "byte"))
	}
	return fmt.Sprintf("[… %s, %s not shown …]", counted(lines, what+"line"), counted(bytes, "byte"))
}

func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
