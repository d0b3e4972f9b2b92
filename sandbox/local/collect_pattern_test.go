package local

import (
	"path"
	"strings"
	"testing"

	"belljar/sandbox"

	"pgregory.net/rapid"
)

func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, fits, not string // names
		search             search
	}{
		{"a.txt", "a.txt", "b.txt d/a.txt", search{".", "a.txt", 0}},
		{"out/a.txt", "out/a.txt", "out out/b a.txt", search{"out", "out/a.txt", 0}},
		{"./out//*.log", "out/a.log out/.log", "out/a.txt out/d/a.log a.log", search{"out", "out", 1}},
		{"*/x", "a/x b/x", "x a/b/x", search{".", ".", 2}},
		{"**", "a a/b a/b/c", "", search{".", ".", -1}},
		{"a/**/z", "a/z a/b/z a/b/c/z", "z a b/z a/b", search{"a", "a", -1}},
		{"**/*.go", "x.go a/x.go a/b/x.go", "a.go/x", search{".", ".", -1}},
		{"**/a/**/b/**", "a/b a/b/c x/a/y/b/z", "a b b/a", search{".", ".", -1}},
		{`a\*b`, "a*b", "axb", search{".", ".", 1}},
		{"[a-c]/?", "a/x c/y", "d/x a/xy", search{".", ".", 2}},
	} {
		p, err := parsePattern(c.pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range strings.Fields(c.fits) {
			if !p.matches(strings.Split(name, "/")) {
				t.Errorf("%q does not fit %q", name, c.pattern)
			}
		}
		for _, name := range strings.Fields(c.not) {
			if p.matches(strings.Split(name, "/")) {
				t.Errorf("%q fits %q", name, c.pattern)
			}
		}
		if got := p.search(); got != c.search {
			t.Errorf("%q is searched for in %+v", c.pattern, got)
		}
	}
	for _, wrong := range []string{"", ".", "/", "/etc/passwd", "..", "a/../b", "a/..", "[", "a\x00", "\xff", "a**", strings.Repeat("a/", 33), strings.Repeat("a", 4097)} {
		if _, err := parsePattern(wrong); sandbox.CauseOf(err) != sandbox.CauseInvalid {
			t.Errorf("%.20q: %v", wrong, err)
		}
	}
}

// Without "**", a pattern is that of path.Match, and what it fits is found where it is
// searched for.
func TestPatternsAsPathMatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.RuneFrom([]rune(`ab/*?[]-\`)), 1, 12, -1).Draw(t, "pattern")
		name := rapid.StringMatching(`[ab]{1,2}(/[ab]{1,2}){0,3}`).Draw(t, "name")
		p, err := parsePattern(text)
		if err != nil || strings.Contains(text, "**") {
			return
		}
		want, err := path.Match(path.Clean(text), name)
		got := p.matches(strings.Split(name, "/"))
		if err != nil && got || err == nil && got != want {
			t.Fatalf("%q fits %q: %t, want %t, %v", name, text, got, want, err)
		}
		if s := p.search(); got {
			below, ok := name, s.path == "."
			if !ok {
				below, ok = strings.CutPrefix(name, s.path)
			}
			if depth := strings.Count(strings.Trim(below, "/"), "/"); !ok || s.depth > 0 && depth >= s.depth {
				t.Fatalf("%q is searched for in %+v", name, s)
			}
		}
	})
}
