package docker

import (
	"bytes"
	"testing"
)

func TestRuntimeWords(t *testing.T) {
	const id = "0123456789abcdef"
	for in, want := range map[string]struct{ stderr, words string }{
		"plain\n": {"plain\n", ""},
		"waiting on PID 3 in sandbox \"" + id + "\": EOF\n": {"", "waiting on PID 3 in sandbox \"" + id + "\": EOF\n"},
		"err\nin sandbox " + id + "\nmore":                  {"err\nmore", "in sandbox " + id + "\n"},
		"half a line":                                       {"half a line", ""},
	} {
		var stderr, words bytes.Buffer
		n, err := runtimeFilter{&stderr, id, &words}.Write([]byte(in))
		if n != len(in) || err != nil || stderr.String() != want.stderr || words.String() != want.words {
			t.Errorf("%q: %q, %q, %d, %v", in, &stderr, &words, n, err)
		}
	}
}
