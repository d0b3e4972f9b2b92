package view

import (
	"iter"
	"strings"
	"testing"

	"golang.org/x/text/encoding/unicode"

	"belljar/sandbox"
)

// chunksOf divides text: each size, and then all that is left.
func chunksOf(text string, sizes ...int) iter.Seq[sandbox.Chunk] {
	return func(yield func(sandbox.Chunk) bool) {
		at := 0
		for _, n := range append(sizes, len(text)) {
			n = min(n, len(text)-at)
			if n > 0 && !yield(sandbox.Chunk{Offset: int64(at), Data: []byte(text[at : at+n])}) {
				return
			}
			at += n
		}
	}
}

func totalOf(text string) sandbox.Total {
	return sandbox.Total{Bytes: int64(len(text)), Lines: int64(strings.Count(text, "\n"))}
}

func viewOf(v sandbox.View, text string, sizes ...int) sandbox.Text {
	return Viewer{}.View(v, chunksOf(text, sizes...), totalOf(text))
}

func TestViewLines(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"nothing":                {"", ""},
		"no line end":            {"abc", "abc"},
		"tab":                    {"a\tb\n", "a\tb\n"},
		"CRLF":                   {"a\r\nb\r\n", "a\nb\n"},
		"CR CR LF":               {"a\r\r\nb", "a\nb"},
		"CR at the end":          {"a\r", "a"},
		"redraw":                 {"10%\r50%\r100%\n", "100%\n"},
		"shorter redraw":         {"longer text\rshort\n", "shortr text\n"},
		"erased redraw":          {"longer text\rshort\x1b[K\n", "short\n"},
		"erased, then drawn":     {"longer text\r\x1b[Kshort\n", "short\n"},
		"whole line erased":      {"longer\x1b[2K\rshort\n", "short\n"},
		"blanked redraw":         {"longer\r      \rabc\n", "abc\n"},
		"column":                 {"12345\x1b[2Gx\n", "1x345\n"},
		"cursor back":            {"12345\x1b[2Dx\n", "123x5\n"},
		"cursor forward":         {"ab\x1b[3Cc\n", "ab   c\n"},
		"far forward":            {"\x1b[99999999999999999999Cx\x1b[K", strings.Repeat(" ", maxJump) + "x"},
		"backspace":              {"abc\b\bx\n", "axc\n"},
		"backspace at the start": {"\b\bx\n", "x\n"},
		"overstrike":             {"N\bNA\bAM\bME\bE _\bx\n", "NAME x\n"},
		"tab over text":          {"abcdefghij\r\tX\n", "abcdefghXj\n"},
		"colors":                 {"\x1b[1;31mred\x1b[0m plain\n", "red plain\n"},
		"color of 24 bit":        {"\x1b[38:2::1:2:3mx\x1b[m\n", "x\n"},
		"trailing blanks stay":   {"\x1b[1ma\x1b[m  \n", "a  \n"},
		"title":                  {"\x1b]0;evil\x07x\x1b]2;evil\x1b\\y\n", "xy\n"},
		"clipboard":              {"\x1b]52;c;ZXZpbA==\x07x\n", "x\n"},
		"link":                   {"\x1b]8;;http://evil\x1b\\text\x1b]8;;\x1b\\\n", "text\n"},
		"UTF-8 in a title":       {"\x1b]0;é€😀\u009cx\n", "x\n"},
		"DCS":                    {"\x1bP1$r0m\x1b\\x\n", "x\n"},
		"SOS, PM, APC":           {"\x1bXa\x1b\\1\x1b^b\x1b\\2\x1b_Gc\x1b\\3\n", "123\n"},
		"C1 CSI":                 {"\u009b31mx\n", "x\n"},
		"raw C1 CSI":             {"\x9b31mx\n", "x\n"},
		"C1 OSC":                 {"\u009d0;evil\u009cx\n", "x\n"},
		"raw C1 OSC":             {"\x9d0;evil\x9cx\n", "x\n"},
		"ESC by itself":          {"a\x1b", "a"},
		"ESC ESC":                {"a\x1b\x1b[31mb\n", "ab\n"},
		"character set":          {"\x1b(0lqk\x1b(B\n", "lqk\n"},
		"CR within CSI":          {"abc\x1b[\r1mx\n", "xbc\n"},
		"cancelled":              {"\x1b[31\x18x\n", "x\n"},
		"broken off":             {"\x1b[31éx\n", "éx\n"},
		"unfinished OSC":         {"a\x1b]0;evil", "a"},
		"line end in OSC":        {"a\x1b]0;evil\nshown\n", "a\nshown\n"},
		"line end in CSI":        {"a\x1b[3\nshown\n", "a\nshown\n"},
		"bell":                   {"a\x07b\n", "a\\ab\n"},
		"C1":                     {"a\u0085b\u0084\n", "a\\u0085b\\u0084\n"},
		"bidi":                   {"a\u202eb\u2066c\u200fd\n", "a\\u202eb\\u2066c\\u200fd\n"},
		"zero width":             {"a\u200bb\ufeffc\n", "a\\u200bb\\ufeffc\n"},
		"tags":                   {"a\U000e0041b\n", "a\\U000e0041b\n"},
		"selectors hide data":    {"a\ufe01\ufe02\ufe03\n", "a\ufe01\\ufe02\\ufe03\n"},
		"marks":                  {"e\u0301 ก็\n", "e\u0301 ก็\n"},
		"marks in a redraw":      {"xx\re\u0301\n", "e\u0301x\n"},
		"emoji":                  {"👨\u200d👩\u200d👧 👍🏽 ❤\ufe0f 🇩🇪\n", "👨\u200d👩\u200d👧 👍🏽 ❤\ufe0f 🇩🇪\n"},
		"invalid bytes":          {"a\xff\xc3(€€€€€€€€€€\n", "a\\xff\\xc3(€€€€€€€€€€\n"},
		"cut at the end":         {"€€€€€€€€€€€€€€€€€€€€€\xe2\x82", "€€€€€€€€€€€€€€€€€€€€€\\xe2\\x82"},
		"BOM":                    {"\xef\xbb\xbfabc\n", "abc\n"},
		"blanks of Unicode":      {"a\u00a0b\u3000c\n", "a\u00a0b\u3000c\n"},
	} {
		t.Run(name, func(t *testing.T) {
			want := sandbox.Text{Text: c.want, Charset: "utf-8"}
			if got := viewOf(sandbox.View{}, c.in); got != want {
				t.Errorf("got %+v\nwant %+v", got, want)
			}
			for n := range len(c.in) {
				if got := viewOf(sandbox.View{}, c.in, n); got != want {
					t.Errorf("divided at %d: got %+v", n, got)
				}
			}
		})
	}
}

