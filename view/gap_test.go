package view

import (
	"slices"
	"strings"
	"testing"

	"belljar/sandbox"
)

func TestViewGaps(t *testing.T) {
	chunk := func(missed int64, text string) sandbox.Chunk {
		return sandbox.Chunk{Missed: missed, Data: []byte(text)}
	}
	for name, c := range map[string]struct {
		view   sandbox.View
		chunks []sandbox.Chunk
		total  sandbox.Total
		want   sandbox.Text
	}{
		"in the middle": {
			chunks: []sandbox.Chunk{chunk(0, "a\n"), chunk(100, "z\n")}, total: sandbox.Total{Bytes: 104, Lines: 12},
			want: sandbox.Text{Text: "a\n[… 100 bytes, 10 lines left out …]\nz\n", OmittedBytes: 100, OmittedLines: 10},
		},
		"within a line": {
			chunks: []sandbox.Chunk{chunk(0, "ab"), chunk(1, "c")}, total: sandbox.Total{Bytes: 4},
			want: sandbox.Text{Text: "ab\n[… 1 byte left out …]\nc", OmittedBytes: 1},
		},
		"at the beginning": {
			chunks: []sandbox.Chunk{chunk(5, "z\n")}, total: sandbox.Total{Bytes: 7, Lines: 2},
			want: sandbox.Text{Text: "[… 5 bytes, 1 line left out …]\nz\n", OmittedBytes: 5, OmittedLines: 1},
		},
		"at the end": {
			chunks: []sandbox.Chunk{chunk(0, "a\n")}, total: sandbox.Total{Bytes: 7, Lines: 3},
			want: sandbox.Text{Text: "a\n[… 5 bytes, 2 lines left out …]", OmittedBytes: 5, OmittedLines: 2},
		},
		"at the end, and bounds": {
			view:   sandbox.View{Lines: 2},
			chunks: []sandbox.Chunk{chunk(0, "a\nb\nc\n")}, total: sandbox.Total{Bytes: 10, Lines: 5},
			want: sandbox.Text{Text: "a\n[… 2 bytes, 1 line left out …]\nc\n[… 4 bytes, 2 lines left out …]", OmittedBytes: 6, OmittedLines: 3},
		},
		"in the middle and at the end": {
			chunks: []sandbox.Chunk{chunk(0, "a\n"), chunk(2, "b\n")}, total: sandbox.Total{Bytes: 10, Lines: 5},
			want: sandbox.Text{Text: "a\n[… 8 bytes, 4 lines left out …]", OmittedBytes: 8, OmittedLines: 4},
		},
		"two": {
			chunks: []sandbox.Chunk{chunk(0, "a\n"), chunk(2, "b\n"), chunk(2, "c\n")}, total: sandbox.Total{Bytes: 10, Lines: 5},
			want: sandbox.Text{Text: "a\n[… 6 bytes, 3 lines left out …]\nc\n", OmittedBytes: 6, OmittedLines: 3},
		},
		"all": {
			total: sandbox.Total{Bytes: 10, Lines: 5},
			want:  sandbox.Text{Text: "[… 10 bytes, 5 lines left out …]", OmittedBytes: 10, OmittedLines: 5},
		},
		"within a character": {
			chunks: []sandbox.Chunk{chunk(0, "é"), chunk(1, "\x82\xac€")}, total: sandbox.Total{Bytes: 8},
			want: sandbox.Text{Text: "é\n[… 3 bytes left out …]\n€", OmittedBytes: 3},
		},
		"within UTF-16": {
			chunks: []sandbox.Chunk{chunk(0, "\xff\xfea\x00b\x00"), chunk(1, "\x00d\x00")}, total: sandbox.Total{Bytes: 10},
			want: sandbox.Text{Text: "ab\n[… 2 bytes left out …]\nd", OmittedBytes: 2, Charset: "utf-16le"},
		},
		"within a sequence": {
			chunks: []sandbox.Chunk{chunk(0, "a\x1b]0;evil"), chunk(1, "b")}, total: sandbox.Total{Bytes: 11},
			want: sandbox.Text{Text: "a\n[… 1 byte left out …]\nb", OmittedBytes: 1},
		},
		"data": {
			chunks: []sandbox.Chunk{chunk(0, "a\x00\x01\x02"), chunk(1, "b")}, total: sandbox.Total{Bytes: 11, Lines: 1},
			want: sandbox.Text{Text: "[binary data: 11 bytes]", OmittedBytes: 11, OmittedLines: 1, Binary: true, Charset: "-"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			switch c.want.Charset {
			case "":
				c.want.Charset = "utf-8"
			case "-":
				c.want.Charset = ""
			}
			if got := (Viewer{}).View(c.view, slices.Values(c.chunks), c.total); got != c.want {
				t.Errorf("\ngot  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

func TestViewBinary(t *testing.T) {
	text := strings.Repeat("0123456789abcde\n", 512) // two blocks
	data := strings.Repeat("\x00\x01\xfe\xff", 1024)
	want := sandbox.Text{Text: text + "[binary data: 4196 bytes]", OmittedBytes: 4196, OmittedLines: 1, Charset: "utf-8", Binary: true}
	for _, sizes := range [][]int{nil, {1}, {8191}, {8192}, {8193, 1, 1}, {4096, 4096, 4096}} {
		in := text + data + strings.Repeat("x", 99) + "\n"
		if got := viewOf(sandbox.View{}, in, sizes...); got != want {
			t.Errorf("chunks %v: got %.100q… omitting %d, %d", sizes, got.Text[len(text):], got.OmittedBytes, got.OmittedLines)
		}
	}
	if got := viewOf(sandbox.View{}, text+"a stray \x00\n").Text; got != text+"a stray \\x00\n" {
		t.Errorf("got %q", got[len(text):])
	}
	if got := viewOf(sandbox.View{}, "\x00").Text; got != `\x00` {
		t.Errorf("got %q", got)
	}
	if got, want := viewOf(sandbox.View{}, "\x7fELF\x00\x00").Text, "[binary data: 6 bytes]"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
