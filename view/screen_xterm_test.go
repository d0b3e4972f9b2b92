package view

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"belljar/sandbox"
)

// xterm's behaviour where terminals differ, or vt10x is wrong. Each row names the
// function in its source.
func TestScreenIsXterm(t *testing.T) {
	for name, test := range map[string]struct{ input, want string }{
		"DECALN": { // charproc.c
			"\x1b[2;3r\x1b[?6h\x1b[7mab\x1b#8x", "xEEEEEEEEE" + strings.Repeat("\nEEEEEEEEEE", 3)},
		// A pending wrap: ResetWrap in cursor.c and util.c.
		"EL ends it":                {"0123456789\x1b[Kx", "012345678x"},
		"EL 1 ends it":              {"0123456789\x1b[1Kx", "         x"},
		"ED ends it":                {"0123456789\x1b[Jx", "012345678x"},
		"ECH ends it":               {"0123456789\x1b[Xx", "012345678x"},
		"ICH ends it":               {"0123456789\x1b[@x", "012345678x"},
		"DCH ends it":               {"0123456789\x1b[Px", "012345678x"},
		"a move to its place does":  {"0123456789\x1b[Cx", "012345678x"},
		"a backspace goes one back": {"0123456789\bx", "01234567x9"},
		"SGR does not":              {"0123456789\x1b[1mx", "0123456789\nx"},
		"SU does not":               {"0123456789\x1b[Sx", "0123456789\n\nx"},
		"CHT does not":              {"0123456789\x1b[Ix", "0123456789\nx"},
		"DECRC has it again":        {"0123456789\x1b7\x1b[H\x1b8x", "0123456789\nx"},
		"it is there without wrap":  {"\x1b[?7l0123456789\x1b[?7hx", "0123456789\nx"},
		// The scroll region: CursorUp, CursorDown, xtermIndex, RevIndex.
		"it holds what is inside":        {"\x1b[2;3r\x1b[3H\x1b[9Ax\x1b[9By", "\nx\n y"},
		"it stops a cursor from outside": {"\x1b[2;3r\x1b[H\x1b[9Bx\x1b[4H\x1b[9Ay", "\ny\nx"},
		"CNL and CPL too":                {"\x1b[2;3r\x1b[2;5H\x1b[9Ex\x1b[9Fy", "\ny\nx"},
		"VPR goes out":                   {"\x1b[1;2r\x1b[9ex", "\n\n\nx"},
		"VPR in origin mode does not":    {"\x1b[2;3r\x1b[?6h\x1b[9ex", "\n\nx"},
		"VPA counts as origin mode":      {"\x1b[2;3r\x1b[?6h\x1b[2dx", "\n\nx"},
		"RI above it":                    {"\x1b[2;3r\x1b[Ha\x1bMb", "ab"},
		"a line feed below it":           {"\x1b[1;2r\x1b[4Ha\nb", "\n\n\nab"},
		"IL and DL outside":              {"a\x1b[2;3r\x1b[C\x1b[9L\x1b[9Mb", "ab"},
		"more than it has":               {"a\r\nb\r\nc\r\nd\x1b[2;3r\x1b[999S\x1b[999T\x1b[2H\x1b[999L\x1b[999M", "a\n\n\nd"},
		// InsertLine and DeleteLine.
		"IL goes to the first column": {"abc\x1b[Lx", "x\nabc"},
		"DL goes to the first column": {"abc\r\ndef\x1b[A\x1b[Mx", "xef"},
		// CASE_REP: the character written right before it.
		"REP after a control":     {"-\a\x1b[3bx", "-x"},
		"REP after a sequence":    {"-\x1b[m\x1b[3bx", "-x"},
		"REP twice":               {"-\x1b[2b\x1b[2bx", "---x"},
		"REP of a wide character": {"日\x1b[2bx", "日日日x"},
		"REP of a drawn one":      {"\x1b(0q\x1b[2b\x1b(Bq", "───q"},
		"REP of a mark":           {"e\u0301\x1b[2bx", "e\u0301x"},
		// The alternate screen: srm_ALTBUF, srm_OPT_ALTBUF, srm_OPT_ALTBUF_CURSOR.
		"47 clears nothing":          {"\x1b[?47ha\x1b[?47l\x1b[?47hb", "ab"},
		"1047 clears on the way out": {"\x1b[?1047ha\x1b[?1047l\x1b[?1047hb", " b"},
		"1049 clears each time":      {"\x1b[?1049hab\x1b[?1049hx", "  x"},
		"1048 is the cursor":         {"ab\x1b[?1048hcd\x1b[?1048lx", "abxd"},
		"each has a saved cursor":    {"ab\x1b7\x1b[?47h\x1b[3;3H\x1b7\x1b[?47l\x1b8x", "abx"},
		// ReallyReset.
		"DECSTR saves home":        {"ab\x1b7\x1b[!p\x1b8x", "xb"},
		"DECSTR and modes":         {"ab\x1b[2;3r\x1b[2H\x1b[?6h\x1b[4h\x1b[?7l\x1b[!p\x1b[Hx\x1b[10Gyz", "xb       y\nz"},
		"DECSTR leaves LNM":        {"\x1b[20h\x1b[!pa\nb", "a\nb"},
		"DECSTR and charsets":      {"\x1b)0\x0eq\x1b[!pq", "─q"},
		"RIS and tabs":             {"\x1b[3g\x1bc\tx", "        x"},
		"SD is not mouse tracking": {"a\x1b[1;1;1;1;1Tb\x1b[2Tc", "  c\n\nab"},
		// Repairs by DamagedCells.
		"ICH within a wide character": {"日本\x1b[2G\x1b[@x", " x 本"},
		"ICH pushes half of one out":  {"12345678日\x1b[H\x1b[@", " 12345678"},
		"ECH of a half":               {"日本\x1b[2G\x1b[2X", ""},
		"EL 1 of a half":              {"日本\x1b[3G\x1b[1Kx", "  x"},
		"a wide one on two halves":    {"日本\x1b[2G語", " 語"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, shotOf(test.input).Text); diff != "" {
				t.Errorf("%q (-want +got):\n%s", test.input, diff)
			}
		})
	}
}

// xterm-256color has bce: erased cells, and those that scroll in, have the current
// background.
func TestScreenErasesWithTheBackground(t *testing.T) {
	want := []sandbox.Span{{Text: "  ", Background: "palette:4"}, {Text: "x"}}
	for name, sequence := range map[string]string{
		"EL": "\x1b[K", "EL 1": "\x1b[3G\x1b[1K", "EL 2": "\x1b[2K", "ED": "\x1b[J", "ED 1": "\x1b[3G\x1b[1J", "ED 2": "\x1b[2J",
		"ECH": "\x1b[3X", "ICH": "\x1b[3@", "DCH": "\x1b[10P", "IL": "\x1b[L", "DL": "\x1b[M", "SU": "\x1b[S", "SD": "\x1b[4T",
		"LF": "\n", "IND": "\x1bD", "NEL": "\x1bE",
		"1049": "\x1b[?1049h", "1047": "\x1b[?1047h\x1b[?1047l\x1b[?1047h",
	} {
		t.Run(name, func(t *testing.T) {
			got := shotOf("\x1b[4;1H\x1b[1;4;7;44m" + sequence + "\x1b[m\x1b[r\x1b[4;3Hx").Lines
			if diff := cmp.Diff(want, got[len(got)-1]); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
