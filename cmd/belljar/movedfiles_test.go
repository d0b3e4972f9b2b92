package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"belljar/sandbox"
)

// A file whose name no file can have here does not cost the others: a command chooses the
// names, and changes what is listed.
func TestSaveCollectedGoesOn(t *testing.T) {
	for name, c := range map[string]struct {
		paths []string
		say   string
	}{
		"a file and a directory": {[]string{"a", "a/b/c"}, `not saved: "a/b/c": `},
		"a directory and a file": {[]string{"a/b/c", "a"}, `not saved: "a": file exists`},
		"the same, masked":       {[]string{"[masked]", "[masked]"}, `not saved: "[masked]": file exists`},
		"too long":               {[]string{"first", strings.Repeat("x", 300)}, "file name too long"},
		"outside":                {[]string{"first", "../out"}, `not saved: "../out": it is outside the directory`},
		"nothing":                {[]string{"first", ""}, `not saved: "": it is outside the directory`},
		"the directory":          {[]string{"first", "."}, `not saved: ".": file exists`},
		"a NUL":                  {[]string{"first", "a\x00"}, "invalid argument"},
	} {
		t.Run(name, func(t *testing.T) {
			r, dir := &sandbox.Result{}, filepath.Join(t.TempDir(), "to")
			for _, path := range append(c.paths, "z") {
				r.Files = append(r.Files, sandbox.CollectedFile{Path: path, Content: []byte("x"), Mode: 0o600})
			}
			var said []string
			if err := saveCollected(dir, r, func(text string) { said = append(said, text) }); err != nil {
				t.Fatal(err)
			}
			if len(said) != 1 || !strings.Contains(said[0], c.say) {
				t.Errorf("said %q, want %q", said, c.say)
			}
			for _, path := range []string{c.paths[0], "z"} {
				if content, err := os.ReadFile(filepath.Join(dir, path)); string(content) != "x" {
					t.Errorf("%q is %q: %v", path, content, err)
				}
			}
			if out, _ := filepath.Glob(filepath.Dir(dir) + "/*"); len(out) != 1 {
				t.Errorf("outside: %v", out)
			}
		})
	}
}
