package view

import (
	"bytes"
	"fmt"
	"iter"
	"math"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"belljar/sandbox"
)

// fragments of what commands and attackers write.
var fragments = []string{
	"a", "word ", "\n", "\n", "\r\n", "\r", "\t", "\b", "é", "漢字", "😀", "👨\u200d👩", "e\u0301", "\u0301", "\ufe0f",
	"\x1b[31m", "\x1b[0m", "\x1b[K", "\x1b[2K", "\x1b[5G", "\x1b[3C", "\x1b[2D", "\x1b[999C", "\x1b]0;title\x07", "\x1b]8;;x\x1b\\",
	"\x1b]52;c;x", "\x1bP", "\x1b\\", "\x1b_", "\x1b", "\x1b[", "\u009b1m", "\x9b", "\x9d", "\u009c", "\x18", "\x07", "\x7f",
	"\u202e", "\u200b", "\ufeff", "\xff", "\xc3", "\xe2\x82", "\x80", "[… 5 bytes left out …]", "\\x1b", "\x00", "\x01", "h\x00", strings.Repeat("text\n", 900), "\xff\xfe", "\x85\x40",
}

func drawText(t *rapid.T) string {
	var b strings.Builder
	size := rapid.SampledFrom([]int{0, 10, 10, 100, 100, 1000, 9000}).Draw(t, "size")
	for b.Len() < size {
		f := rapid.SampledFrom(fragments).Draw(t, "fragment")
		times := rapid.SampledFrom([]int{1, 1, 1, 1, 1, 3, 100, 1500}).Draw(t, "times")
		b.WriteString(strings.Repeat(f, min(times, 1+9000/len(f))))
	}
	return b.String()
}

func drawView(t *rapid.T) sandbox.View {
	bound := rapid.SampledFrom([]int64{0, 0, 1, 2, 3, 5, 10, 40, 100, 1000, 5000})
	return sandbox.View{
		Bytes: bound.Draw(t, "bytes"), Lines: bound.Draw(t, "lines"), LineChars: bound.Draw(t, "chars"),
		TailOnly: rapid.Bool().Draw(t, "tail"),
		Charset:  rapid.SampledFrom([]string{"", "utf-8", "windows-1252", "shift_jis", "utf-16be", "iso-2022-jp", "gb18030"}).Draw(t, "charset"),
	}
}

func drawSizes(t *rapid.T) []int {
	return rapid.SliceOfN(rapid.SampledFrom([]int{1, 2, 3, 7, 100, 4095, 4096, 4097}), 0, 20).Draw(t, "sizes")
}

// gapped leaves out a part of the text, and then its end.
func gapped(text string, from, to, end int, sizes []int) iter.Seq[sandbox.Chunk] {
	return func(yield func(sandbox.Chunk) bool) {
		for c := range chunksOf(text[:from], sizes...) {
			if !yield(c) {
				return
			}
		}
		missed := int64(to - from)
		for c := range chunksOf(text[to:end], sizes...) {
			c.Offset += int64(to)
			c.Missed, missed = missed, 0
			if !yield(c) {
				return
			}
		}
	}
}

func TestViewProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, v := drawText(t), drawView(t)
		total := totalOf(text)
		from := rapid.IntRange(0, len(text)).Draw(t, "from")
		to := rapid.IntRange(from, len(text)).Draw(t, "to")
		end := rapid.IntRange(to, len(text)).Draw(t, "end")
		if rapid.Bool().Draw(t, "whole") {
			from, to, end = len(text), len(text), len(text)
		}
		view := func(sizes []int) sandbox.Text { return Viewer{}.View(v, gapped(text, from, to, end, sizes), total) }

		got := view(nil)
		if other := view(drawSizes(t)); other != got {
			t.Fatalf("chunks change the view:\n%+v\n%+v", got, other)
		}
		if err := validText(got, v, total); err != nil {
			t.Fatal(err)
		}
		if from == len(text) && v.Bytes == 0 && v.Lines == 0 && v.LineChars == 0 && !got.Binary && (got.OmittedBytes != 0 || got.OmittedLines != 0) {
			t.Fatalf("something is left out: %+v", got)
		}
	})
}

