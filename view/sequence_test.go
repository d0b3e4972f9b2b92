package view

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"belljar/sandbox"
)

// lineOf is what the view, and what a screen wide enough, shows of a line.
func lineOf(in string) (view, screen string) {
	s := newTestScreen(sandbox.MaxColumns, 2)
	_, _ = s.Write([]byte(in))
	return viewOf(sandbox.View{Charset: "utf-8"}, in).Text, s.Shot(true).Text
}

// What a screen swallows a view must not show, nor the other way round.
func TestSequencesEndTheSame(t *testing.T) {
	for name, in := range map[string]string{
		"C1 OSC and ST":               "a\u009d0;t\u009cb",
		"OSC and ST":                  "a\x1b]0;t\u009cb",
		"OSC and BEL":                 "a\x1b]0;t\ab",
		"OSC and ESC \\":              "a\x1b]0;t\x1b\\b",
		"DCS and ST":                  "a\x1bPq\u009cb",
		"SOS, PM and APC with ST":     "a\x1bXx\u009c\x1b^x\u009c\x1b_x\u009cb",
		"an empty DCS":                "a\x1bP\x1b\\b",
		"a DCS with a bell":           "a\x1bPx\ax\x1b\\b",
		"a title":                     "a\x1bktitle\x1b\\b",
		"a title and BEL":             "a\x1bktitle\ab",
		"a title and ST":              "a\x1bktitle\u009cb",
		"C1 in a string":              "a\x1b]0;\u0085\u009b31m\u0090\ab",
		"UTF-8 like ST in a string":   "a\x1b]0;\u071c\U0001f71c\ab",
		"a string that is canceled":   "a\x1b]0;t\x18b",
		"a sequence in a string":      "a\x1b]0;t\x1b[31mb",
		"a C1 sequence in one":        "a\x1b[3\u009b31mb",
		"a late digit":                "a\x1b[1 5Cb",
		"a late ?":                    "a\x1b[5?Cb",
		"a late ;":                    "a\x1b[ ;Cb",
		"two of < = > ?":              "a\x1b[??5Cb",
		"private":                     "a\x1b[?5Cb",
		"an intermediate byte":        "a\x1b[5 Cb",
		"a control in a sequence":     "a\x1b[\x1f\x7f31mb",
		"an ESC in a sequence":        "a\x1b[3\x1b[mb",
		"intermediates":               "a\x1b(#(Bb",
		"a sequence that is canceled": "a\x1b[31\x18b",
	} {
		t.Run(name, func(t *testing.T) {
			if view, screen := lineOf(in); view != "ab" || screen != "ab" {
				t.Errorf("%q: the view shows %q, the screen %q", in, view, screen)
			}
		})
	}
}

// The pieces have no effect but where one takes for text what the other does not.
func TestSequencesAreTheSame(t *testing.T) {
	piece := rapid.SampledFrom([]string{
		"q", "z", "é", "日", "\x1b", "\x1b[", "\x1b]", "\x1bP", "\x1b\\", "\u009b", "\u009d", "\u0090", "[", "]", "P", "X", "^", "_", "k", "\\",
		"5", ";", ":", "<", "?", " ", "!", "(", "m",
	})
	rapid.Check(t, func(t *rapid.T) {
		in := strings.Join(rapid.SliceOfN(piece, 0, 30).Draw(t, "pieces"), "")
		view, screen := lineOf("|" + in)
		if view, screen = strings.TrimRight(view, " "), strings.TrimRight(screen, " "); view != screen {
			t.Fatalf("%q: the view shows %q, the screen %q", in, view, screen)
		}
	})
}

func TestSequencesAllocateNothing(t *testing.T) {
	l := newLineReader(newKeeper(sandbox.View{Bytes: 1 << 10}), 0)
	lines := []byte(strings.Repeat("\x1b[1;31mred\x1b[m \x1b]0;title\atext \u009d8;;x\u009clink\x1b[K\r\x1b[2Cx\n", 100))
	read := func() { l.utf8(lines, true) }
	read()
	if n := testing.AllocsPerRun(100, read); n > 0 {
		t.Errorf("%v allocations for %d bytes", n, len(lines))
	}
}
