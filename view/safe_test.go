package view

import (
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestSafe(t *testing.T) {
	for in, want := range map[string]string{
		"":                           "",
		"plain\ttext\nand more":      "plain\ttext\nand more",
		"\x1b]0;evil\x07":            `\x1b]0;evil\a`,
		"\x1b]52;c;ZXZpbA==\x07":     `\x1b]52;c;ZXZpbA==\a`,
		"\x1b]8;;http://evil\x1b\\x": `\x1b]8;;http://evil\x1b\x`,
		"\x1bPq\x1b\\":               `\x1bPq\x1b\`,
		"\x1b_G\x1b\\":               `\x1b_G\x1b\`,
		"nul \x00":                   `nul \x00`,
		"delete \x7f":                `delete \x7f`,
		"C1 \u009b31m":               `C1 \u009b31m`,
		"raw C1 \x9b31m":             `raw C1 \x9b31m`,
		"bidi \u202e\u2066\u200e":    `bidi \u202e\u2066\u200e`,
		"zero \u200b\u200c\u200d":    `zero \u200b\u200c\u200d`,
		"BOM \ufeff":                 `BOM \ufeff`,
		"tag \U000e0041":             `tag \U000e0041`,
		"private \ue000":             `private \ue000`,
		"filler \u3164":              `filler \u3164`,
		"line \u2028":                `line \u2028`,
		"invalid \xff\xe2\x82":       `invalid \xff\xe2\x82`,
		"\ufffd is a character":      "\ufffd is a character",
		"overwrite\rme":              `overwrite\rme`,
		"CRLF\r\n":                   "CRLF\r\n",
		"at the end\r":               `at the end\r`,
		"selectors \ufe00\ufe01":     `selectors \ufe00\ufe01`,
		"❤\ufe0f 葛\U000e0100":        "❤\ufe0f 葛\U000e0100",
		"a\U000e0100":                `a\U000e0100`,
		"e\u0301 नमस्ते ก็ 漢字":        "e\u0301 नमस्ते ก็ 漢字",
		"👨\u200d👩\u200d👧 👍🏽\u200d 🇩🇪": "👨\u200d👩\u200d👧 👍🏽\u200d 🇩🇪",
		"blanks \u00a0\u3000":         "blanks \u00a0\u3000",
	} {
		if got := Safe(in); got != want {
			t.Errorf("Safe(%+q) = %+q, want %+q", in, got, want)
		}
	}
}

func TestOrdinary(t *testing.T) {
	for r := range rune(unicode.MaxRune) {
		if ordinary(r) && (r < 0x80 || !unicode.IsGraphic(r) || unicode.Is(unicode.M, r) || unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r)) {
			t.Errorf("%U is not", r)
		}
	}
}

func TestSafeLine(t *testing.T) {
	for in, want := range map[string]string{
		"a b":           "a b",
		"a\nb\tc\r\nd ": `a\nb\tc\r\nd `,
		"a\x1b[31m":     `a\x1b[31m`,
	} {
		if got := SafeLine(in); got != want {
			t.Errorf("SafeLine(%q) = %q, want %q", in, got, want)
		}
	}
}

// writeSafe writes text in pieces, of which each is overwritten after.
func writeSafe(t interface{ Fatal(...any) }, text string, sizes ...int) string {
	var b strings.Builder
	w := NewSafeWriter(&b)
	for c := range chunksOf(text, sizes...) {
		if n, err := w.Write(c.Data); n != len(c.Data) || err != nil {
			t.Fatal(n, err)
		}
		clear(c.Data)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestSafeProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := drawText(t)
		got := Safe(text)
		if other := writeSafe(t, text, drawSizes(t)...); other != got {
			t.Fatalf("pieces change the text:\n%+q\n%+q", got, other)
		}
		if again := Safe(got); again != got {
			t.Fatalf("not idempotent:\n%+q\n%+q", got, again)
		}
	})
}

type failingWriter struct{}

var errFull = errors.New("full")

func (failingWriter) Write([]byte) (int, error) { return 0, errFull }

func TestSafeWriterFails(t *testing.T) {
	w := NewSafeWriter(failingWriter{})
	if _, err := w.Write([]byte("abc")); !errors.Is(err, errFull) {
		t.Errorf("Write: %v", err)
	}
	if _, err := w.Write([]byte("\xe2")); err != nil {
		t.Errorf("Write of nothing yet: %v", err)
	}
	if err := w.Flush(); !errors.Is(err, errFull) {
		t.Errorf("Flush: %v", err)
	}
}

func FuzzSafe(f *testing.F) {
	for _, s := range fragments {
		f.Add(s+s, uint8(1))
	}
	f.Fuzz(func(t *testing.T, text string, at uint8) {
		got := Safe(text)
		if other := writeSafe(t, text, int(at), 1, 2); other != got {
			t.Errorf("divided at %d: %+q, not %+q", at, other, got)
		}
		for i, r := range got {
			if r == '\r' && strings.HasPrefix(got[i:], "\r\n") {
				continue
			}
			if r < ' ' && r != '\n' && r != '\t' || r >= 0x7F && r < 0xA0 || r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069' {
				t.Errorf("%+q is in %+q", r, got)
			}
		}
		if !utf8.ValidString(got) || strings.ContainsAny(SafeLine(text), "\r\n\t") {
			t.Errorf("%+q", got)
		}
	})
}

func BenchmarkSafeWriter(b *testing.B) {
	p := []byte(strings.Repeat("2026-11-21T15:14:00Z INFO  the quick brown fox jumps over the lazy dog\n", 1000))
	b.SetBytes(int64(len(p)))
	w := NewSafeWriter(discard{})
	for b.Loop() {
		_, _ = w.Write(p)
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
