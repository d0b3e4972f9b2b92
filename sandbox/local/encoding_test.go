package local

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"belljar/internal/sniff"
	"belljar/sandbox"
	"belljar/sandbox/internal/spool"

	"golang.org/x/text/encoding/unicode"
	"pgregory.net/rapid"
)

// decodedWhole is what WHATWG's decoder makes of it.
func decodedWhole(t testing.TB, p []byte) string {
	text, err := unicode.UTF8.NewDecoder().Bytes(p)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func FuzzReplaced(f *testing.F) {
	for _, s := range []string{"", "é", "caf\xe9", "\xe4\xbd", "a\xe4\xbda", "\xf0\x9f\x98", "\xf0\x9f\x98\x80", "\xed\xa0\x80", "\xc0\xaf", "\xf5\x80\x80\x80", "\xe0\x80\x80", "\ufffd\xff\x00"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		got, encoding := sniff.Replace(p)
		if want := decodedWhole(t, p); string(got) != want {
			t.Errorf("%q of %q, want %q", got, p, want)
		}
		want := map[bool]string{true: "", false: sniff.UTF8Replaced}[utf8.Valid(p)]
		if want == "" && bytes.IndexByte(p, 0) >= 0 {
			want = sniff.UTF8Plain
		}
		if encoding != want {
			t.Errorf("%q is %q", p, encoding)
		}
	})
}

// written is what an output made of chunks: its events and its result.
type written struct {
	events []sandbox.Event
	result sandbox.Result
}

// of is the data of a stream's events.
func (w written) of(s spool.Stream) (all string) {
	for _, e := range w.events {
		if string(e.Type) == s.String() {
			all += string(e.Data)
		}
	}
	return all
}

// chunk is one write, after a pause.
type chunk struct {
	stream spool.Stream
	bytes  []byte
	after  time.Duration
}

// writeAll writes chunks as an engine does, and ends as a command's execution does.
func writeAll(t testing.TB, dir string, c sandbox.Command, chunks []chunk) (w written) {
	if c.Limits.Output == 0 {
		c.Limits.Output, c.Limits.Result = 1<<20, 1<<20
	}
	c.Streams, c.OnOutputLimit = sandbox.StreamsFull, sandbox.OutputTruncate
	o := newOutput(request{command: c}, "", nil)
	if err := o.recorder.spool.Open(filepath.Join(dir, "ID"), sandbox.LogInfo{ID: "ID"}); err != nil {
		t.Fatal(err)
	}
	defer o.recorder.spool.Close()
	read := make(chan struct{})
	go func() {
		defer close(read)
		for e := range o.events.out {
			w.events = append(w.events, e)
		}
	}()
	o.begin(time.Hour, &sandbox.Start{})
	for _, c := range chunks {
		time.Sleep(c.after)
		streamWriter{o, c.stream}.Write(bytes.Clone(c.bytes))
	}
	o.flush()
	x := &execution{request: request{command: c}, output: o, local: &Local{}, result: sandbox.Result{Streams: sandbox.StreamsFull}}
	x.collect(t.Context())
	x.replaceInvalid()
	w.result = x.result
	close(o.events.out)
	<-read
	return w
}

// anyBytes are strings of what decoders stumble over.
var anyBytes = rapid.Custom(func(t *rapid.T) []byte {
	pieces := rapid.SliceOf(rapid.OneOf(
		rapid.Map(rapid.String(), func(s string) []byte { return []byte(s) }),
		rapid.SliceOf(rapid.Byte()),
		rapid.SampledFrom([][]byte{[]byte("你好"), []byte("😀"), {0xe4}, {0xe4, 0xbd}, {0xf0, 0x9f, 0x98}, {0xed, 0xa0, 0x80}, {0x80}, {0xff}, {0}}),
	)).Draw(t, "pieces")
	return bytes.Join(pieces, nil)
})

// Whatever is written, and wherever it is cut: exact events and results have the same
// bytes, and replaced ones are how the whole is decoded. Hashes are of the bytes.
func TestEncodingOfAnyChunks(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(r *rapid.T) {
		c := sandbox.Command{Encoding: rapid.SampledFrom([]sandbox.Encoding{sandbox.EncodingExact, sandbox.EncodingReplace}).Draw(r, "encoding")}
		whole := [2][]byte{anyBytes.Draw(r, "stdout"), anyBytes.Draw(r, "stderr")}
		var chunks []chunk
		for rest := whole; len(rest[0])+len(rest[1]) > 0; {
			s := rapid.IntRange(0, 1).Draw(r, "stream")
			n := rapid.IntRange(0, min(len(rest[s]), 5)).Draw(r, "size")
			chunks = append(chunks, chunk{spool.Stream(s), rest[s][:n], 0})
			rest[s] = rest[s][n:]
		}
		w := writeAll(t, dir, c, chunks)
		for s, o := range [2]sandbox.Output{w.result.Stdout, w.result.Stderr} {
			want := string(whole[s])
			if c.Encoding == sandbox.EncodingReplace {
				want = decodedWhole(t, whole[s])
				wantReplaced(r, o, whole[s])
			}
			if got := w.of(spool.Stream(s)); got != want {
				r.Errorf("events of %q, want %q", got, want)
			}
			if got := string(o.Bytes()); got != want {
				r.Errorf("a result of %q, want %q", got, want)
			}
			if sum := sha256.Sum256(whole[s]); o.SHA256 != hex.EncodeToString(sum[:]) || o.Total != int64(len(whole[s])) || o.Dropped != 0 {
				r.Errorf("%+v", o)
			}
		}
		for _, e := range w.events {
			wantReadBack(r, e, c.Encoding)
		}
	})
}

