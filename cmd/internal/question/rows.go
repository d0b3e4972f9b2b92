package question

import (
	"strings"
	"unicode/utf8"

	"belljar/sandbox"
	"belljar/view"
)

// Row is a line on a terminal, part of a text that was made safe to display.
type Row struct {
	line   int  // of the text, from 1
	begins bool // the row begins that line, instead of continuing it
	Text   string
	Carets string // under the marked part, as wide as the row's text
	marked bool   // some of it is marked
	bytes  int    // of the text, its line end included
}

// blank reports whether there is nothing to see.
func (r Row) blank() bool { return strings.Trim(r.Text, " \u00a0\u3000\u2800") == "" }

// Rows are the lines of a text with carets under the spans, folded where the
// terminal would fold them: its own continuation lines could look like
// belljar's. 0 columns means no folding. Each character is made safe by itself, so
// that none combines with the text before a span.
func Rows(text string, spans []sandbox.ScriptSpan, columns int) (list []Row) {
	depth, change := 0, make([]int, len(text)+1)
	for _, s := range spans {
		start := min(max(s.Start, 0), len(text))
		change[start]++
		change[min(max(s.End, start), len(text))]--
	}
	at, number := 0, 0
	for line := range strings.Lines(text) {
		number++
		r := rowWriter{Row: Row{line: number, begins: true}}
		for size, left := 0, strings.TrimSuffix(line, "\n"); left != ""; left = left[size:] {
			_, size = utf8.DecodeRuneInString(left)
			for range size {
				depth += change[at]
				at++
			}
			shown := view.SafeLine(left[:size])
			for bytes := size; shown != ""; bytes = 0 {
				part := shown
				if columns > 0 && len(shown) == most(shown) { // an escape may be longer than a row
					part = shown[:min(len(shown), columns)]
				}
				shown = shown[len(part):]
				if !r.fits(part, columns) {
					list = append(list, r.end())
					r = rowWriter{Row: Row{line: number}}
				}
				r.add(part, bytes, depth > 0)
			}
		}
		if strings.HasSuffix(line, "\n") {
			depth += change[at]
			at++
			r.bytes++
		}
		list = append(list, r.end())
	}
	return list
}

// rowWriter builds a row.
type rowWriter struct {
	Row
	used         int // columns, at most
	shown, below strings.Builder
}

// most is the maximum number of columns a character may take. Terminals differ for
// everything but ASCII.
func most(shown string) int {
	if len(shown) == utf8.RuneCountInString(shown) {
		return len(shown)
	}
	return 2
}

func (r *rowWriter) fits(shown string, columns int) bool {
	return columns == 0 || r.used == 0 || r.used+most(shown) <= columns
}

func (r *rowWriter) add(shown string, bytes int, marked bool) {
	r.shown.WriteString(shown)
	r.used += most(shown)
	r.bytes += bytes
	mark := " "
	if marked {
		mark, r.marked = "^", true
	}
	r.below.WriteString(strings.Repeat(mark, view.Width(shown)))
}

func (r *rowWriter) end() Row {
	r.Text, r.Carets = r.shown.String(), strings.TrimRight(r.below.String(), " ")
	return r.Row
}
