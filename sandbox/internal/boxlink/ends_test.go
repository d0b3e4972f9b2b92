package boxlink

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"belljar/sandbox"
)

// A process has exactly the streams that it was started with: an init that hands over more or fewer files breaks the protocol,
// and none of them stays open.
func TestStreamsAreCounted(t *testing.T) {
	for name, c := range map[string]struct {
		start Start
		want  int
	}{
		"no stdin":            {Start{}, 2},
		"stdin":               {Start{Stdin: &bytes.Buffer{}}, 3},
		"a terminal":          {Start{TTY: &sandbox.TerminalSize{}}, 1},
		"a terminal's master": {Start{TTY: &sandbox.TerminalSize{}, Stdin: &bytes.Buffer{}}, 2},
	} {
		for n := range 5 {
			var files []*os.File
			for range n {
				file, err := os.Open(os.DevNull)
				if err != nil {
					t.Fatal(err)
				}
				files = append(files, file)
			}
			e, err := newEnds(&output{}, c.start, files)
			if n == c.want {
				if err != nil || e.outputs[0] == nil || (e.stdin != nil) != (c.start.Stdin != nil) || (e.outputs[1] != nil) != (c.start.TTY == nil) {
					t.Errorf("%s: %+v, %v", name, e, err)
				}
				e.close()
			} else if !errors.Is(err, errProtocol) {
				t.Errorf("%s: %d files are taken: %v", name, n, err)
			}
			for _, file := range files {
				if file.Close() == nil {
					t.Errorf("%s: one of %d files is still open", name, n)
				}
			}
		}
	}
}