// wantReplaced wants that an output says truly whether something was replaced.
func wantReplaced(r *rapid.T, o sandbox.Output, whole []byte) {
	if (o.Encoding == sniff.UTF8Replaced) == utf8.Valid(whole) {
		r.Errorf("%q is said to be %q", whole, o.Encoding)
	}
}

// wantReadBack wants what is valid UTF-8 as a string, and to read it again.
func wantReadBack(r *rapid.T, e sandbox.Event, encoding sandbox.Encoding) {
	text, err := json.Marshal(e)
	if err != nil {
		r.Fatal(err)
	}
	var got sandbox.Event
	if err := json.Unmarshal(text, &got); err != nil || !bytes.Equal(got.Data, e.Data) || got.Encoding != e.Encoding {
		r.Errorf("%s: %v, %+v", text, err, got)
	}
	if encoding == sandbox.EncodingReplace && (!utf8.Valid(e.Data) || bytes.Contains(text, []byte(`"base64"`))) {
		r.Errorf("%s", text)
	}
}

// Of an output that has a gap, replaced text is how the whole's begins and ends.
func TestReplacedAtAGap(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(r *rapid.T) {
		whole := anyBytes.Draw(r, "bytes")
		c := sandbox.Command{Encoding: sandbox.EncodingReplace, Limits: sandbox.Limits{Output: 1 << 20, Result: rapid.Int64Range(1, 100).Draw(r, "limit")}}
		o := writeAll(t, dir, c, []chunk{{spool.Stdout, whole, 0}}).result.Stdout
		all := decodedWhole(t, whole)
		if !utf8.Valid(o.Head) || !utf8.Valid(o.Tail) || !strings.HasPrefix(all, string(o.Head)) || !strings.HasSuffix(all, string(o.Tail)) {
			r.Errorf("%q and %q of %q", o.Head, o.Tail, whole)
		}
		if int64(len(whole)) <= c.Limits.Result && (o.Dropped > 0 || string(o.Head) != all) || o.Dropped < 0 || int64(len(whole))-o.Dropped > c.Limits.Result {
			r.Errorf("dropped %d of %d", o.Dropped, len(whole))
		}
	})
}

// A character that two chunks have is in one event. What is left of one comes after
// 50 ms, as it is, and counts as output when it was written.
func TestHeldBytesComeAsTheyAre(t *testing.T) {
	for name, test := range map[string]struct {
		chunks []chunk
		want   []string
		at     []time.Duration
	}{
		"in time":      {[]chunk{{0, []byte("a\xe4"), 0}, {0, []byte("\xbd"), 30 * time.Millisecond}, {0, []byte("\xa0b"), 49 * time.Millisecond}}, []string{"a", "\u4f60b"}, []time.Duration{0, 79 * time.Millisecond}},
		"too late":     {[]chunk{{0, []byte("a\xe4"), 0}, {0, []byte("\xbd\xa0b"), 60 * time.Millisecond}}, []string{"a", "\xe4", "\xbd\xa0b"}, []time.Duration{0, 50 * time.Millisecond, 60 * time.Millisecond}},
		"at the end":   {[]chunk{{0, []byte("\xf0\x9f\x98"), 0}}, []string{"\xf0\x9f\x98"}, []time.Duration{0}},
		"no beginning": {[]chunk{{0, []byte("a\xff"), 0}, {0, []byte("\xe0\x80"), time.Second}}, []string{"a\xff", "\xe0\x80"}, []time.Duration{0, time.Second}},
		"per stream":   {[]chunk{{0, []byte("\xc3"), 0}, {1, []byte("\xa9"), time.Millisecond}, {0, []byte("\xa9"), time.Millisecond}}, []string{"\xa9", "é"}, []time.Duration{time.Millisecond, 2 * time.Millisecond}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				var got []string
				var at []time.Duration
				for _, e := range writeAll(t, dir, sandbox.Command{Encoding: sandbox.EncodingExact}, test.chunks).events[1:] {
					got, at = append(got, string(e.Data)), append(at, e.Time.Sub(began))
				}
				if strings.Join(got, "|") != strings.Join(test.want, "|") || len(at) != len(test.at) {
					t.Fatalf("%q at %v, want %q", got, at, test.want)
				}
				for i := range at {
					if at[i] != test.at[i] {
						t.Errorf("%q at %v, want %v", got, at, test.at)
					}
				}
			})
		})
	}
}

// Where bytes are replaced, a part of a character waits until it is known what it is.
func TestReplacedWaits(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := writeAll(t, dir, sandbox.Command{Encoding: sandbox.EncodingReplace}, []chunk{{0, []byte("\xe4\xbd"), 0}, {0, []byte("\xa0\xe9"), time.Second}, {0, []byte("x\xe4"), time.Minute}})
		if got := w.of(spool.Stdout); got != "\u4f60\ufffdx\ufffd" {
			t.Errorf("%q", got)
		}
	})
}

// A reader that is away when held bytes come makes nothing wait that ends the command.
func TestHeldBytesWithoutAReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sandbox.Command{Limits: sandbox.Limits{Output: 1 << 20}, OnOutputLimit: sandbox.OutputTruncate}
		o := newOutput(request{command: c}, "", nil)
		o.begin(time.Hour, &sandbox.Start{})
		for range eventBuffer - 1 { // and the start
			o.chunks.write(spool.Stdout, []byte("x"))
		}
		o.chunks.write(spool.Stdout, []byte("\xe4"))
		time.Sleep(time.Second)
		close(o.events.ending)
		o.flush()
		if o.events.dropped != 1 {
			t.Errorf("%d bytes dropped", o.events.dropped)
		}
	})
}
