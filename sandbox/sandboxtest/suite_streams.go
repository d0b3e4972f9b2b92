package sandboxtest

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"strings"
	"testing"

	"belljar/sandbox"
)

var statusTests = map[string]func(*testing.T, *fixture){
	"exit status is passed on unchanged": func(t *testing.T, f *fixture) {
		box := f.create(t)
		for _, status := range []int{0, 1, 2, 126, 127, 143, 255} {
			f.run(t, box, fmt.Sprintf("exit %d", status), status)
		}
	},
	"a process that kills itself has status 137": func(t *testing.T, f *fixture) {
		f.run(t, f.create(t), scriptKillSelf, 137)
	},
	"closing the streams does not end the process": func(t *testing.T, f *fixture) {
		f.run(t, f.create(t), scriptClosed, 9)
	},
	"short commands keep their output": func(t *testing.T, f *fixture) { // moby#29285
		box := f.create(t)
		for range 20 {
			wantText(t, "stdout", f.run(t, box, scriptMarker, 0).stdout, "marker\n")
		}
	},
}

var streamTests = map[string]func(*testing.T, *fixture){
	"streams are byte-exact and kept apart": func(t *testing.T, f *fixture) {
		p := f.run(t, f.create(t), scriptBinary, 0)
		wantText(t, "stdout", p.stdout, "a\x00\xff\xfeb\n")
		wantText(t, "stderr", p.stderr, "\x01\x00e\n")
	},
	"a line of 1 MiB arrives completely": func(t *testing.T, f *fixture) {
		p := f.run(t, f.create(t), scriptLongLine, 0)
		wantText(t, "stdout", p.stdout, strings.Repeat("x", 1<<20)+"end\n")
	},
	"alternating streams arrive in order, one write at a time": func(t *testing.T, f *fixture) {
		p := f.run(t, f.create(t), scriptInterleave, 0)
		var out, err strings.Builder
		for i := range 500 {
			fmt.Fprintf(&out, "o%d\n", i)
			fmt.Fprintf(&err, "e%d\n", i)
		}
		wantText(t, "stdout", p.stdout, out.String())
		wantText(t, "stderr", p.stderr, err.String())
	},
}

var inputTests = map[string]func(*testing.T, *fixture){
	"stdin is read to its end": func(t *testing.T, f *fixture) {
		input := make([]byte, 300_000)
		rand.Read(input)
		p := f.run(t, f.create(t), scriptCat, 0, func(x *sandbox.Exec) { x.Stdin = bytes.NewReader(input) })
		wantText(t, "stdout", p.stdout, string(input))
	},
	"stdin is streamed": func(t *testing.T, f *fixture) {
		r, w := io.Pipe()
		defer w.Close()
		p := f.exec(t, f.create(t), scriptCat, func(x *sandbox.Exec) { x.Stdin = r })
		for _, line := range []string{"one\n", "two\n"} {
			io.WriteString(w, line)
			p.stdout.await(f.ctx, line)
		}
		w.Close()
		if status, err := p.Wait(f.ctx); status != 0 || err != nil {
			t.Errorf("status %d, error %v", status, err)
		}
	},
	"no stdin is empty": func(t *testing.T, f *fixture) {
		wantText(t, "stdout", f.run(t, f.create(t), scriptCat, 0).stdout, "")
	},
	"a process need not read its stdin": func(t *testing.T, f *fixture) {
		r, w := io.Pipe()
		defer w.Close()
		f.run(t, f.create(t), "exit 3", 3, func(x *sandbox.Exec) { x.Stdin = r })
	},
	"environment is exact": func(t *testing.T, f *fixture) {
		quotes, lines, unicode := `'"\$HOME`+"`id`"+`$(id) %s\n`, "a\nb\n\nc=d\n", "\u00fc\u4e16\U0001f980\u202e"
		p := f.run(t, f.create(t), scriptEnv, 0, func(x *sandbox.Exec) {
			x.Env = append(x.Env, "QUOTES="+quotes, "NEWLINES="+lines, "UNICODE="+unicode, "EMPTY=")
		})
		wantText(t, "variables", p.stdout, strings.Join([]string{quotes, lines, unicode, "", "set", "unset", ""}, "\x00"))
	},
	"directory and user are as asked": func(t *testing.T, f *fixture) {
		box := f.create(t)
		wantText(t, "in the working directory", f.run(t, box, scriptWhere, 0).stdout, "/work\n65534\n65534\n")
		wantText(t, "elsewhere", f.run(t, box, scriptWhere, 0, func(x *sandbox.Exec) { x.Dir = "/tmp" }).stdout, "/tmp\n65534\n65534\n")
	},
}

func wantText(t *testing.T, what string, got *recorder, want string) {
	t.Helper()
	text := got.String()
	if text == want {
		return
	}
	at := 0
	for at < min(len(text), len(want)) && text[at] == want[at] {
		at++
	}
	t.Errorf("%s: %d bytes, want %d; they differ from byte %d on: %.80q, want %.80q", what, len(text), len(want), at, text[at:], want[at:])
}
