package view

import (
	"bytes"
	"fmt"
	"testing"
)

func BenchmarkScreen(b *testing.B) {
	plain := bytes.Repeat([]byte("the quick brown fox jumps over the lazy dog, and over it again\r\n"), 500)
	var colored, moving []byte
	for i := range 500 {
		colored = fmt.Appendf(colored, "\x1b[1;3%dmerror\x1b[0m\x1b[K: \x1b[38;5;%dmmain.go\x1b[m:%d: something is not right\r\n", i%8, i%256, i)
		moving = fmt.Appendf(moving, "\x1b[%d;%dH\x1b[3%d;4%dmcell %d\x1b[m\x1b[K", i%24+1, i*7%80+1, i%8, i*3%8, i)
	}
	for name, load := range map[string][]byte{
		"plain":    plain,
		"long":     bytes.Repeat([]byte("0123456789abcdef"), 4000),
		"colored":  colored,
		"moving":   moving,
		"progress": bytes.Repeat([]byte("\r[#########           ] 45% of many megabytes"), 500),
		"wide":     bytes.Repeat([]byte("日本語のテキスト、漢字とかな。\r\n"), 500),
		"corpus":   corpus(64 << 10),
	} {
		b.Run(name, func(b *testing.B) {
			s := newTestScreen(80, 24)
			b.SetBytes(int64(len(load)))
			for b.Loop() {
				_, _ = s.Write(load)
			}
		})
	}
}

func BenchmarkScreenShot(b *testing.B) {
	s := newTestScreen(80, 24)
	_, _ = s.Write(bytes.Repeat([]byte("\x1b[32mok\x1b[m  belljar/view  0.5s\r\n"), 2000))
	for b.Loop() {
		s.Shot(true)
	}
}
