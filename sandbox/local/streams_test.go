package local_test

import (
	"fmt"
	"io"
	"iter"
	"strings"
	"testing"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/sandboxtest"
)

// counted is what seq writes.
func counted(n int) string {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		fmt.Fprintln(&b, i)
	}
	return b.String()
}

// What of the streams is in a result, what is kept in any case, and what a notice says
// of the rest.
func TestStreams(t *testing.T) {
	all := counted(10_000) // 48,894 bytes
	view := sandbox.View{Mode: sandbox.ViewMerged}
	for name, test := range map[string]struct {
		command sandbox.Command
		streams sandbox.Streams // of the result
		kept    int             // of stdout, in the result
		dropped int64
		notice  string
	}{
		"by default":              {sandbox.Command{}, "", len(all), 0, ""},
		"with a view":             {sandbox.Command{View: view}, sandbox.StreamsView, 0, 0, ""},
		"full with a view":        {sandbox.Command{View: view, Streams: sandbox.StreamsFull}, "", len(all), 0, ""},
		"none":                    {sandbox.Command{Streams: sandbox.StreamsNone}, sandbox.StreamsNone, 0, 0, ""},
		"less than is kept":       {sandbox.Command{Limits: sandbox.Limits{Result: 2048}}, "", 2048, 46_846, "46846 bytes of output are left out of the result; see: belljar logs ID"},
		"no more than is kept":    {sandbox.Command{Limits: sandbox.Limits{Output: 2048}}, "", 2048, 46_846, "46846 bytes of output are left out of the result, and were not kept (raise limits.output)"},
		"less than is kept of it": {sandbox.Command{Limits: sandbox.Limits{Output: 4096, Result: 2048}}, "", 2048, 46_846, "46846 bytes of output are left out of the result, and 44798 of them were not kept (raise limits.output); for the others see: belljar logs ID"},
		"nothing, of a part":      {sandbox.Command{Streams: sandbox.StreamsNone, Limits: sandbox.Limits{Output: 4096}}, sandbox.StreamsNone, 0, 44_798, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l := keeping(t, playing(func(p *sandboxtest.Proc) int { io.WriteString(p.Stdout, all); return 0 }))
			l.Viewer = viewer{}
			c := test.command
			c.ID, c.Script = "ID", "seq 10000"
			x, err := l.Start(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			notice, events := "", 0
			for _, e := range wantEvents(t, x) {
				if e.LeftOut > 0 {
					notice = string(e.Data)
				}
				if e.Type == sandbox.EventStdout {
					events += len(e.Data)
				}
			}
			r, _ := x.Wait()
			o := r.Stdout
			if r.Streams != test.streams || len(o.Bytes()) != test.kept || o.Dropped != test.dropped || o.Total != int64(len(all)) || o.Lines != 10_000 || notice != test.notice {
				t.Errorf("streams %q, %d of %d bytes and %d lines, dropped %d, notice %q", r.Streams, len(o.Bytes()), o.Total, o.Lines, o.Dropped, notice)
			}
			if !strings.HasPrefix(all, string(o.Head)) || !strings.HasSuffix(all, string(o.Tail)) {
				t.Errorf("%q and %q", o.Head, o.Tail)
			}
			if events != len(all) {
				t.Errorf("events have %d bytes", events)
			}
			again, _, err := l.Await(t.Context(), "ID")
			if err != nil || again.Streams != r.Streams || string(again.Stdout.Bytes()) != string(o.Bytes()) || again.Stdout.Dropped != o.Dropped {
				t.Errorf("waiting gives %d bytes, dropped %d, error %v", len(again.Stdout.Bytes()), again.Stdout.Dropped, err)
			}
		})
	}
}

// A view that leaves out some is what a notice is about.
func TestViewLeavesOut(t *testing.T) {
	l := keeping(t, playing(func(p *sandboxtest.Proc) int { io.WriteString(p.Stdout, "text"); return 0 }))
	l.Viewer = omitting{}
	x, err := l.Start(t.Context(), sandbox.Command{ID: "ID", Script: "x", View: sandbox.View{Mode: sandbox.ViewSeparate}})
	if err != nil {
		t.Fatal(err)
	}
	var left []int64
	for e := range x.Events() {
		if e.LeftOut > 0 {
			left = append(left, e.LeftOut)
		}
	}
	if len(left) != 1 || left[0] != 200 {
		t.Errorf("left out: %d", left)
	}
}

// omitting leaves out 100 bytes of each.
type omitting struct{ viewer }

