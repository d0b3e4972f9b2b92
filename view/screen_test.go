package view

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"belljar/sandbox"
)

// shotOf is what a screen of ten columns and four rows shows.
func shotOf(input string) sandbox.Shot {
	s := Viewer{}.NewScreen(sandbox.View{}, sandbox.TerminalSize{Columns: 10, Rows: 4})
	_, _ = s.Write([]byte(input))
	return s.Shot(true)
}

func TestScreenText(t *testing.T) {
	for name, test := range map[string]struct{ input, want string }{
		"nothing":                       {"", ""},
		"a line":                        {"hello\r\n", "hello"},
		"a bare line feed":              {"a\nb", "a\n b"},
		"LNM":                           {"\x1b[20ha\nb", "a\nb"},
		"blanks at the ends":            {"a  \r\n\r\n  b  \r\n   \r\n", "a\n\n  b"},
		"a progress bar":                {"  5%\r 50%\r100%\r\ndone", "100%\ndone"},
		"a redraw that is shorter":      {"working...\r\x1b[Kdone", "done"},
		"backspace":                     {"abc\b\bX", "aXc"},
		"tabs":                          {"a\tb\tc", "a       bc"},
		"a tab where a wrap is due":     {"0123456789\tx", "0123456789\nx"},
		"tab stops":                     {"\x1b[3g\x1b[4G\x1bH\r\ta\x1b[2Ib\x1b[Zc", "   c     b"},
		"wrap":                          {"0123456789abc", "0123456789\nabc"},
		"a line as wide as the screen":  {"0123456789\r\nabc", "0123456789\nabc"},
		"no wrap":                       {"\x1b[?7l0123456789abc", "012345678c"},
		"scrolling keeps the top":       {"1\r\n2\r\n3\r\n4\r\n5\r\n6", "1\n2\n3\n4\n5\n6"},
		"index scrolls too":             {"1\r\n2\r\n3\r\n4\x1bD5\x1bE6", "1\n2\n3\n4\n 5\n6"},
		"SU scrolls too":                {"1\r\n2\r\n3\x1b[2S\x1b[H4", "1\n2\n4"},
		"a region scrolls within":       {"top\x1b[2;3r\x1b[2Ha\r\nb\r\nc\r\nd", "top\nc\nd"},
		"a region at the top keeps":     {"\x1b[1;2ra\r\nb\r\nc\r\nd", "a\nb\nc\nd"},
		"a region of nothing":           {"\x1b[3;2rab", "ab"},
		"reverse index":                 {"a\x1b[H\x1bMb", "b\na"},
		"clear":                         {"old\x1b[H\x1b[2Jnew", "new"},
		"clear what scrolled":           {"1\r\n2\r\n3\r\n4\r\n5\x1b[H\x1b[2J\x1b[3Jnew", "new"},
		"clear above, in the second":    {"1\r\n2\r\n3\x1b[2;2H\x1b[1J", "\n\n3"},
		"reset":                         {"1\r\n2\r\n3\r\n4\r\n5\x1b[31m\x1bcnew", "new"},
		"insert and delete":             {"abc\r\x1b[2@X\x1b[4G\x1b[P", "X ac"},
		"insert mode":                   {"abc\r\x1b[4hXY\x1b[4lZ", "XYZbc"},
		"insert lines":                  {"a\r\nb\x1b[H\x1b[Lc", "c\na\nb"},
		"delete lines":                  {"a\r\nb\r\nc\x1b[H\x1b[2M", "c"},
		"erase characters":              {"abcdef\r\x1b[3X", "   def"},
		"repeat":                        {"-\x1b[4b+", "-----+"},
		"repeat no more than a row":     {"-\x1b[99999999b", "----------\n-"},
		"moves":                         {"\x1b[2;3Ha\x1b[Ab\x1b[Bc\x1b[Dd\x1b[5Ge\x1b[dg\x1b[F\x1b[Ch", " h b g\n  a e"},
		"origin":                        {"\x1b[2;3r\x1b[?6h\x1b[Ha\x1b[9;1Hb", "\na\nb"},
		"saved":                         {"ab\x1b7\x1b[3;3H\x1b[31mc\x1b8d", "abd\n\n  c"},
		"the alternate screen":          {"main\x1b[?1049h\x1b[Halternate\r\n\n\n\n\n\nx", "\n\n\nx"},
		"back from the alternate":       {"main\x1b[?1049h\x1b[Halternate\x1b[?1049l!", "main!"},
		"back from where it was not":    {"\x1b7main\x1b[?1049l!", "!ain"},
		"the alternate is empty again":  {"\x1b[?1049hx\x1b[?1049l\x1b[?1049h", ""},
		"an alternate does not scroll":  {"a\r\n\x1b[?47h1\r\n2\r\n3\r\n4\r\n5\r\n6", "3\n4\n5\n6"},
		"a margin beyond the alternate": {"\x1b[2;3r\x1b[?1049h\x1b[?1049l\x1b[4Ha\nb\x1b[2Hc\nd\ne", "\n d\n  e\nab"},
		"a title":                       {"a\x1b]0;title\ab\x1b]2;t\x1b\\c\x1bktitle\x1b\\d", "abcd"},
		"the clipboard":                 {"a\x1b]52;c;aGVsbG8=\ab", "ab"},
		"DCS, PM, APC, SOS":             {"a\x1bPq#0~\a~\x1b\\b\x1b^x\x1b\\c\x1b_x\x1b\\d\x1bXx\x1b\\e", "abcde"},
		"a string that is cut":          {"\x1b]0;t\x1b[31mred\x1b]0;t\x18x", "redx"},
		"queries":                       {"\x1b[c\x1b[>c\x1b[6n\x1b[5n\x1bZ\x05\x1b]10;?\a\x1b[?2026$px", "x"},
		"keyboards and cursors":         {"ab\x1b[>4;2m\x1b[>1u\x1b[?u\x1b[<u\x1b[2 q\x1b[?25l\x1b[!pc", "abc"},
		"line drawing":                  {"\x1b(0lqk\x1b(Bq\x1b)0\x0eq\x0fq", "┌─┐q─q"},
		"a charset that is not there":   {"\x1b*0\x1b%Ga", "a"},
		"C1":                            {"a\u0085b\u009b31mc\u009d0;t\ad", "a\nbcd"},
		"controls":                      {"a\x00\x01\x07\x7f\x1fb", "ab"},
		"controls in a sequence":        {"a\x1b[3\r1mb\x1b[\x1b[mc", "bc"},
		"a sequence that is cut":        {"a\x1b[31\x18b\x1b\x1ac\x1b[5éd", "abcéd"},
		"no UTF-8":                      {"a\xffb\xe2\x82c\xf0\x9f\x98", "a\ufffdb\ufffd\ufffdc"},
		"a negative parameter":          {"ab\x1b[-5@\x1b[-5P\x1b[-1Lc", "abc"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, shotOf(test.input).Text); diff != "" {
				t.Errorf("%q (-want +got):\n%s", test.input, diff)
			}
		})
	}
}

