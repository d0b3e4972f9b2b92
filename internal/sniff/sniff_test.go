package sniff

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf16"

	"pgregory.net/rapid"
)

// wide is text in UTF-16.
func wide(text string, little bool) string {
	var b strings.Builder
	for _, u := range utf16.Encode([]rune(text)) {
		if little {
			b.Write([]byte{byte(u), byte(u >> 8)})
		} else {
			b.Write([]byte{byte(u >> 8), byte(u)})
		}
	}
	return b.String()
}

func TestSniffer(t *testing.T) {
	block := strings.Repeat("sixteen letters\n", SniffBytes/16)
	for name, c := range map[string]struct {
		in       string
		declared string
		binary   bool
		encoding string
	}{
		"nothing":             {},
		"text":                {in: "hello\n"},
		"colors and redraws":  {in: strings.Repeat("\x1b[31m\r\b\t\a\f", 100)},
		"UTF-8":               {in: "€\n"},
		"Latin-1":             {in: "\xe9\xe8\xff\n"},
		"a NUL":               {in: "hello\x00world", binary: true},
		"ELF":                 {in: "\x7fELF\x02\x01\x01\x00", binary: true},
		"names with NULs":     {in: "./a\x00./bc\x00", binary: true},
		"few controls":        {in: "\x01\x02\x03"},
		"many controls":       {in: strings.Repeat("\x01\x02a", 50), binary: true},
		"a NUL later":         {in: block + "hello\x00world"},
		"NULs later":          {in: block + strings.Repeat("\x00", laterNULs), binary: true},
		"turned, then text":   {in: block + strings.Repeat("\x00", SniffBytes) + block, binary: true},
		"NULs in two blocks":  {in: block + strings.Repeat("a", SniffBytes-40) + strings.Repeat("\x00", 80)},
		"controls later":      {in: block + strings.Repeat("\x01", laterControls+1), binary: true},
		"UTF-16LE":            {in: wide("hello\n", true), encoding: "utf-16le"},
		"UTF-16BE":            {in: wide("hello\n", false), encoding: "utf-16be"},
		"UTF-16LE, BOM":       {in: "\xff\xfe" + wide("中国", true), encoding: "utf-16le"},
		"UTF-16BE, BOM":       {in: "\xfe\xff" + wide("中国", false), encoding: "utf-16be"},
		"UTF-16LE, declared":  {in: wide("中国\x00", true), declared: "UTF-16", encoding: "utf-16le"},
		"UTF-16LE, Russian":   {in: wide("Не найден: файл.txt\n", true), encoding: "utf-16le"},
		"UTF-16LE, then data": {in: wide(block, true) + strings.Repeat("\x00", 2*laterNULs), binary: true, encoding: "utf-16le"},
		"UTF-16BE, long":      {in: wide(block+block, false), encoding: "utf-16be"},
		"UTF-32LE":            {in: "h\x00\x00\x00i\x00\x00\x00", encoding: "utf-32le"},
		"UTF-32BE, BOM":       {in: "\x00\x00\xfe\xff\x00\x01\xf6\x00", encoding: "utf-32be"},
		"16-bit numbers":      {in: "\x01\x00\x02\x00\x03\x00\x80\x00", binary: true},
		"half a character":    {in: "\x00"},
	} {
		s := Sniffer{Charset: c.declared}
		s.Write([]byte(c.in))
		if s.Binary() != c.binary || !c.binary && s.Encoding() != c.encoding {
			t.Errorf("%s: Binary() = %t, Encoding() = %q", name, s.Binary(), s.Encoding())
		}
	}
}

func TestSnifferChunks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.SampledFrom([]string{"a", "\n", "\x00", "\x01", "\xe9", "h\x00", "\x00h", "h\x00\x00\x00", "\xff\xfe", strings.Repeat("text\n", 500), strings.Repeat("t\x00", 2000), strings.Repeat("\x00", 70), strings.Repeat("\x02", 500)})
		in := []byte(strings.Join(rapid.SliceOfN(piece, 0, 12).Draw(t, "in"), ""))
		var whole, parts Sniffer
		whole.Write(in)
		for rest := in; len(rest) > 0; {
			n := min(len(rest), rapid.SampledFrom([]int{1, 2, 3, 63, 4095, 4096, 4097}).Draw(t, "size"))
			parts.Write(rest[:n])
			parts.Binary()
			parts.Encoding()
			rest = rest[n:]
		}
		if whole != parts {
			t.Fatalf("%d bytes:\n%+v\n%+v", len(in), whole, parts)
		}
	})
}

func TestSnifferGap(t *testing.T) {
	var s Sniffer
	s.Write([]byte("text"))
	s.Gap()
	s.Write([]byte("a stray \x00"))
	if s.Binary() {
		t.Error("it is text")
	}
	s.Gap()
	s.Write(bytes.Repeat([]byte{0}, laterNULs))
	s.Gap()
	if !s.Binary() {
		t.Error("it turned")
	}
}

func BenchmarkSniffer(b *testing.B) {
	p := []byte(strings.Repeat("the quick brown fox jumps over the lazy dog\n", 1000))
	b.SetBytes(int64(len(p)))
	var s Sniffer
	for b.Loop() {
		s.Write(p)
	}
}
