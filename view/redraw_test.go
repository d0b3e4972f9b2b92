package view

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"belljar/sandbox"
)

// terminalLine is what a wide enough terminal shows of a line, computed in a simple way.
func terminalLine(pieces []string) string {
	var cells []rune
	column := 0
	for _, p := range pieces {
		switch p {
		case "\r":
			column = 0
		case "\b":
			column = max(0, column-1)
		case "\x1b[K":
			cells = cells[:min(len(cells), column)]
		case "\x1b[2K":
			cells = cells[:0]
		case "\x1b[3G":
			column = 2
		case "\x1b[2C":
			column += 2
		case "\x1b[31m":
		default:
			for _, r := range p {
				for len(cells) <= column {
					cells = append(cells, ' ')
				}
				cells[column] = r
				column++
			}
		}
	}
	return strings.TrimRight(string(cells), " ")
}

func TestViewRedraws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "bcd", "é", "10%", " ", "\r", "\b", "\x1b[K", "\x1b[2K", "\x1b[3G", "\x1b[2C", "\x1b[31m"}), 0, 40).Draw(t, "pieces")
		in := strings.Join(pieces, "")
		want := terminalLine(pieces)
		v := sandbox.View{Charset: "utf-8"}
		got := viewOf(v, in+"\nnext\n", drawSizes(t)...)
		if line, next, _ := strings.Cut(got.Text, "\n"); strings.TrimRight(line, " ") != want || next != "next\n" || got.OmittedBytes != 0 {
			t.Fatalf("%q shows as %+v, not as %q", in, got, want)
		}
		// With a bound on its characters, a line shows the same beginning and end.
		v.LineChars = rapid.Int64Range(1, 12).Draw(t, "chars")
		got = viewOf(v, in+"\n", drawSizes(t)...)
		before, after, cut := strings.Cut(strings.TrimSuffix(got.Text, "\n"), "[…")
		_, after, _ = strings.Cut(after, "…]")
		after = strings.TrimRight(after, " ")
		if !strings.HasPrefix(want, strings.TrimRight(before, " ")) || cut && after != "" && !strings.HasSuffix(want, after) {
			t.Fatalf("%q shows as %q, not as the ends of %q", in, got.Text, want)
		}
	})
}
