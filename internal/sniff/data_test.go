package sniff

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
)

func random(n int) []byte {
	p := make([]byte, n)
	rand.NewChaCha8([32]byte{2}).Read(p)
	return p
}

func TestDataAt(t *testing.T) {
	text := strings.Repeat("a line of text, é and 你好\n", 20)
	png := "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x01\x00\x00\x00\x01\x00\x08\x06\x00\x00\x00"
	for name, test := range map[string]struct {
		in   string
		want int
	}{
		"nothing":          {"", -1},
		"text":             {text, -1},
		"colors":           {strings.Repeat("\x1b[31mred\x1b[0m\b\b\r\a\n", 50), -1},
		"one NUL":          {text + "a\x00b" + text, -1},
		"NULs far apart":   {strings.Repeat("a name of a file, with its path\x00", 50), -1},
		"Latin-1":          {strings.Repeat("\xe9\xe8\xff\x80\x9f", 200), -1},
		"zeros":            {strings.Repeat("\x00", 100), 0},
		"zeros after text": {text + strings.Repeat("\x00", 100), len(text)},
		"random":           {string(random(4096)), 0},
		"random after":     {text + string(random(4096)), len(text)},
		"little after":     {text + string(random(100)), len(text)},
		"a picture after":  {text + png, len(text)},
		"after a NUL":      {"a\x00b" + text + string(random(400)), 3 + len(text)},
		"within a line":    {strings.Repeat("x", 1000) + strings.Repeat("\x00", 100), 1000},
	} {
		if got := DataAt([]byte(test.in)); got != test.want {
			t.Errorf("%s: at %d, want %d", name, got, test.want)
		}
	}
}

func FuzzHasLow(f *testing.F) {
	f.Add([]byte("text of more than eight bytes\x06"))
	f.Add([]byte("\x07\x08\x80\xff\x7f\x00\x01\x87"))
	f.Fuzz(func(t *testing.T, p []byte) {
		want := bytes.ContainsFunc(p, func(r rune) bool { return r < 7 })
		if got := hasLow(p); got != want {
			t.Errorf("%v of %q", got, p)
		}
	})
}
