package sandboxtest

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"belljar/sandbox"
)

// talk is a command that prints what its test sends.
type talk struct {
	*command
	typed *io.PipeWriter
}

func (r *runner) talk(t *testing.T, change ...func(*sandbox.Command)) *talk {
	t.Helper()
	in, typed := io.Pipe()
	t.Cleanup(func() { typed.Close() })
	return &talk{r.start(t, scriptCat, append(change, stdinFrom(in))...), typed}
}

func (x *talk) say(text string) { io.WriteString(x.typed, text) }

// wantNext reads chunks until they add up to this text.
func wantNext(ctx context.Context, t *testing.T, r sandbox.Reader, want string) {
	t.Helper()
	for got := ""; got != want; {
		c, err := r.Next(ctx)
		if err != nil || c.Missed != 0 || !strings.HasPrefix(want, got+string(c.Data)) {
			t.Fatalf("%q, then %q, missed %d, error %v; want %q", got, c.Data, c.Missed, err, want)
		}
		got += string(c.Data)
	}
}

var runnerReadTests = map[string]func(*testing.T, *opener){
	"a reader follows at its own pace": func(t *testing.T, o *opener) {
		x := o.runner(t).talk(t)
		r, err := x.Read(o.ctx, sandbox.Merged, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer closing(t, r)
		for _, line := range []string{"one\n", "two\n"} {
			if c, err := r.Ready(o.ctx); !errors.Is(err, io.EOF) {
				t.Errorf("before it is written: %q, %v", c.Data, err)
			}
			x.say(line)
			wantNext(o.ctx, t, r, line)
		}
		x.typed.Close()
		if c, err := r.Next(o.ctx); !errors.Is(err, io.EOF) {
			t.Errorf("after the end: %q, %v", c.Data, err)
		}
		x.wait(t)
	},
	"a reader's wait can be canceled": func(t *testing.T, o *opener) {
		x := o.runner(t).talk(t)
		r, err := x.Read(o.ctx, sandbox.Stdout, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer closing(t, r)
		ctx, cancel := context.WithTimeout(o.ctx, 50*time.Millisecond)
		defer cancel()
		if _, err := r.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		x.say("one\n")
		wantNext(o.ctx, t, r, "one\n")
		x.Kill()
		x.wait(t)
	},
	"a slow reader does not block the command": func(t *testing.T, o *opener) {
		x := o.runner(t).start(t, scriptMuch)
		r, err := x.Read(o.ctx, sandbox.Stdout, 0)
		if err != nil {
			t.Fatal(err)
		}
		wantFate(t, x.wait(t), sandbox.StatusSuccess, sandbox.CauseExited, 0)
		closing(t, r)
	},
	"readers of each stream, from any byte": func(t *testing.T, o *opener) {
		x := o.runner(t).start(t, scriptBoth)
		x.wait(t)
		for which, want := range map[sandbox.Stream]string{sandbox.Stdout: "out\n", sandbox.Stderr: "err\n", sandbox.Merged: "out\nerr\n"} {
			for from := range want {
				r, err := x.Read(o.ctx, which, int64(from))
				if text, missed := readAll(o.ctx, t, r, err); text != want[from:] || missed != 0 {
					t.Errorf("%s from %d: %q, missed %d", which, from, text, missed)
				}
			}
		}
	},
	"both streams, in order": func(t *testing.T, o *opener) {
		x := o.runner(t).start(t, scriptInterleave)
		var want strings.Builder
		for i := range 500 {
			want.WriteString("o" + itoa(i) + "\ne" + itoa(i) + "\n")
		}
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				r, err := x.Read(o.ctx, sandbox.Merged, 0)
				if err != nil {
					t.Error(err)
					return
				}
				if text, _ := readAll(o.ctx, t, r, nil); text != want.String() {
					t.Errorf("%.100q", text)
				}
			})
		}
		x.wait(t)
		all.Wait()
	},
	"chunks have a stream and an offset": func(t *testing.T, o *opener) {
		x := o.runner(t).start(t, scriptInterleave)
		x.wait(t)
		r, err := x.Read(o.ctx, sandbox.Merged, 2)
		if err != nil {
			t.Fatal(err)
		}
		defer closing(t, r)
		for next := int64(2); ; {
			c, err := r.Next(o.ctx)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil || c.Offset != next || c.Stream != sandbox.Stdout && c.Stream != sandbox.Stderr || len(c.Data) == 0 {
				t.Fatalf("%+v, %v; want offset %d", c, err, next)
			}
			if odd := strings.Trim(string(c.Data), "0123456789\n"+string(c.Stream[3])); c.Stream == sandbox.Stderr && strings.Contains(odd, "o") || c.Stream == sandbox.Stdout && strings.Contains(odd, "e") {
				t.Fatalf("%q on %s", c.Data, c.Stream)
			}
			next += int64(len(c.Data))
		}
	},
	"a late reader learns how much it missed": func(t *testing.T, o *opener) {
		x := o.runner(t).start(t, scriptMuch, func(c *sandbox.Command) { c.Limits.Output = 64 << 10 })
		x.wait(t)
		r, err := x.Read(o.ctx, sandbox.Stdout, 0)
		if text, missed := readAll(o.ctx, t, r, err); missed == 0 || text == "" || int64(len(text))+missed != 1<<20 {
			t.Errorf("%d bytes, missed %d", len(text), missed)
		}
	},
	"invalid read options are refused": func(t *testing.T, o *opener) {
		x := o.runner(t).start(t, scriptBoth)
		defer x.wait(t)
		for _, which := range []sandbox.Stream{"", "both"} {
			_, err := x.Read(o.ctx, which, 0)
			wantRefusal(t, "stream "+string(which), err, sandbox.CauseInvalid)
		}
		_, err := x.Read(o.ctx, sandbox.Stdout, -1)
		wantRefusal(t, "offset", err, sandbox.CauseInvalid)
	},
}

