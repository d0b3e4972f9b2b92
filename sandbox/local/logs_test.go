package local_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/local"
	"belljar/sandbox/sandboxtest"
)

// keeping is a runner that keeps outputs in a directory of its own.
func keeping(t *testing.T, e *sandboxtest.Engine) *local.Local {
	l := newLocal(e)
	l.StateDir = t.TempDir()
	l.Spool = sandbox.Spooling{Total: 1 << 30, Age: time.Hour}
	return l
}

// all reads an output to its end.
func all(t *testing.T, r sandbox.Reader, err error) (text string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for {
		c, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return text
		}
		if err != nil {
			t.Fatal(err)
		}
		if c.Missed > 0 {
			text += fmt.Sprintf("<%d>", c.Missed)
		}
		text += string(c.Data)
	}
}

// talk writes to both streams in turn.
func talk(p *sandboxtest.Proc) int {
	for i := range 3 {
		p.Sleep(time.Second)
		fmt.Fprintf(p.Stdout, "o%d ", i)
		fmt.Fprintf(p.Stderr, "e%d ", i)
	}
	return 3
}

const talked = "o0 e0 o1 e1 o2 e2 "

// Output can be read from any offset while the command runs, and afterwards,
// also by another process.
func TestReadDuringAndAfter(t *testing.T) {
	l := keeping(t, playing(talk))
	l.Spool.Age = 100 * 365 * 24 * time.Hour // the bubble's clock is of the year 2000
	var x sandbox.Execution
	synctest.Test(t, func(t *testing.T) {
		var err error
		if x, err = l.Start(t.Context(), command()); err != nil {
			t.Fatal(err)
		}
		early, err := x.Read(t.Context(), sandbox.Merged, 0)
		got := make(chan string)
		go func() { got <- all(t, early, err) }()
		if text := <-got; text != talked {
			t.Errorf("read %q while it ran", text)
		}
		if r, _ := x.Wait(); r.ExitCode != 3 {
			t.Errorf("%+v", r)
		}
	})
	for which, want := range map[sandbox.Stream]string{sandbox.Merged: talked[4:], sandbox.Stdout: "1 o2 ", sandbox.Stderr: "1 e2 "} {
		r, err := x.Read(t.Context(), which, 4)
		if text := all(t, r, err); text != want {
			t.Errorf("%s: %q, want %q", which, text, want)
		}
		other := &local.Local{StateDir: l.StateDir, Spool: l.Spool}
		r, err = other.ReadLog(t.Context(), x.ID(), which, 4)
		if text := all(t, r, err); text != want {
			t.Errorf("%s in another process: %q, want %q", which, text, want)
		}
	}
	list, err := l.Logs(t.Context())
	sum := sha256.Sum256([]byte("o0 o1 o2 "))
	if err != nil || len(list) != 1 || list[0].ID != x.ID() || list[0].Command != "the script" || list[0].Running || list[0].ExitCode != 3 ||
		list[0].Stdout != (sandbox.LogStream{Bytes: 9, SHA256: hex.EncodeToString(sum[:])}) {
		t.Errorf("%+v, %v", list, err)
	}
}

// Once a bug: who was told of a command found no log of it, as after a kill of its belljar just then.
func TestLogIsThereOnceStarted(t *testing.T) {
	l := keeping(t, playing(talk))
	for range 20 {
		x, err := l.Start(t.Context(), command())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.LogInfo(t.Context(), x.ID()); err != nil {
			t.Error(err)
		}
		x.Kill()
		x.Wait()
	}
}

