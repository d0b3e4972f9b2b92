package view

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/hinshun/vt10x"
	"pgregory.net/rapid"
)

// common are sequences that vt10x executes as xterm does. A %p is a cursor
// position; without it, vt10x would wrap after sequences that end a wrap in xterm. A %d
// is any number within the screen, %r a scroll region.
var common = []string{
	"text", "0123456789", "x", " ", "\r\n", "\n", "\r", "\b",
	"%p", "%p\t", "%p\x1bH", "%p\x1b[g", "\x1b[3g",
	"\x1b[r\x1b[%dA", "\x1b[r\x1b[%dB", "\x1b[%dC", "\x1b[%dD", "\x1b[%dG", "\x1b[%dd",
	"%p\x1b[K", "%p\x1b[1K", "%p\x1b[2K", "%p\x1b[J", "%p\x1b[2J",
	"%p\x1b[%d@", "%p\x1b[%dP", "%p\x1b[%dX", "%p\r\x1b[%dL", "%p\r\x1b[%dM",
	"%p\x1b[%dS", "%p\x1b[%dT", "%p\x1bD", "%p\x1bE", "%p\x1bM", "%r",
	"\x1b[m", "\x1b[3m", "\x1b[4m", "\x1b[31m", "\x1b[44m", "\x1b[95m", "\x1b[38;5;200m", "\x1b[48;2;1;2;3m", "\x1b[39;49m",
	"%p\x1b7", "\x1b8", "\x1b[?7l", "\x1b[?7h", "\x1b[?6h", "\x1b[?6l",
}

// drawCommon draws a piece of common with its numbers.
func drawCommon(t *rapid.T, columns, rows int) string {
	number := func(most int) int { return rapid.IntRange(1, most).Draw(t, "n") }
	top := number(rows - 1)
	return strings.NewReplacer(
		"%p", fmt.Sprintf("\x1b[%d;%dH", number(rows), number(columns)),
		"%r", fmt.Sprintf("\x1b[%d;%dr", top, top+number(rows-top)),
		"%d", fmt.Sprint(number(min(columns, rows))),
	).Replace(rapid.SampledFrom(common).Draw(t, "piece"))
}

// oracleColor is vt10x's form of a color.
func oracleColor(c color) vt10x.Color {
	if c == 0 {
		return vt10x.DefaultFG
	}
	return vt10x.Color(c & colorValue)
}

// compareCell describes how a cell differs from the oracle's. A blank's style does not
// count: vt10x scrolls in rows without the background.
func compareCell(got glyph, want vt10x.Glyph) string {
	if got.r == blank {
		got.r = ' '
	}
	if got.r != want.Char {
		return fmt.Sprintf("%q instead of %q", got.r, want.Char)
	}
	if want.BG == vt10x.DefaultBG {
		want.BG = vt10x.DefaultFG
	}
	if got.r != ' ' && (oracleColor(got.style.fg) != want.FG || oracleColor(got.style.bg) != want.BG ||
		got.style.attributes&underline != 0 != (want.Mode&2 != 0)) {
		return fmt.Sprintf("%q is %+v instead of %+v", got.r, got.style, want)
	}
	return ""
}

// vt10x is an oracle for the sequences that it implements correctly.
func TestScreenIsLikeVT10x(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		columns, rows := rapid.IntRange(2, 20).Draw(t, "columns"), rapid.IntRange(2, 8).Draw(t, "rows")
		oracle := vt10x.New(vt10x.WithSize(columns, rows), vt10x.WithWriter(io.Discard))
		s := newTestScreen(columns, rows)
		var input string
		for range rapid.IntRange(0, 40).Draw(t, "pieces") {
			p := drawCommon(t, columns, rows)
			input += p
			_, _ = s.Write([]byte(p))
			_, _ = oracle.Write([]byte(p))
			if c := oracle.Cursor(); c.X != s.x || c.Y != s.y {
				t.Fatalf("%q: the cursor is at %d, %d instead of %d, %d", input, s.x, s.y, c.X, c.Y)
			}
			for y := range rows {
				for x := range columns {
					if diff := compareCell(s.grid().row(y).cells[x], oracle.Cell(x, y)); diff != "" {
						t.Fatalf("%q: at %d, %d: %s", input, x, y, diff)
					}
				}
			}
		}
	})
}