func TestViewBounds(t *testing.T) {
	ten := "l0\nl1\nl2\nl3\nl4\nl5\nl6\nl7\nl8\nl9\n"
	for name, c := range map[string]struct {
		view sandbox.View
		in   string
		want sandbox.Text
	}{
		"it fits":            {sandbox.View{Bytes: 30, Lines: 10}, ten, sandbox.Text{Text: ten}},
		"lines":              {sandbox.View{Lines: 4}, ten, sandbox.Text{Text: "l0\nl1\n[… 18 bytes, 6 lines left out …]\nl8\nl9\n", OmittedBytes: 18, OmittedLines: 6}},
		"an odd bound":       {sandbox.View{Lines: 3}, ten, sandbox.Text{Text: "l0\n[… 21 bytes, 7 lines left out …]\nl8\nl9\n", OmittedBytes: 21, OmittedLines: 7}},
		"one line":           {sandbox.View{Lines: 1}, ten, sandbox.Text{Text: "[… 27 bytes, 9 lines left out …]\nl9\n", OmittedBytes: 27, OmittedLines: 9}},
		"one is left out":    {sandbox.View{Lines: 9}, ten, sandbox.Text{Text: "l0\nl1\nl2\nl3\n[… 3 bytes, 1 line left out …]\nl5\nl6\nl7\nl8\nl9\n", OmittedBytes: 3, OmittedLines: 1}},
		"bytes":              {sandbox.View{Bytes: 12}, ten, sandbox.Text{Text: "l0\nl1\n[… 18 bytes, 6 lines left out …]\nl8\nl9\n", OmittedBytes: 18, OmittedLines: 6}},
		"bytes within lines": {sandbox.View{Bytes: 10}, ten, sandbox.Text{Text: "l0\nl1\n[… 20 bytes, 7 lines left out …]\n8\nl9\n", OmittedBytes: 20, OmittedLines: 7}},
		"within one line":    {sandbox.View{Bytes: 8}, "0123456789\n", sandbox.Text{Text: "0123\n[… 3 bytes left out …]\n789\n", OmittedBytes: 3}},
		"the end":            {sandbox.View{Bytes: 12, TailOnly: true}, ten, sandbox.Text{Text: "[… 18 bytes, 6 lines left out …]\nl6\nl7\nl8\nl9\n", OmittedBytes: 18, OmittedLines: 6}},
		"no line end":        {sandbox.View{Lines: 2}, "a\nb\nc", sandbox.Text{Text: "a\n[… 2 bytes, 1 line left out …]\nc", OmittedBytes: 2, OmittedLines: 1}},
		"one byte":           {sandbox.View{Bytes: 1}, "abc", sandbox.Text{Text: "[… 2 bytes left out …]\nc", OmittedBytes: 2}},
		"a long line":        {sandbox.View{LineChars: 4}, "0123456789\nab\n", sandbox.Text{Text: "01[… 6 characters left out …]89\nab\n", OmittedBytes: 6}},
		"one character":      {sandbox.View{LineChars: 4}, "01€89\n", sandbox.Text{Text: "01[… 1 character left out …]89\n", OmittedBytes: 3}},
		"wide characters":    {sandbox.View{LineChars: 4}, "你好世界\n你好,世界\n", sandbox.Text{Text: "你好世界\n你好[… 1 character left out …]世界\n", OmittedBytes: 1}},
		"a long redraw":      {sandbox.View{LineChars: 4}, "0123456789\rab\n", sandbox.Text{Text: "ab[… 6 characters left out …]89\n", OmittedBytes: 6}},
		"erased in between":  {sandbox.View{LineChars: 4}, "0123456789\r0123\x1b[Kx\n", sandbox.Text{Text: "01[… 2 characters left out …]x\n", OmittedBytes: 8}},
		"erased to fit":      {sandbox.View{LineChars: 4}, "0123456789\rab\x1b[K\n", sandbox.Text{Text: "ab\n"}},
		"runes are whole":    {sandbox.View{Bytes: 8}, "€€€€€", sandbox.Text{Text: "€\n[… 9 bytes left out …]\n€", OmittedBytes: 9}},
		"marks are not torn": {sandbox.View{Bytes: 8}, "abce\u0301fghie\u0301", sandbox.Text{Text: "abc\n[… 5 bytes left out …]\nhie\u0301", OmittedBytes: 5}},
		"joined, at the end": {sandbox.View{Bytes: 6, TailOnly: true}, "x👨\u200d👩yz", sandbox.Text{Text: "[… 12 bytes left out …]\nyz", OmittedBytes: 12}},
		"within a joiner":    {sandbox.View{Bytes: 8, TailOnly: true}, "x👨\u200d👩yz", sandbox.Text{Text: "[… 12 bytes left out …]\nyz", OmittedBytes: 12}},
		"joined thrice":      {sandbox.View{Bytes: 13, TailOnly: true}, "x👨\u200d👩\u200d👧yz", sandbox.Text{Text: "[… 19 bytes left out …]\nyz", OmittedBytes: 19}},
		"joined, and fits":   {sandbox.View{Bytes: 13, TailOnly: true}, "x👨\u200d👩yz", sandbox.Text{Text: "[… 1 byte left out …]\n👨\u200d👩yz", OmittedBytes: 1}},
		"joined, both ends":  {sandbox.View{Bytes: 12}, "xy👨\u200d👩👨\u200d👩yz", sandbox.Text{Text: "xy\n[… 22 bytes left out …]\nyz", OmittedBytes: 22}},
		"escapes count":      {sandbox.View{Lines: 2}, "a\n\x1b[1mb\x1b[m\n\x1b[1mc\x1b[m\n", sandbox.Text{Text: "a\n[… 9 bytes, 1 line left out …]\nc\n", OmittedBytes: 9, OmittedLines: 1}},
		"a forged mark":      {sandbox.View{}, "[… 5 bytes left out …]\n", sandbox.Text{Text: "[… 5 bytes left out …]\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.want.Charset = "utf-8"
			for n := range len(c.in) {
				if got := viewOf(c.view, c.in, n); got != c.want {
					t.Fatalf("divided at %d:\ngot  %+v\nwant %+v", n, got, c.want)
				}
			}
		})
	}
}

// A character is not torn where its runes are in two of the tail's records.
func TestViewTailRecords(t *testing.T) {
	for n := range 16 {
		in := strings.Repeat("x", maxPlainRecord-n) + "👨\u200d👩" + strings.Repeat("y", 100)
		for size := int64(100); size < 111; size++ {
			got := viewOf(sandbox.View{Bytes: size, TailOnly: true}, in).Text
			if _, tail, _ := strings.Cut(got, "\n"); tail != strings.Repeat("y", 100) {
				t.Errorf("%d before the end of a record, bound %d: %q", n, size, tail)
			}
		}
	}
	in := strings.Repeat("x", maxAtomRecord-7) + "👨\u200d👩" + strings.Repeat("y", maxAtomRecord)
	wide, err := unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM).NewEncoder().String(in)
	if err != nil {
		t.Fatal(err)
	}
	got := viewOf(sandbox.View{Bytes: maxAtomRecord + 4, TailOnly: true, Charset: "utf-16le"}, wide).Text
	if _, tail, _ := strings.Cut(got, "\n"); tail != strings.Repeat("y", maxAtomRecord) {
		t.Errorf("after a record of atoms: %q", tail)
	}
}
