package view

import (
	"fmt"
	"strings"
	"testing"

	"belljar/sandbox"
)

// A screen keeps as many lines, and as much of their text, as it is told.
func TestScrollback(t *testing.T) {
	for name, test := range map[string]struct {
		view  sandbox.View
		lines int
		want  int
	}{
		"as usual":       {sandbox.View{}, 5000, 1000 + 3},
		"fewer":          {sandbox.View{Scrollback: 10}, 5000, 10 + 3},
		"all":            {sandbox.View{Scrollback: 300_000, ScrollbackBytes: 16 << 20}, 299_990, 299_990},
		"bytes":          {sandbox.View{Scrollback: 300_000, ScrollbackBytes: 60}, 5000, 10 + 3},
		"longer than it": {sandbox.View{Scrollback: 5, ScrollbackBytes: 1}, 100, 0 + 3},
	} {
		t.Run(name, func(t *testing.T) {
			s := Viewer{}.NewScreen(test.view, sandbox.TerminalSize{Columns: 20, Rows: 4})
			var all strings.Builder
			for i := range test.lines {
				fmt.Fprintf(&all, "%06d\r\n", i)
			}
			s.Write([]byte(all.String()))
			shot := s.Shot(true)
			if len(shot.Lines) != test.want || !strings.HasSuffix(shot.Text, fmt.Sprintf("%06d", test.lines-1)) {
				t.Errorf("%d lines, want %d", len(shot.Lines), test.want)
			}
			if shot := s.Shot(false); len(shot.Lines) != 3 {
				t.Errorf("%d lines without scrollback", len(shot.Lines))
			}
		})
	}
}

// Binary data after text is counted, not shown, wherever chunks are cut.
func TestBinaryAfterText(t *testing.T) {
	data := strings.Repeat("\x89\x00\x01ab\xff\x02", 100)
	for _, lines := range []int{1, 100, 5000} {
		text := strings.Repeat("a line, é and 你好\n", lines)
		for _, size := range []int{1, 7, 4096, 1 << 20} {
			var chunks []sandbox.Chunk
			for rest := []byte(text + data); len(rest) > 0; rest = rest[min(size, len(rest)):] {
				chunks = append(chunks, sandbox.Chunk{Data: rest[:min(size, len(rest))]})
			}
			got := Viewer{}.View(sandbox.View{}, func(yield func(sandbox.Chunk) bool) {
				for _, c := range chunks {
					if !yield(c) {
						return
					}
				}
			}, sandbox.Total{Bytes: int64(len(text) + len(data)), Lines: int64(lines)})
			if got.Text != text+"[binary data: 700 bytes]" || !got.Binary || got.OmittedBytes != 700 || got.OmittedLines != 0 {
				t.Errorf("%d lines in chunks of %d: …%.100q, %d bytes and %d lines omitted", lines, size, got.Text[max(0, len(got.Text)-100):], got.OmittedBytes, got.OmittedLines)
			}
		}
	}
}
