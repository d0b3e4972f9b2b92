package local_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf16"

	"belljar/sandbox"
	"belljar/sandbox/sandboxtest"
	"belljar/view"
)

func utf16le(text string) (out string) {
	out = "\xff\xfe"
	for _, c := range utf16.Encode([]rune(text)) {
		out += string([]byte{byte(c), byte(c >> 8)})
	}
	return out
}

// A view joins what no mask of bytes sees: it is masked once more.
func TestViewsAreMasked(t *testing.T) {
	const value = "sk-abcdef0123456789"
	bold := strings.ReplaceAll(value, "abc", "\x1b[1mabc\x1b[0m")
	filler := strings.Repeat("filler\n", 100)
	for name, test := range map[string]struct {
		out, want string // "" is: whatever has no part of it
		bounds    sandbox.View
	}{
		"highlighted":       {"key " + bold + "\n", "key ***\n", sandbox.View{}},
		"UTF-16":            {utf16le("key " + value + "\n"), "key ***\n", sandbox.View{}},
		"backspace":         {"sk-abcdefX\b0123456789\n", "***\n", sandbox.View{}},
		"redrawn":           {"XXXabcdef0123456789\rsk-\n", "***\n", sandbox.View{}},
		"none":              {"\x1b[1mkey\x1b[0m\n", "key\n", sandbox.View{}},
		"cut at the head":   {strings.Repeat("x", 40) + bold + filler, "", sandbox.View{Bytes: 100}},
		"cut at the tail":   {filler + bold + strings.Repeat("x", 40), "", sandbox.View{Bytes: 100}},
		"cut within a line": {strings.Repeat("x", 35) + bold + strings.Repeat("x", 100) + bold + strings.Repeat("x", 35), "", sandbox.View{LineChars: 100}},
	} {
		for _, mode := range []sandbox.ViewMode{sandbox.ViewSeparate, sandbox.ViewMerged} {
			l := newLocal(playing(func(p *sandboxtest.Proc) int { io.WriteString(p.Stdout, test.out); return 0 }))
			l.Viewer = view.Viewer{}
			l.Profiles["default"] = granting(t, value, "API_KEY")
			c := command()
			c.View = test.bounds
			c.View.Mode = mode
			r, err := sandbox.Run(t.Context(), l, c)
			if err != nil {
				t.Fatal(err)
			}
			text := r.Views.Stdout
			if mode == sandbox.ViewMerged {
				text = r.Views.Merged
			}
			masked := strings.Count(text.Text, "***")
			for i := range len(value) - 7 {
				if strings.Contains(text.Text, value[i:i+8]) {
					t.Errorf("%s: %q of it is in %q", name, value[i:i+8], text.Text)
				}
			}
			if test.want == "" && (masked == 0 || text.OmittedBytes == 0) || test.want != "" && text.Text != test.want || r.Masked != masked {
				t.Errorf("%s: %q, %d omitted, masked %d times", name, text.Text, text.OmittedBytes, r.Masked)
			}
		}
	}
}

// Of a secret that comes bit by bit no live view has a part, and what turns out to
// be none is shown in the end.
func TestLiveViewsAreMasked(t *testing.T) {
	const value = "sk-abcdef0123456789"
	for out, want := range map[string]string{"key \x1b[1msk-abc\x1b[0mdef01": "key sk-abcdef01", "key \x1b[1msk-abc\x1b[0mdef0123456789\n": "key ***\n"} {
		synctest.Test(t, func(t *testing.T) {
			l := newLocal(playing(func(p *sandboxtest.Proc) int {
				for _, b := range []byte(out) {
					p.Stdout.Write([]byte{b})
					p.Sleep(3 * time.Second)
				}
				return 0
			}))
			l.Viewer = view.Viewer{}
			l.Profiles["default"] = granting(t, value, "API_KEY")
			c := command()
			c.Live, c.View = sandbox.LiveView, sandbox.View{Bytes: 1000, Lines: 10, LineChars: 100}
			x, err := l.Start(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			var views []string
			for e := range x.Events() {
				if e.Type == sandbox.EventView {
					views = append(views, string(e.Data))
				}
			}
			if len(views) == 0 || views[len(views)-1] != want {
				t.Fatalf("%q", views)
			}
			for _, v := range views[:len(views)-1] {
				if v != "" && strings.Contains(v, "s") {
					t.Errorf("shown: %q", fmt.Sprint(views))
				}
			}
		})
	}
}