// validText holds for all views.
func validText(got sandbox.Text, v sandbox.View, total sandbox.Total) error {
	switch {
	case !utf8.ValidString(got.Text):
		return fmt.Errorf("invalid UTF-8: %q", got.Text)
	case strings.ContainsFunc(got.Text, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r >= 0x7F && r < 0xA0 }):
		return fmt.Errorf("a control character: %q", got.Text)
	case Safe(got.Text) != got.Text:
		return fmt.Errorf("not safe: %q", got.Text)
	case got.OmittedBytes < 0 || got.OmittedBytes > total.Bytes || got.OmittedLines < 0 || got.OmittedLines > total.Lines:
		return fmt.Errorf("more is left out than there was: %+v of %+v", got, total)
	case v.Bytes > 0 && int64(len(got.Text)) > v.Bytes+200:
		return fmt.Errorf("%d bytes of text, bound is %d", len(got.Text), v.Bytes)
	case v.Lines > 0 && int64(strings.Count(got.Text, "\n")) > v.Lines+3:
		return fmt.Errorf("%d lines of text, bound is %d", strings.Count(got.Text, "\n"), v.Lines)
	}
	return nil
}

var markPattern = regexp.MustCompile(`\n?\[… (\d+) bytes?(?:, (\d+) lines?)? left out …\](\n?)`)

// TestViewExact checks a view in parts: the shown and omitted bytes are the
// whole, byte by byte.
func TestViewExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "bc", "é", "漢", "😀", "\n", "\n\n", "word\t", strings.Repeat("x", 50), strings.Repeat("line\n", 1500)}), 0, 60).Draw(t, "text"), "")
		v := drawView(t)
		v.LineChars, v.Charset = 0, "utf-8"
		got := viewOf(v, text, drawSizes(t)...)
		if got.OmittedBytes == 0 {
			if got.Text != text {
				t.Fatalf("nothing is left out of %q: %q", text, got.Text)
			}
			return
		}
		if v.Bytes >= int64(len(text)) && v.Lines > int64(strings.Count(text, "\n")) {
			t.Fatalf("it would fit: %q", got.Text)
		}
		m := markPattern.FindStringSubmatchIndex(got.Text)
		if m == nil {
			t.Fatalf("no mark: %q", got.Text)
		}
		tail := got.Text[m[1]:]
		head := text[:len(text)-int(got.OmittedBytes)-len(tail)]
		if shown := got.Text[:m[0]]; shown != head && shown+"\n" != head || !strings.HasSuffix(text, tail) {
			t.Fatalf("%q and %q are not the ends of %q", head, tail, text)
		}
		lines := int64(strings.Count(text[len(head):len(text)-len(tail)], "\n"))
		if got.OmittedLines != lines || !strings.HasPrefix(strings.TrimPrefix(got.Text[m[0]:], "\n"), omittedMark(weight{got.OmittedBytes, lines})) {
			t.Fatalf("%d lines are left out: %+v", lines, got)
		}
		bytesBound, linesBound := v.Bytes, v.Lines
		if bytesBound == 0 {
			bytesBound = math.MaxInt64
		}
		if linesBound == 0 {
			linesBound = math.MaxInt64
		}
		shown := int64(len(head) + len(tail))
		shownLines := linesOf(head) + linesOf(tail)
		if shown > bytesBound || shownLines > linesBound {
			t.Fatalf("%d bytes, %d lines shown, bounds are %d, %d", shown, shownLines, bytesBound, linesBound)
		}
		// A rune, and a single line end, may not fit: nothing else is wasted.
		if shown < bytesBound-8 && shownLines < linesBound {
			t.Fatalf("%d bytes, %d lines shown, bounds are %d, %d: %q", shown, shownLines, bytesBound, linesBound, got.Text)
		}
	})
}

func linesOf(text string) int64 {
	n := strings.Count(text, "\n")
	if text != "" && !strings.HasSuffix(text, "\n") {
		n++
	}
	return int64(n)
}

// TestViewLineChars: a line's mark has the number of omitted characters.
func TestViewLineChars(t *testing.T) {
	inLine := regexp.MustCompile(`\[… (\d+) characters? left out …\]`)
	rapid.Check(t, func(t *rapid.T) {
		line := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "é", "漢", "\x1b[1m", "word ", "\x1b]0;t\x07"}), 1, 300).Draw(t, "line"), "")
		plainLine := viewOf(sandbox.View{Charset: "utf-8"}, line).Text
		v := sandbox.View{LineChars: rapid.Int64Range(1, 400).Draw(t, "chars"), Charset: "utf-8"}
		got := viewOf(v, line+"\n", drawSizes(t)...)
		chars := int64(utf8.RuneCountInString(plainLine))
		if chars <= v.LineChars {
			if got.Text != plainLine+"\n" || got.OmittedBytes != 0 {
				t.Fatalf("it fits: %+v", got)
			}
			return
		}
		m := inLine.FindStringSubmatch(got.Text)
		if m == nil || m[1] != strconv.FormatInt(chars-v.LineChars, 10) {
			t.Fatalf("%d of %d characters: %q", v.LineChars, chars, got.Text)
		}
		before, after, _ := strings.Cut(got.Text, m[0])
		if !strings.HasPrefix(plainLine, before) || !strings.HasSuffix(plainLine+"\n", after) {
			t.Fatalf("%q is not of %q", got.Text, plainLine)
		}
		left := int64(len(plainLine) - len(before) - len(strings.TrimSuffix(after, "\n")))
		if escapes := int64(len(line) - len(plainLine)); got.OmittedBytes < left || got.OmittedBytes > left+escapes {
			t.Fatalf("%d bytes left out, not %d", got.OmittedBytes, left)
		}
	})
}

