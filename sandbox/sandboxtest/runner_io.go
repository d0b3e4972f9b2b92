package sandboxtest

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"belljar/sandbox"
)

func stdinFrom(r io.Reader) func(*sandbox.Command) {
	return func(c *sandbox.Command) { c.Stdin = r }
}

var runnerInputTests = map[string]func(*testing.T, *opener){
	"no stdin is empty": func(t *testing.T, o *opener) {
		wantOutput(t, "stdout", o.runner(t).run(t, scriptCat).Stdout, "")
	},
	"stdin arrives completely": func(t *testing.T, o *opener) {
		in := bytes.Repeat([]byte("0123456789\x00\xff\n"), 100_000)
		r := o.runner(t).run(t, scriptCat, stdinFrom(bytes.NewReader(in)))
		if !bytes.Equal(r.Stdout.Bytes(), in) {
			t.Errorf("%d bytes of %d", len(r.Stdout.Bytes()), len(in))
		}
	},
	"stdin is streamed": func(t *testing.T, o *opener) {
		in, typed := io.Pipe()
		x := o.runner(t).start(t, scriptCat, stdinFrom(in))
		for _, line := range []string{"one\n", "two\n"} {
			io.WriteString(typed, line)
			x.await(t, line)
		}
		typed.Close()
		wantOutput(t, "stdout", x.wait(t).Stdout, "one\ntwo\n")
	},
	"a stdin that fails has no end": func(t *testing.T, o *opener) {
		in, typed := io.Pipe()
		x := o.runner(t).start(t, scriptCat, stdinFrom(in))
		io.WriteString(typed, "some")
		x.await(t, "some")
		typed.CloseWithError(errors.New("no more"))
		r := x.wait(t)
		wantFate(t, r, sandbox.StatusFatal, sandbox.CauseInvalid, sandbox.ExitEnded)
		wantOutput(t, "stdout", r.Stdout, "some")
		if !strings.Contains(r.Message, "reading the command's stdin: no more") {
			t.Errorf("message %q", r.Message)
		}
	},
	"blocked stdin does not delay the end": func(t *testing.T, o *opener) {
		in, typed := io.Pipe()
		defer typed.Close()
		wantFate(t, o.runner(t).run(t, "exit 5", stdinFrom(in)), sandbox.StatusError, sandbox.CauseExited, 5)
	},
	"unread stdin does not delay the end": func(t *testing.T, o *opener) {
		wantFate(t, o.runner(t).run(t, "exit 5", stdinFrom(endless{})), sandbox.StatusError, sandbox.CauseExited, 5)
	},
	"a terminal merges both streams": func(t *testing.T, o *opener) {
		r := o.runner(t).run(t, scriptIsTerminal, onTerminal(0, 0))
		wantFate(t, r, sandbox.StatusError, sandbox.CauseExited, 7)
		wantOutput(t, "stdout", r.Stdout, "all\r\nerror\r\n")
		if r.Screen == nil || r.Screen.Columns != 80 || r.Screen.Rows != 24 || !strings.Contains(r.Screen.Text, "error") {
			t.Errorf("screen %+v", r.Screen)
		}
	},
	"a terminal's size": func(t *testing.T, o *opener) {
		wantOutput(t, "stdout", o.runner(t).run(t, scriptSize, onTerminal(100, 30)).Stdout, "30 100\r\n")
	},
	"a terminal's new size": func(t *testing.T, o *opener) {
		sizes := make(chan sandbox.TerminalSize)
		x := o.runner(t).start(t, scriptResized, onTerminal(100, 30), func(c *sandbox.Command) { c.Resize = sizes })
		x.await(t, "ready")
		sizes <- sandbox.TerminalSize{Columns: 120, Rows: 40}
		r := x.wait(t)
		wantFate(t, r, sandbox.StatusError, sandbox.CauseExited, 5)
		wantOutput(t, "stdout", r.Stdout, "ready\r\n40 120\r\n")
	},
	"a terminal continues after the last resize": func(t *testing.T, o *opener) {
		sizes := make(chan sandbox.TerminalSize)
		close(sizes)
		r := o.runner(t).run(t, scriptIsTerminal, onTerminal(100, 30), func(c *sandbox.Command) { c.Resize = sizes })
		wantFate(t, r, sandbox.StatusError, sandbox.CauseExited, 7)
	},
	"terminal input": func(t *testing.T, o *opener) {
		in, typed := io.Pipe()
		defer typed.Close()
		x := o.runner(t).start(t, scriptInterrupted, onTerminal(0, 0), stdinFrom(in))
		x.await(t, "ready")
		io.WriteString(typed, "\x03")
		wantFate(t, x.wait(t), sandbox.StatusError, sandbox.CauseExited, 5)
	},
	"the variables that a caller may set": func(t *testing.T, o *opener) {
		r := o.runner(t).run(t, scriptEnv, func(c *sandbox.Command) {
			c.Env = []string{"QUOTES='\"", "NEWLINES=a\nb", "UNICODE=\u00e9", "EMPTY=", "ALLOWED"}
			c.Inherit = []string{"ALLOWED=1", "OTHER=2"}
		})
		wantOutput(t, "stdout", r.Stdout, "'\"\x00a\nb\x00\u00e9\x00\x00set\x00unset\x00")
	},
	"directory and user": func(t *testing.T, o *opener) {
		r := o.runner(t).run(t, scriptWhere, func(c *sandbox.Command) {
			c.Dir, c.Tmpfs, c.User = "sub/dir", []string{"/work/sub/dir"}, sandbox.User{UID: 1000, GID: 50}
		})
		wantOutput(t, "stdout", r.Stdout, "/work/sub/dir\n1000\n50\n")
		if r.User != (sandbox.User{UID: 1000, GID: 50}) || r.Dir != "/work/sub/dir" {
			t.Errorf("%+v in %s", r.User, r.Dir)
		}
	},
}