func TestScreenCharacters(t *testing.T) {
	for name, test := range map[string]struct{ input, want string }{
		"umlauts":                     {"äöü", "äöü"},
		"wide":                        {"日本語", "日本語"},
		"wide ones take two cells":    {"日本\x1b[5Gx", "日本x"},
		"wide ones wrap whole":        {"123456789日x", "123456789\n日x"},
		"wide at the end":             {"12345678日x", "12345678日\nx"},
		"wide without wrap":           {"\x1b[?7l123456789日", "12345678日"},
		"the first half overwritten":  {"日本\rx", "x 本"},
		"the second half overwritten": {"日本\x1b[2Gx", " x本"},
		"deleted in halves":           {"日本\r\x1b[P", " 本"},
		"emoji":                       {"👍🏽 ok", "👍🏽 ok"},
		"a mark":                      {"e\u0301x", "e\u0301x"},
		"marks after wide ones":       {"か\u3099x", "か\u3099x"},
		"a mark at the row's end":     {"0123456789\u0301x", "0123456789\u0301\nx"},
		"a mark after a wide end":     {"12345678日\u0301x", "12345678日\u0301\nx"},
		"a mark after nothing":        {"\u0301x", " \u0301x"},
		"a mark on half a character":  {"日\b\bx\x1b[C\u0301y", "x \u0301y"},
		"emoji presentation":          {"⚠\ufe0f x", "⚠\ufe0f x"},
		"a flood of marks":            {"a" + strings.Repeat("\u0301", 100), "a" + strings.Repeat("\u0301", 8)},
		"bidi":                        {"a\u202eb\u2066c", "a\ufffdb\ufffdc"},
		"zero width":                  {"a\u200bb\ufeffc\u200dd", "a\ufffdb\ufffdc\ufffdd"},
		"tags and selectors":          {"a\U000e0041\ufe01\U000e0100b", "a\ufffd\ufe01\ufffdb"},
		"joined emoji":                {"👩\u200d💻x", "👩\u200d💻x"},
		"fillers and soft hyphens":    {"a\u3164\u00ad\u2028b", "a\ufffd\ufffd\ufffdb"},
		"private symbols":             {"\ue0b0x", "\ufffdx"},
		"codes of this package":       {"a\U00040000\U000dffff\U0010ffffb", "a\ufffd\ufffd\ufffdb"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, shotOf(test.input).Text); diff != "" {
				t.Errorf("%q (-want +got):\n%s", test.input, diff)
			}
		})
	}
}

