package sandbox

import (
	"bytes"
	"fmt"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// model keeps everything.
type model [2][]byte

// capturing writes at random to a capture and to the model.
func capturing(t *rapid.T, chunk *rapid.Generator[[]byte]) (*capture, model, int64, OutputAction) {
	limit := rapid.Int64Range(0, 300).Draw(t, "limit")
	action := rapid.SampledFrom([]OutputAction{OutputTruncate, OutputEnd}).Draw(t, "action")
	c, all := newCapture(limit, action), model{}
	for range rapid.IntRange(0, 40).Draw(t, "writes") {
		s := stream(rapid.IntRange(0, 1).Draw(t, "stream"))
		p := chunk.Draw(t, "chunk")
		c.write(s, p)
		all[s] = append(all[s], p...)
	}
	return c, all, limit, action
}

func TestCaptureKeepsBeginningAndEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, all, limit, action := capturing(t, rapid.SliceOfN(rapid.Byte(), 0, 100))
		total := int64(len(all[stdout]) + len(all[stderr]))
		if c.total() != total {
			t.Errorf("total %d, want %d", c.total(), total)
		}
		var kept int64
		for _, k := range c.kept {
			kept += k.head.size + k.tail.size
		}
		if kept != min(total, limit) {
			t.Errorf("kept %d of %d, limit %d", kept, total, limit)
		}
		kept = 0
		for s, want := range all {
			o := c.output(stream(s))
			kept += int64(len(o.Head) + len(o.Tail))
			checkOutput(t, o, want)
			if o.Dropped > 0 && total <= limit {
				t.Errorf("dropped %d of %d within the limit of %d", o.Dropped, o.Total, limit)
			}
			if action == OutputEnd && len(o.Tail) > 0 {
				t.Errorf("a tail of %d", len(o.Tail))
			}
		}
		if kept > limit {
			t.Errorf("kept %d, over the limit of %d", kept, limit)
		}
	})
}

func checkOutput(t *rapid.T, o Output, want []byte) {
	if !bytes.HasPrefix(want, o.Head) || !bytes.HasSuffix(want, o.Tail) {
		t.Errorf("head %q and tail %q of %q", o.Head, o.Tail, want)
	}
	if o.Total != int64(len(want)) || int64(len(o.Head)+len(o.Tail))+o.Dropped != o.Total || o.Dropped < 0 {
		t.Errorf("head %d + dropped %d + tail %d, total %d of %d", len(o.Head), o.Dropped, len(o.Tail), o.Total, len(want))
	}
	if o.Dropped == 0 && len(o.Tail) > 0 {
		t.Errorf("a tail without a gap")
	}
}

// Text that was truncated is text still, and at the most 3 bytes on each side
// are lost for that. So is text of which nothing was dropped.
func TestCaptureKeepsTextText(t *testing.T) {
	text := rapid.Custom(func(t *rapid.T) []byte {
		return []byte(rapid.StringOfN(rapid.SampledFrom([]rune("a\n\u00fc\u20ac\U0001f980")), 0, 50, -1).Draw(t, "text"))
	})
	rapid.Check(t, func(t *rapid.T) {
		c, all, _, _ := capturing(t, text)
		var raw [2]int64
		for s := range all {
			raw[s] = c.kept[s].head.size + c.kept[s].tail.size
		}
		for s, want := range all {
			o := c.output(stream(s))
			checkOutput(t, o, want)
			if !o.isText() {
				t.Errorf("head %q and tail %q are no text", o.Head, o.Tail)
			}
			if lost := raw[s] - int64(len(o.Head)+len(o.Tail)); lost > 2*(utf8.UTFMax-1) {
				t.Errorf("%d bytes lost for the sake of text", lost)
			}
		}
	})
}

func TestCaptureLeavesBinaryAlone(t *testing.T) {
	for _, data := range []string{"\x80\x80\x80\x80\x80\x80\x80\x80\x80", "\x00\u20ac\u20ac\u20ac\u20ac", "\u20ac\u20ac\xff\u20ac\u20ac\u20ac\u20ac\u20ac\xff"} {
		c := newCapture(8, OutputTruncate)
		c.write(stdout, []byte(data))
		if o := c.output(stdout); len(o.Head)+len(o.Tail) != 8 {
			t.Errorf("%q: head %q, tail %q", data, o.Head, o.Tail)
		}
	}
}

// A flood on one stream does not cost the other its last words.
func TestCaptureSharesTheEnd(t *testing.T) {
	c := newCapture(1<<20, OutputTruncate)
	for range 1000 {
		c.write(stdout, bytes.Repeat([]byte("x"), 4096))
	}
	c.write(stderr, []byte("last words"))
	for range 1000 {
		c.write(stdout, bytes.Repeat([]byte("x"), 4096))
	}
	if o := c.output(stderr); string(o.Head) != "last words" || o.Dropped != 0 {
		t.Errorf("%+v", o)
	}
}

func BenchmarkCapture(b *testing.B) {
	for _, size := range []int{1, 100, 32 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			c, p := newCapture(16<<20, OutputTruncate), bytes.Repeat([]byte("x"), size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				c.write(stdout, p)
			}
		})
	}
}

func BenchmarkOutputWrite(b *testing.B) {
	for _, size := range []int{1, 100, 32 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			o, p := newOutput(16<<20, OutputTruncate), bytes.Repeat([]byte("x"), size)
			read := make(chan struct{})
			go func() {
				defer close(read)
				for range o.events {
				}
			}()
			o.begin(NoIdleTimeout)
			w := streamWriter{o, stdout}
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				w.Write(p)
			}
			close(o.events)
			<-read
		})
	}
}