func onTerminal(columns, rows int) func(*sandbox.Command) {
	return func(c *sandbox.Command) { c.TTY = &sandbox.TerminalSize{Columns: columns, Rows: rows} }
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

var runnerViewTests = map[string]func(*testing.T, *opener){
	"no view": func(t *testing.T, o *opener) {
		if r := o.runner(t).run(t, scriptBoth); r.Views != nil || r.Screen != nil {
			t.Errorf("%+v, %+v", r.Views, r.Screen)
		}
	},
	"a view of each": func(t *testing.T, o *opener) {
		v := o.runner(t).run(t, scriptBoth, viewed(sandbox.ViewSeparate)).Views
		if v == nil || v.Merged != nil || v.Stdout == nil || v.Stdout.Text != "out\n" || v.Stderr == nil || v.Stderr.Text != "err\n" {
			t.Errorf("%+v", v)
		}
	},
	"a view of both, of bounded length": func(t *testing.T, o *opener) {
		v := o.runner(t).run(t, scriptInterleave, viewed(sandbox.ViewMerged), func(c *sandbox.Command) { c.View.Lines = 4 }).Views
		if v == nil || v.Merged == nil || v.Stdout != nil || !strings.HasPrefix(v.Merged.Text, "o0\ne0\n") || !strings.HasSuffix(v.Merged.Text, "o499\ne499\n") || v.Merged.OmittedLines != 996 {
			t.Errorf("%+v", v)
		}
	},
	"live views instead of output": func(t *testing.T, o *opener) {
		in, typed := io.Pipe()
		x := o.runner(t).start(t, scriptCat, stdinFrom(in), func(c *sandbox.Command) { c.Live = sandbox.LiveView })
		io.WriteString(typed, "one\n")
		for e := range x.Events() {
			if e.Type == sandbox.EventView && strings.Contains(string(e.Data), "one\n") {
				break
			}
		}
		typed.Close()
		list := x.events(t)
		if slices.ContainsFunc(list, func(e sandbox.Event) bool { return e.Type == sandbox.EventStdout }) {
			t.Error("output in addition to live views")
		}
		wantOutput(t, "stdout", x.wait(t).Stdout, "one\n")
	},
}

func viewed(mode sandbox.ViewMode) func(*sandbox.Command) {
	return func(c *sandbox.Command) {
		c.View = sandbox.View{Mode: mode, Bytes: 1 << 20, Lines: 10_000, LineChars: 10_000}
	}
}