// An offset, a stream or an ID that is none gets an error that says so.
func TestReadRefuses(t *testing.T) {
	l := keeping(t, playing(talk))
	x, err := l.Start(t.Context(), command())
	if err != nil {
		t.Fatal(err)
	}
	defer x.Wait()
	for _, test := range []struct {
		which  sandbox.Stream
		offset int64
	}{{sandbox.Stdout, -1}, {"", 0}, {"both", 0}} {
		if _, err := x.Read(t.Context(), test.which, test.offset); sandbox.CauseOf(err) != sandbox.CauseInvalid {
			t.Errorf("%q from %d: %v", test.which, test.offset, err)
		}
	}
	for _, id := range []string{"", ".", "..", "../sessions", "none", "a/b", strings.Repeat("x", 300)} {
		if _, err := l.ReadLog(t.Context(), id, sandbox.Merged, 0); sandbox.CauseOf(err) != sandbox.CauseInvalid {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// What was written up to the end is in the result, in order, whatever ended the
// command.
func TestPartialOutputIsKept(t *testing.T) {
	for name, end := range map[string]func(x sandbox.Execution, e *sandboxtest.Engine, c *sandbox.Command){
		"timeout": func(_ sandbox.Execution, _ *sandboxtest.Engine, _ *sandbox.Command) {},
		"kill":    func(x sandbox.Execution, _ *sandboxtest.Engine, _ *sandbox.Command) { x.Kill() },
	} {
		synctest.Test(t, func(t *testing.T) {
			e := playing(func(p *sandboxtest.Proc) int {
				talk(p)
				p.Sleep(time.Hour)
				return 0
			})
			l, c := keeping(t, e), command()
			c.Timeout = 10 * time.Second
			x, err := l.Start(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(5*time.Second, func() { end(x, e, &c) })
			r, _ := x.Wait()
			wantStream(t, name, r.Stdout, "o0 o1 o2 ")
			wantStream(t, name, r.Stderr, "e0 e1 e2 ")
			reader, err := x.Read(t.Context(), sandbox.Merged, 0)
			if text := all(t, reader, err); text != talked {
				t.Errorf("%s: %q", name, text)
			}
		})
	}
}

// With an age of 0 and without a state directory, nothing stays.
func TestNothingIsKept(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	for name, l := range map[string]*local.Local{
		"age 0":     keeping(t, playing(talk)),
		"no state":  keeping(t, playing(talk)),
		"read-only": keeping(t, playing(talk)),
	} {
		switch name {
		case "age 0":
			l.Spool.Age = 0
		case "no state":
			l.StateDir = ""
		case "read-only":
			l.StateDir = filepath.Join(l.StateDir, "file", "dir")
			if err := os.WriteFile(filepath.Dir(l.StateDir), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Test(t, func(t *testing.T) {
			x, err := l.Start(t.Context(), command())
			if err != nil {
				t.Fatal(err)
			}
			r, _ := x.Wait()
			wantStream(t, name, r.Stdout, "o0 o1 o2 ")
			const want = "<9>" // which are gone
			reader, err := x.Read(t.Context(), sandbox.Stdout, 0)
			if text := all(t, reader, err); text != want {
				t.Errorf("%s: %q, want %q", name, text, want)
			}
		})
		left, _ := filepath.Glob(l.StateDir + "/spool/*")
		inTemp, _ := filepath.Glob(temporary + "/*/*")
		if len(left)+len(inTemp) > 0 {
			t.Errorf("%s: left over: %q %q", name, left, inTemp)
		}
	}
}

// A spool that goes under a command costs output, and the command only where
// that is configured.
func TestSpoolGoes(t *testing.T) {
	for _, action := range []sandbox.SpoolAction{sandbox.SpoolContinue, sandbox.SpoolEnd} {
		synctest.Test(t, func(t *testing.T) {
			dir := ""
			l := keeping(t, playing(func(p *sandboxtest.Proc) int {
				p.Stdout.Write(make([]byte, 2000))
				os.RemoveAll(dir)
				for range 100 {
					p.Sleep(time.Second)
					p.Stdout.Write(make([]byte, 2000))
				}
				return 0
			}))
			l.Spool.OnError = action
			dir = l.StateDir + "/spool"
			c := command()
			c.Limits.Output = 4096
			x, err := l.Start(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			r, _ := x.Wait()
			if action == sandbox.SpoolEnd {
				wantFate(t, r, sandbox.StatusError, sandbox.CauseOutputLimit, sandbox.ExitEnded)
			} else {
				wantFate(t, r, sandbox.StatusSuccess, sandbox.CauseExited, 0)
				if r.Stdout.Total != 202_000 || r.Stdout.Dropped != 202_000-int64(len(r.Stdout.Bytes())) {
					t.Errorf("%d, %d dropped", r.Stdout.Total, r.Stdout.Dropped)
				}
			}
			if !strings.Contains(r.Evidence.OutputError, "could not be stored") {
				t.Errorf("output error %q", r.Evidence.OutputError)
			}
		})
	}
}

// viewer shows how many bytes it was given, and missed.
type viewer struct{}

func (viewer) View(_ sandbox.View, chunks iter.Seq[sandbox.Chunk], total sandbox.Total) sandbox.Text {
	var got bytes.Buffer
	missed := int64(0)
	for c := range chunks {
		got.Write(c.Data)
		missed += c.Missed
	}
	binary := bytes.IndexByte(got.Bytes(), 0) >= 0
	if binary {
		got.Reset()
	}
	return sandbox.Text{Text: fmt.Sprintf("%s%d", got.Bytes(), total.Bytes), OmittedBytes: missed, Binary: binary}
}

func (viewer) NewScreen(_ sandbox.View, size sandbox.TerminalSize) sandbox.Screen {
	return &screen{size: size}
}

func (viewer) Charset(name string) string {
	if name == "ucs-2" {
		return "utf-16le"
	}
	return name
}

// screen shows its size, and all that was written.
type screen struct {
	bytes.Buffer
	size sandbox.TerminalSize
}

func (s *screen) Resize(size sandbox.TerminalSize) { s.size = size }

func (s *screen) Shot(bool) sandbox.Shot {
	return sandbox.Shot{Columns: s.size.Columns, Rows: s.size.Rows, Text: s.String()}
}

func TestViews(t *testing.T) {
	for mode, want := range map[sandbox.ViewMode][3]string{
		"":                   {},
		sandbox.ViewNone:     {},
		sandbox.ViewSeparate: {"o0 o1 o2 9", "e0 e1 e2 9", ""},
		sandbox.ViewMerged:   {"", "", talked + "18"},
	} {
		synctest.Test(t, func(t *testing.T) {
			l, c := keeping(t, playing(talk)), command()
			l.Viewer, c.View.Mode = viewer{}, mode
			x, err := l.Start(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			r, _ := x.Wait()
			var got [3]string
			if v := r.Views; v != nil {
				for i, text := range []*sandbox.Text{v.Stdout, v.Stderr, v.Merged} {
					if text != nil {
						got[i] = text.Text
					}
				}
			}
			if got != want {
				t.Errorf("%q: %q, want %q", mode, got, want)
			}
		})
	}
	c := command()
	c.View.Mode = sandbox.ViewMerged
	if _, err := keeping(t, playing(talk)).Start(t.Context(), c); sandbox.CauseOf(err) != sandbox.CauseInvalid {
		t.Errorf("views without a viewer: %v", err)
	}
}

// Live views come at fixed intervals, with the latest output, and never block.
func TestLiveViews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, c := keeping(t, playing(func(p *sandboxtest.Proc) int {
			for range 300 {
				p.Sleep(10 * time.Millisecond)
				p.Stdout.Write([]byte("."))
			}
			return 0
		})), command()
		l.Viewer, c.Live = viewer{}, sandbox.LiveView
		x, err := l.Start(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range wantEvents(t, x) {
			if e.Type == sandbox.EventView {
				got = append(got, strings.TrimLeft(string(e.Data), "."))
			}
			if e.Type == sandbox.EventStdout {
				t.Errorf("raw output: %q", e.Data)
			}
		}
		if len(got) < 3 || len(got) > 4 || got[len(got)-1] != "300" {
			t.Errorf("views of %q bytes", got)
		}
	})
	synctest.Test(t, func(t *testing.T) { // no one reads
		l, c := keeping(t, playing(func(p *sandboxtest.Proc) int {
			for range 1000 {
				p.Sleep(time.Second)
				p.Stdout.Write(make([]byte, 1000))
			}
			return 0
		})), command()
		l.Viewer, c.Live, c.Timeout = viewer{}, sandbox.LiveView, time.Hour
		x, err := l.Start(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		time.Sleep(1100 * time.Second)
		if r, _ := x.Wait(); r.Cause != sandbox.CauseExited || time.Since(began) > 1101*time.Second {
			t.Errorf("%s after %v", r.Cause, time.Since(began))
		}
	})
}

// Notices say how much binary output there is, once a second.
func TestBinaryNotices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, playing(func(p *sandboxtest.Proc) int {
			fmt.Fprint(p.Stdout, "text\n")
			for range 250 {
				p.Sleep(10 * time.Millisecond)
				p.Stdout.Write(make([]byte, 100))
			}
			return 0
		}), command())
		var notices []string
		chunks := 0
		for _, e := range wantEvents(t, x) {
			if e.Type == sandbox.EventNotice && e.Binary {
				notices = append(notices, string(e.Data))
			}
			if e.Type == sandbox.EventStdout && e.Binary {
				chunks++
			}
		}
		if len(notices) != 4 || notices[3] != "stdout is binary: 25005 bytes so far" || chunks != 250 {
			t.Errorf("%q, and %d chunks", notices, chunks)
		}
	})
}

// Text in the charset that it was declared to be in is no data, by any of its names.
func TestDeclaredTextIsNotBinary(t *testing.T) {
	for charset, binary := range map[string]bool{"": true, "utf-16": false, "ucs-2": false} {
		synctest.Test(t, func(t *testing.T) {
			l, c := keeping(t, playing(func(p *sandboxtest.Proc) int {
				p.Stdout.Write([]byte("\x2d\x4e\xfd\x56\n\x00")) // 中国
				p.Stderr.Write([]byte("\x2d\x4e\xfd\x56\n\x00"))
				return 0
			})), command()
			l.Viewer, c.View.Charset = viewer{}, charset
			x, err := l.Start(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range wantEvents(t, x) {
				if data := e.Type == sandbox.EventStdout || e.Type == sandbox.EventStderr; data && e.Binary != binary {
					t.Errorf("%q: %s is binary: %t", charset, e.Type, e.Binary)
				}
			}
		})
	}
}

// A terminal's output is on its screen, and its size changes.
func TestScreen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, c := keeping(t, playing(talk)), command()
		sizes := make(chan sandbox.TerminalSize, 1)
		l.Viewer, c.TTY, c.Resize = viewer{}, &sandbox.TerminalSize{}, sizes
		x, err := l.Start(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		sizes <- sandbox.TerminalSize{Columns: 9999, Rows: 50}
		r, _ := x.Wait()
		if s := r.Screen; s == nil || s.Columns != 500 || s.Rows != 50 || !slices.Equal(strings.Fields(s.Text), strings.Fields(talked)) {
			t.Errorf("%+v", s)
		}
	})
}

// A long output is summarized, in addition to the output itself; a failure is a
// notice.
func TestSummary(t *testing.T) {
	for _, test := range []struct {
		command []string
		over    int64
		want    string
		notice  string
	}{
		{nil, 0, "", ""},
		{[]string{"wc", "-c"}, 100, "", ""},
		{[]string{"wc", "-c"}, 17, "18", ""},
		{[]string{"false"}, 17, "", "summarizing the output failed: "},
	} {
		l := keeping(t, playing(func(p *sandboxtest.Proc) int {
			io.WriteString(p.Stdout, talked)
			return 0
		}))
		p := l.Profiles["default"]
		p.Summarize = sandbox.Summarize{Command: test.command, Over: test.over, Timeout: 10 * time.Second}
		l.Profiles["default"] = p
		x, err := l.Start(t.Context(), command())
		if err != nil {
			t.Fatal(err)
		}
		notice := ""
		for _, e := range wantEvents(t, x) {
			if e.Type == sandbox.EventNotice {
				notice += string(e.Data)
			}
		}
		r, _ := x.Wait()
		if strings.TrimSpace(r.Summary) != test.want || !strings.HasPrefix(notice, test.notice) || (notice == "") != (test.notice == "") {
			t.Errorf("%q over %d: %q, notice %q", test.command, test.over, r.Summary, notice)
		}
		wantStream(t, "stdout", r.Stdout, talked)
	}
}

// slowScreen takes long for each piece.
type slowScreen struct{ screen }

func (s *slowScreen) Write(p []byte) (int, error) {
	time.Sleep(time.Second)
	return len(p), nil
}

type slowViewer struct{ viewer }

func (slowViewer) NewScreen(sandbox.View, sandbox.TerminalSize) sandbox.Screen { return &slowScreen{} }

// A screen that takes too long to draw is given up, and the command continues.
func TestSlowScreen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, c := keeping(t, playing(func(p *sandboxtest.Proc) int {
			p.Stdout.Write(make([]byte, 32<<10))
			return 0
		})), command()
		l.Viewer, c.TTY = slowViewer{}, &sandbox.TerminalSize{}
		began := time.Now()
		x, err := l.Start(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		notice := ""
		for _, e := range wantEvents(t, x) {
			if e.Type == sandbox.EventNotice && !e.Binary {
				notice = string(e.Data)
			}
		}
		r, _ := x.Wait()
		if r.Screen != nil || r.Stdout.Total != 32<<10 || notice != "no screen: drawing the output took longer than 5s" {
			t.Errorf("screen %+v, %d bytes, notice %q", r.Screen, r.Stdout.Total, notice)
		}
		wantAfter(t, began, 6*time.Second)
	})
}
