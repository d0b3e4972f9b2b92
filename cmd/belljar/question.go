package main

import (
	"fmt"
	"slices"
	"strings"

	"belljar/policy"
	"belljar/sandbox"
)

const (
	marginScript = 10 // columns before a script's text
	marginField  = 13

	maxScriptRows = 40 // that are shown of a script whatever is in them,
	maxFieldRows  = 12 // and of what is said about it
	nearRows      = 3  // shown before and after what is asked about
	maxListed     = 8  // reasons, and parts that are unknown
)

// question is what a person is shown who is asked to approve a command. What
// comes from outside never begins a line, so that it cannot pass for ours, and
// what is asked about is shown, however long it is.
func question(q sandbox.Question, columns int, colour func(string) string) string {
	p := page{columns: max(columns-1, 40), colour: colour}
	p.WriteString("belljar: the command policy wants your approval of this:\n\n")
	spans := []policy.Span{q.Verdict.Span}
	reasons := []string{reason(q.Verdict.Who(), q.Verdict.Span, q.Verdict.Reason)}
	for _, c := range q.Verdict.Asks() {
		spans = append(spans, c.Span)
		if c.Span != q.Verdict.Span {
			reasons = append(reasons, reason(sandbox.Verdict{Rule: c.Rule}.Who(), c.Span, c.Reason))
		}
	}
	p.script(q.Script, spans)
	p.WriteByte('\n')
	p.fields("because", reasons)
	p.field("runs", strings.Join(q.Verdict.Roots, ", "))
	var unknown []string
	for _, u := range q.Verdict.Unknown {
		unknown = append(unknown, fmt.Sprintf("at %v: %s", u.Span, u.What))
	}
	p.fields("unknown", unknown)
	p.fields("grant", granted(q.Verdict))
	p.field("in", q.Dir)
	p.field("meant for", q.Description)
	if q.Profile != sandbox.DefaultProfile {
		p.field("profile", q.Profile)
	}
	p.field("session", q.Session)
	if q.Always {
		p.field("always is", strings.Join(covered(q.Verdict), ", ")+", until the session ends")
	}
	p.WriteByte('\n')
	return p.String()
}

func reason(who string, at policy.Span, why string) string {
	if at.Line > 0 {
		who += fmt.Sprintf(" at %v", at)
	}
	return who + ": " + why
}

// covered is what an approval for as long as the session lives is about.
func covered(v sandbox.Verdict) (list []string) {
	for _, c := range v.Asks() {
		what := c.Program + " by " + sandbox.Verdict{Rule: c.Rule}.Who()
		if !slices.Contains(list, what) {
			list = append(list, what)
		}
	}
	return list
}

// page puts together what a person is shown.
type page struct {
	strings.Builder
	columns int
	colour  func(string) string
}

func (p *page) script(text string, spans []policy.Span) {
	p.rows(rows(text, spans, p.columns-marginScript), maxScriptRows, func(r row) string {
		if r.begins {
			return fmt.Sprintf("%*d | ", marginScript-3, r.line)
		}
		return strings.Repeat(" ", marginScript-2) + "| "
	})
}

// field is a word of ours and what there is of it; nothing is left out.
func (p *page) field(name, text string) {
	first := name
	p.rows(rows(text, nil, p.columns-marginField), maxFieldRows, func(row) string {
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

// rows writes rows, and says what it leaves out where there are many: not what
// is marked, nor what is near to that.
func (p *page) rows(list []row, most int, margin func(row) string) {
	keep := kept(list, most)
	for i := 0; i < len(list); {
		r := list[i]
		if keep[i] {
			fmt.Fprintf(p, "%s%s\n", margin(r), r.text)
			if r.carets != "" {
				fmt.Fprintf(p, "%s%s\n", strings.Repeat(" ", marginScript-2)+"| ", p.colour(r.carets))
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

// kept tells which rows are shown.
func kept(list []row, most int) []bool {
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
	// Blank rows push what there is off the screen.
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

// gap says what is left out.
func gap(list []row) string {
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
