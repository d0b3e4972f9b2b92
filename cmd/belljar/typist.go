package main

import (
	"errors"
	"io"
	"os"
	"strconv"
	"strings"

	"belljar/sandbox"
)

// parseSize is a terminal's size, COLUMNSxROWS; nil for "".
func parseSize(text string) (*sandbox.TerminalSize, error) {
	if text == "" {
		return nil, nil
	}
	columns, rows, _ := strings.Cut(text, "x")
	c, err1 := strconv.Atoi(columns)
	r, err2 := strconv.Atoi(rows)
	size := sandbox.TerminalSize{Columns: c, Rows: r}
	if errors.Join(err1, err2) != nil || size != size.Bounded() {
		return nil, usagef("--tty-size %q: write COLUMNSxROWS, from 1x1 to 500x200, such as 120x40", text)
	}
	return &size, nil
}

// typist types a file into a terminal. At its end it types Ctrl-D, as script(1) does: a
// terminal knows no other end of input. After an unfinished line, the first Ctrl-D only
// sends that line.
type typist struct {
	*os.File
	inLine bool
	ended  bool
	rest   string
}

func (t *typist) Read(p []byte) (int, error) {
	if !t.ended {
		n, err := t.File.Read(p)
		if n > 0 {
			t.inLine = p[n-1] != '\n' && p[n-1] != '\r'
		}
		if n > 0 || err == nil || !errors.Is(err, io.EOF) {
			return n, err
		}
		t.ended, t.rest = true, "\x04"
		if t.inLine {
			t.rest = "\x04\x04"
		}
	}
	n := copy(p, t.rest)
	if t.rest = t.rest[n:]; n == 0 {
		return 0, io.EOF
	}
	return n, nil
}