func TestScreenStyles(t *testing.T) {
	plain := func(text string) sandbox.Span { return sandbox.Span{Text: text} }
	for name, test := range map[string]struct {
		input string
		want  []sandbox.Span
	}{
		"none":                     {"ab\x1b[mc", []sandbox.Span{plain("abc")}},
		"each":                     {"\x1b[1ma\x1b[;3mb\x1b[0;4mc\x1b[0;7md", []sandbox.Span{{Text: "a", Bold: true}, {Text: "b", Italic: true}, {Text: "c", Underline: true}, {Text: "d", Inverse: true}}},
		"all":                      {"\x1b[1;3;4;7;31;42ma\x1b[22;23;24;27;39;49mb", []sandbox.Span{{Text: "a", Bold: true, Italic: true, Underline: true, Inverse: true, Foreground: "palette:1", Background: "palette:2"}, plain("b")}},
		"bright":                   {"\x1b[1;31ma\x1b[1;91mb\x1b[107mc", []sandbox.Span{{Text: "a", Bold: true, Foreground: "palette:1"}, {Text: "b", Bold: true, Foreground: "palette:9"}, {Text: "c", Bold: true, Foreground: "palette:9", Background: "palette:15"}}},
		"palette":                  {"\x1b[38;5;0ma\x1b[38;5;255;48;5;7mb\x1b[38;5;256mc", []sandbox.Span{{Text: "a", Foreground: "palette:0"}, {Text: "bc", Foreground: "palette:255", Background: "palette:7"}}},
		"mixed":                    {"\x1b[38;2;0;0;0ma\x1b[48;2;255;128;1;1mb", []sandbox.Span{{Text: "a", Foreground: "#000000"}, {Text: "b", Bold: true, Foreground: "#000000", Background: "#ff8001"}}},
		"colons":                   {"\x1b[38:2::1:2:3ma\x1b[38:2:4:5:6;1mb\x1b[0;38:5:7;4:3mc\x1b[4:0md", []sandbox.Span{{Text: "a", Foreground: "#010203"}, {Text: "b", Bold: true, Foreground: "#040506"}, {Text: "c", Underline: true, Foreground: "palette:7"}, {Text: "d", Foreground: "palette:7"}}},
		"like the palette":         {"\x1b[38;2;0;0;7;48;2;0;1;7ma", []sandbox.Span{{Text: "a", Foreground: "#000007", Background: "#000107"}}},
		"dark":                     {"\x1b[1;38;2;0;0;7;48;2;0;0;255ma", []sandbox.Span{{Text: "a", Bold: true, Foreground: "#000007", Background: "#0000ff"}}},
		"the underline's color":    {"\x1b[58;5;1;58;2;1;3;7ma", []sandbox.Span{plain("a")}},
		"inverse":                  {"\x1b[7;31ma\x1b[44mb", []sandbox.Span{{Text: "a", Inverse: true, Foreground: "palette:1"}, {Text: "b", Inverse: true, Foreground: "palette:1", Background: "palette:4"}}},
		"erased has a background":  {"\x1b[1;4;7;31;44m\x1b[K\x1b[m\x1b[3Gx", []sandbox.Span{{Text: "  ", Background: "palette:4"}, plain("x")}},
		"blanks that are inverse":  {"\x1b[7ma  ", []sandbox.Span{{Text: "a", Inverse: true}}},
		"a mark keeps the style":   {"\x1b[31me\x1b[32m\u0301x", []sandbox.Span{{Text: "e\u0301", Foreground: "palette:1"}, {Text: "x", Foreground: "palette:2"}}},
		"restored":                 {"\x1b[31m\x1b7\x1b[32m\x1b8a", []sandbox.Span{{Text: "a", Foreground: "palette:1"}}},
		"a keyboard's is no style": {"\x1b[>4;2ma\x1b[?4mb", []sandbox.Span{plain("ab")}},
		"too many parameters":      {"\x1b[" + strings.Repeat("1;", 100) + "31ma", []sandbox.Span{{Text: "a", Bold: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff([][]sandbox.Span{test.want}, shotOf(test.input).Lines); diff != "" {
				t.Errorf("%q (-want +got):\n%s", test.input, diff)
			}
			shot := shotOf(test.input + "\r\n\n\n\n\n") // the same from the history
			if diff := cmp.Diff([][]sandbox.Span{test.want}, shot.Lines); diff != "" {
				t.Errorf("scrolled: %q (-want +got):\n%s", test.input, diff)
			}
		})
	}
}

func TestScreenResize(t *testing.T) {
	for name, test := range map[string]struct {
		input         string
		columns, rows int
		then, want    string
	}{
		"larger":                {"a\r\nb", 20, 8, "\x1b[8;20Hc", "a\nb\n\n\n\n\n\n                   c"},
		"fewer rows":            {"1\r\n2\r\n3\r\n4", 10, 2, "!", "1\n2\n3\n4!"},
		"fewer rows below":      {"1\r\n2\r\n3\r\n4\x1b[H", 10, 2, "!", "!\n2"},
		"fewer columns":         {"0123456789", 5, 4, "", "01234"},
		"through a character":   {"日本語", 5, 4, "", "日本"},
		"new columns have tabs": {"", 40, 4, "\t\t\t\tx", strings.Repeat(" ", 32) + "x"},
		"the hidden screen":     {"1\r\n2\r\n3\r\n4\x1b[?1049h\x1b[Hvi", 10, 2, "\x1b[?1049l!", "1\n2\n3\n4!"},
		"a region ends":         {"\x1b[2;3r", 10, 5, "\x1b[5Ha\r\nb", "\n\n\n\na\nb"},
		"to the same":           {"\x1b[2;3r", 10, 4, "\x1b[4Ha\r\nb", "\n\n\nb"},
		"the least":             {"abc", -1, -1, "日x", "\ufffd\nx"},
	} {
		t.Run(name, func(t *testing.T) {
			s := Viewer{}.NewScreen(sandbox.View{}, sandbox.TerminalSize{Columns: 10, Rows: 4})
			_, _ = s.Write([]byte(test.input))
			s.Resize(sandbox.TerminalSize{Columns: test.columns, Rows: test.rows})
			_, _ = s.Write([]byte(test.then))
			if diff := cmp.Diff(test.want, s.Shot(true).Text); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestScreenSize(t *testing.T) {
	for _, test := range []struct{ size, want sandbox.TerminalSize }{
		{sandbox.TerminalSize{}, sandbox.TerminalSize{Columns: 80, Rows: 24}},
		{sandbox.TerminalSize{Columns: 1 << 30, Rows: 1 << 30}, sandbox.TerminalSize{Columns: 500, Rows: 200}},
		{sandbox.TerminalSize{Columns: -1, Rows: -1}, sandbox.TerminalSize{Columns: 1, Rows: 1}},
	} {
		shot := Viewer{}.NewScreen(sandbox.View{}, test.size).Shot(true)
		if got := (sandbox.TerminalSize{Columns: shot.Columns, Rows: shot.Rows}); got != test.want {
			t.Errorf("%v: got %v, want %v", test.size, got, test.want)
		}
	}
}

func TestScreenHistoryIsBounded(t *testing.T) {
	for name, line := range map[string]string{
		"lines": "x\r\n",
		"bytes": strings.Repeat("日", 250) + "\r\n",
		"spans": strings.Repeat("\x1b[31mx\x1b[32my", 250) + "\r\n",
	} {
		s := Viewer{}.NewScreen(sandbox.View{}, sandbox.TerminalSize{Columns: 500, Rows: 2}).(*screen)
		_, _ = s.Write([]byte(strings.Repeat(line, 1100)))
		h := s.history
		if h.lines.n > historyLines || h.bytes > historyBytes || h.spans > historySpans {
			t.Errorf("%s: %d lines, %d bytes, %d spans", name, h.lines.n, h.bytes, h.spans)
		}
		if h.lines.n < 100 {
			t.Errorf("%s: only %d lines are kept", name, h.lines.n)
		}
	}
}

func TestWidth(t *testing.T) {
	for text, want := range map[string]int{"": 0, "abc": 3, "äöü": 3, "日本語": 6, "e\u0301": 1, "👍": 2, "…☺": 2} {
		if got := Width(text); got != want {
			t.Errorf("%q: %d, not %d", text, got, want)
		}
	}
}