// TestViewIsConstant: a stream that never ends a line, or only redraws it, needs
// memory only up to its bounds.
func TestViewIsConstant(t *testing.T) {
	streams := map[string]string{
		"one line":   strings.Repeat("x", 1<<16),
		"redraws":    strings.Repeat("downloading 10%\r", 1<<12),
		"erasing":    strings.Repeat("\x1b[999C\x1b[2Kx\r", 1<<9),
		"an OSC":     "\x1b]" + strings.Repeat("x", 1<<16),
		"marks":      strings.Repeat("\u0301", 1<<15),
		"empty ones": strings.Repeat("\x1b[m\n", 1<<14),
		"Latin-1":    strings.Repeat("\xe9\xe8", 1<<15),
		"characters": strings.Repeat("日", 1<<14),
		"parameters": "\x1b[" + strings.Repeat("1;", 1<<15),
	}
	for name, piece := range streams {
		t.Run(name, func(t *testing.T) {
			v := sandbox.View{Bytes: 1 << 12}
			before := heap()
			k := newKeeper(v)
			s := newSource(v, newLineReader(k, 0))
			for range 20 {
				s.write([]byte(piece))
			}
			if held := heap() - before; held > 640<<10 {
				t.Errorf("%d bytes are held", held)
			}
			runtime.KeepAlive(s)
		})
	}
	runtime.KeepAlive(streams)
}

func FuzzView(f *testing.F) {
	for _, s := range fragments {
		f.Add([]byte(strings.Repeat(s, 3)), uint16(3), uint16(1), uint16(7), uint16(2))
	}
	f.Add([]byte("\xff\xfea\x00"), uint16(0), uint16(0), uint16(0), uint16(1))
	f.Fuzz(func(t *testing.T, p []byte, size, lines, chars, at uint16) {
		v := sandbox.View{Bytes: int64(size), Lines: int64(lines), LineChars: int64(chars)}
		text := string(p)
		got := viewOf(v, text)
		if other := viewOf(v, text, int(at), 1, 2); other != got {
			t.Errorf("divided at %d:\n%+v\n%+v", at, got, other)
		}
		if err := validText(got, v, totalOf(text)); err != nil {
			t.Error(err)
		}
	})
}

func BenchmarkView(b *testing.B) {
	line := "2026-11-21T15:14:00Z INFO  the quick brown fox jumps over the lazy dog, again and again\n"
	for name, text := range map[string]string{
		"plain":    strings.Repeat(line, 1<<16/len(line)),
		"CRLF":     strings.ReplaceAll(strings.Repeat(line, 1<<16/len(line)), "\n", "\r\n"),
		"colored":  strings.Repeat("\x1b[32mINFO\x1b[0m "+line, 1<<16/len(line)),
		"chinese":  strings.Repeat(chinese, 1<<16/len(chinese)),
		"redraws":  strings.Repeat("downloading 10% [=====>        ]\r", 1<<11),
		"one line": strings.Repeat("x", 1<<16),
		"latin1":   strings.Repeat("Gr\xf6\xdfe der Datei \xfcbersteigt die zul\xe4ssige L\xe4nge.\n", 1<<10),
	} {
		b.Run(name, func(b *testing.B) {
			p := []byte(text)
			b.SetBytes(int64(len(p)))
			b.ReportAllocs()
			chunks := func(yield func(sandbox.Chunk) bool) {
				for i := 0; i < b.N && yield(sandbox.Chunk{Data: p}); i++ {
				}
			}
			n := int64(b.N)
			Viewer{}.View(sandbox.View{Bytes: 32 << 10, Lines: 1000, LineChars: 2000}, chunks,
				sandbox.Total{Bytes: n * int64(len(p)), Lines: n * int64(bytes.Count(p, lineEnd))})
		})
	}
}