func (omitting) View(sandbox.View, iter.Seq[sandbox.Chunk], sandbox.Total) sandbox.Text {
	return sandbox.Text{OmittedBytes: 100}
}

func TestUnknownStreamsAndEncoding(t *testing.T) {
	for want, c := range map[string]sandbox.Command{
		`streams "view" needs a view (ask for a view, separate or merged, or for streams full)`: {Streams: sandbox.StreamsView},
		`no streams "all" (full, view or none)`:                                                 {Streams: "all"},
		`no encoding "utf-16" (exact or replace)`:                                               {Encoding: "utf-16"},
		`a view's bound is negative (give 0 for none)`:                                          {View: sandbox.View{Scrollback: -1}},
	} {
		c.Script = "x"
		_, err := newLocal(playing(sleep(time.Second))).Start(t.Context(), c)
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// What another process reads of a result is replaced as in the first one.
func TestAwaitReplaced(t *testing.T) {
	l := keeping(t, playing(func(p *sandboxtest.Proc) int {
		io.WriteString(p.Stdout, strings.Repeat("\xe9", 2000)+strings.Repeat("你", 2000)+"\xe9")
		io.WriteString(p.Stderr, "a\x00")
		return 0
	}))
	x, err := l.Start(t.Context(), sandbox.Command{ID: "ID", Script: "x", Encoding: sandbox.EncodingReplace, Limits: sandbox.Limits{Result: 1024}})
	if err != nil {
		t.Fatal(err)
	}
	r, _ := x.Wait()
	again, _, err := l.Await(t.Context(), "ID")
	if err != nil || again.Stdout.Encoding != "utf-8-replaced" || again.Stderr.Encoding != "utf-8" || again.Stdout.Dropped != r.Stdout.Dropped || again.Stderr.Dropped != r.Stderr.Dropped ||
		string(again.Stdout.Head) != string(r.Stdout.Head) || string(again.Stdout.Tail) != string(r.Stdout.Tail) || string(again.Stderr.Head) != "a\x00" || again.Method != "pipe" {
		t.Errorf("%+v, error %v\nwant %+v", again.Stdout, err, r.Stdout)
	}
	if !strings.HasSuffix(string(r.Stdout.Tail), "你\ufffd") || !strings.HasPrefix(string(r.Stdout.Head), "\ufffd\ufffd") {
		t.Errorf("%q and %q", r.Stdout.Head, r.Stdout.Tail)
	}
}

// A summary replaces the views where that is asked for, has their bound, and changes
// nothing of what is kept.
func TestSummaryReplacesViews(t *testing.T) {
	for name, test := range map[string]struct {
		replace bool
		program string
		streams sandbox.Streams
		views   bool
		summary string
		leftOut int64
	}{
		"replaced":      {true, `echo "$BELLJAR_COMMAND $BELLJAR_EXIT_CODE $BELLJAR_SUMMARY_BYTES"`, "", false, "seq 10000 3 1000", 48_894},
		"not asked for": {false, `echo "$BELLJAR_SUMMARY_BYTES"`, "", true, "65536", 0},
		"full streams":  {true, `echo "$BELLJAR_SUMMARY_BYTES"`, sandbox.StreamsFull, true, "65536", 0},
		"no summary":    {true, "exit 1", "", true, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			all := counted(10_000)
			l := keeping(t, playing(func(p *sandboxtest.Proc) int { io.WriteString(p.Stdout, all); return 3 }))
			l.Viewer = viewer{}
			p := l.Profiles["default"]
			p.Summarize = sandbox.Summarize{Command: []string{"sh", "-c", test.program}, Over: 10, Timeout: time.Minute, Replace: test.replace}
			l.Profiles["default"] = p
			x, err := l.Start(t.Context(), sandbox.Command{ID: "ID", Script: "seq 10000", Streams: test.streams, View: sandbox.View{Mode: sandbox.ViewMerged, Bytes: 1000}})
			if err != nil {
				t.Fatal(err)
			}
			left := int64(0)
			for e := range x.Events() {
				left += e.LeftOut
			}
			r, _ := x.Wait()
			if (r.Views != nil) != test.views || strings.TrimSpace(r.Summary) != test.summary || left != test.leftOut {
				t.Errorf("views %v, summary %q, left out %d", r.Views, r.Summary, left)
			}
			kept, err := l.ReadLog(t.Context(), "ID", sandbox.Stdout, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer kept.Close()
			size := 0
			for c, err := kept.Next(t.Context()); err == nil; c, err = kept.Next(t.Context()) {
				size += len(c.Data)
			}
			if size != len(all) {
				t.Errorf("%d bytes are kept", size)
			}
		})
	}
}