func itoa(i int) string {
	if i < 10 {
		return string(rune('0' + i))
	}
	return itoa(i/10) + itoa(i%10)
}

var runnerLogTests = map[string]func(*testing.T, *opener){
	"the kept output of an ended command": func(t *testing.T, o *opener) {
		r := o.runner(t)
		result := r.run(t, scriptBoth)
		second := r.run(t, scriptMarker)
		info, err := r.LogInfo(o.ctx, result.ID)
		if err != nil || info.ID != result.ID || info.Command != scriptBoth || info.Profile != sandbox.DefaultProfile || info.Running || info.Started.IsZero() || info.Ended.IsZero() || info.Expires.IsZero() || info.LogEnd == nil {
			t.Fatalf("%+v, error %v", info, err)
		}
		if info.Status != sandbox.StatusError || info.ExitCode != 3 || info.Stdout != (sandbox.LogStream{Bytes: 4, Lines: 1, SHA256: result.Stdout.SHA256}) {
			t.Errorf("%+v", info.LogEnd)
		}
		list, err := r.Logs(o.ctx)
		if err != nil || len(list) != 2 || list[0].ID != result.ID || list[1].ID != second.ID {
			t.Errorf("%+v, error %v", list, err)
		}
		for which, want := range map[sandbox.Stream]string{sandbox.Stdout: "ut\n", sandbox.Stderr: "rr\n", sandbox.Merged: "ut\nerr\n"} {
			reader, err := r.ReadLog(o.ctx, result.ID, which, 1)
			if text, missed := readAll(o.ctx, t, reader, err); text != want || missed != 0 {
				t.Errorf("%s: %q, missed %d", which, text, missed)
			}
		}
	},
	"a log is followed while its command runs": func(t *testing.T, o *opener) {
		r := o.runner(t)
		x := r.talk(t, func(c *sandbox.Command) { c.ID = "followed" })
		x.say("one\n")
		x.await(t, "one\n")
		info, err := r.LogInfo(o.ctx, "followed")
		if err != nil || !info.Running || info.LogEnd != nil || !info.Ended.IsZero() {
			t.Errorf("%+v, error %v", info, err)
		}
		reader, err := r.ReadLog(o.ctx, "followed", sandbox.Merged, 0)
		if err != nil {
			t.Fatal(err)
		}
		wantNext(o.ctx, t, reader, "one\n")
		if c, err := reader.Ready(o.ctx); !errors.Is(err, io.EOF) {
			t.Errorf("before it is written: %q, %v", c.Data, err)
		}
		x.say("two\n")
		wantNext(o.ctx, t, reader, "two\n")
		x.typed.Close()
		if text, _ := readAll(o.ctx, t, reader, nil); text != "" {
			t.Errorf("then %q", text)
		}
		x.wait(t)
	},
	"logs of an unknown command": func(t *testing.T, o *opener) {
		r := o.runner(t)
		if list, err := r.Logs(o.ctx); err != nil || len(list) != 0 {
			t.Errorf("%+v, error %v", list, err)
		}
		for _, id := range []string{"", "none", "..", "a/b", "\x00", strings.Repeat("x", 300)} {
			_, err := r.LogInfo(o.ctx, id)
			wantRefusal(t, "LogInfo of "+id, err, sandbox.CauseInvalid)
			_, err = r.ReadLog(o.ctx, id, sandbox.Merged, 0)
			wantRefusal(t, "ReadLog of "+id, err, sandbox.CauseInvalid)
		}
		x := r.start(t, scriptMarker)
		x.wait(t)
		_, err := r.ReadLog(o.ctx, x.ID(), "both", 0)
		wantRefusal(t, "stream", err, sandbox.CauseInvalid)
		_, err = r.ReadLog(o.ctx, x.ID(), sandbox.Stdout, -1)
		wantRefusal(t, "offset", err, sandbox.CauseInvalid)
	},
	"the result of a command that never ran is kept": func(t *testing.T, o *opener) {
		r := o.runner(t, func(b *Behind) { b.Fault = CreateFails })
		want := r.run(t, scriptMarker)
		list, err := r.Logs(o.ctx)
		if err != nil || len(list) != 1 || list[0].ID != want.ID || list[0].LogEnd == nil || list[0].Status != want.Status || list[0].Cause != want.Cause || list[0].ExitCode != want.ExitCode {
			t.Errorf("%+v, error %v", list, err)
		}
	},
}
