package main

import (
	"io"
	"os"
	"testing"
	"testing/iotest"

	"belljar/sandbox"
)

func TestParseSize(t *testing.T) {
	for text, want := range map[string]sandbox.TerminalSize{"120x40": {Columns: 120, Rows: 40}, "1x1": {Columns: 1, Rows: 1}, "500x200": {Columns: 500, Rows: 200}} {
		if got, err := parseSize(text); err != nil || *got != want {
			t.Errorf("%q: %v, error %v", text, got, err)
		}
	}
	for _, wrong := range []string{"x", "120", "120x", "x40", "0x10", "10x0", "501x10", "10x201", "-1x5", "80x24x1", "80 x 24", "0x10x10"} {
		if got, err := parseSize(wrong); err == nil {
			t.Errorf("%q is %v", wrong, got)
		}
	}
	if got, err := parseSize(""); got != nil || err != nil {
		t.Errorf("%v, error %v", got, err)
	}
}

// At the end of what it types there is a Ctrl-D, and one more in an unfinished line.
func TestTypist(t *testing.T) {
	for in, want := range map[string]string{"": "\x04", "a\n": "a\n\x04", "a\r": "a\r\x04", "a\nb": "a\nb\x04\x04"} {
		for name, slow := range map[string]func(io.Reader) io.Reader{"at once": func(r io.Reader) io.Reader { return r }, "a byte at a time": iotest.OneByteReader} {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			io.WriteString(w, in)
			w.Close()
			got, err := io.ReadAll(slow(&typist{File: r}))
			if string(got) != want || err != nil {
				t.Errorf("%q %s: %q, error %v", in, name, got, err)
			}
			r.Close()
		}
	}
}
