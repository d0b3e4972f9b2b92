package wire

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// read is what Lines makes of a text in pieces of that size.
func read(text []byte, size int) (all []Request) {
	var l Lines
	for len(text) > 0 {
		n := min(size, len(text))
		piece := text[:n]
		text = text[n:]
		for {
			r, rest, ok := l.Feed(piece)
			if !ok {
				break
			}
			r.Body = bytes.Clone(r.Body)
			all, piece = append(all, r), rest
		}
	}
	return all
}

var (
	nonce = []byte("0123\n5\\789abcdef")
	other = []byte("x123\n5\\789abcdef")
)

// What is sent is read, however it is torn; what another client sent before is not.
func TestLines(t *testing.T) {
	var text []byte
	text = append(text, "junk\\\\\\"...)
	text = AppendLine(text, nonce, Ping, 1, nil) // before the hello
	text = AppendLine(text, other, Hello, 2, other)
	text = AppendLine(text, other, Stdin, 3, []byte("a\n\\n\\\\\x00"))
	cut := AppendLine(nil, other, Stdin, 4, []byte("cut"))
	text = append(text, cut[:len(cut)-3]...)
	text = append(text, '\n')
	text = AppendLine(text, nonce, Hello, 5, nonce)
	text = AppendLine(text, other, Stdin, 6, []byte("late"))
	text = append(text, '\n', '\n')
	text = AppendLine(text, nonce, Stdin, 7, bytes.Repeat([]byte("\\"), 1000))
	text = append(text, AppendLine(nil, nonce, Stdin, 8, []byte("torn"))[3:]...)
	text = append(text, AppendLine(nil, nonce, Stdin, 9, []byte("torn"))[:12]...)
	text = append(text, '\n')
	text = AppendLine(text, nonce, Ping, 10, nil)
	want := []Request{
		{Hello, 2, other}, {Stdin, 3, []byte("a\n\\n\\\\\x00")}, {Garbled, 0, nil},
		{Hello, 5, nonce}, {Stdin, 7, bytes.Repeat([]byte("\\"), 1000)}, {Garbled, 0, nil}, {Ping, 10, []byte{}},
	}
	for size := range 50 {
		if diff := cmp.Diff(want, read(text, size+1)); diff != "" {
			t.Fatalf("in pieces of %d: %s", size+1, diff)
		}
	}
}

// A line that is too long costs no memory and is none.
func TestLongLine(t *testing.T) {
	var l Lines
	l.Feed(AppendLine(nil, nonce, Hello, 1, nonce))
	piece := bytes.Repeat([]byte("x"), 1<<20)
	for range 2 * MaxRequest >> 20 {
		if _, _, ok := l.Feed(piece); ok || len(l.line) > MaxRequest {
			t.Fatal("it is taken")
		}
	}
	l.Feed([]byte("\n"))
	if cap(l.line) > keepLine {
		t.Errorf("%d bytes are kept", cap(l.line))
	}
	if r, _, ok := l.Feed(AppendLine(nil, nonce, Ping, 2, nil)); !ok || r.Kind != Ping {
		t.Errorf("got %v", r)
	}
}

// Every message is read as it was written, and not with a byte more or less.
func TestMessages(t *testing.T) {
	start := &StartRequest{UID: 1, GID: 1<<32 - 1, Stdin: true, Terminal: &Size{24, 80}, Dir: "/\x00", Args: []string{"sh", "", "\n"}, Env: []string{"A=b"}}
	if got, ok := DecodeStart(start.Encode(nil)); !ok || cmp.Diff(start, got) != "" {
		t.Errorf("got %v", got)
	}
	for name, c := range map[string]struct {
		text   []byte
		decode func([]byte) bool
	}{
		"start":   {start.Encode(nil), func(b []byte) bool { _, ok := DecodeStart(b); return ok }},
		"size":    {Size{1, 2}.Encode(nil), func(b []byte) bool { s, ok := DecodeSize(b); return ok && s == Size{1, 2} }},
		"signal":  {SignalRequest{5, 1 << 40, 9}.Encode(nil), func(b []byte) bool { s, ok := DecodeSignal(b); return ok && s == SignalRequest{5, 1 << 40, 9} }},
		"started": {StartedAnswer{5, 1 << 40, 3}.Encode(nil), func(b []byte) bool { s, ok := DecodeStarted(b); return ok && s == StartedAnswer{5, 1 << 40, 3} }},
		"refusal": {Refusal{NoDir, 2, "x"}.Encode(nil), func(b []byte) bool { s, ok := DecodeRefusal(b); return ok && s == Refusal{NoDir, 2, "x"} }},
		"exited":  {ExitedAnswer{137, -1}.Encode(nil), func(b []byte) bool { s, ok := DecodeExited(b); return ok && s == ExitedAnswer{137, -1} }},
	} {
		if !c.decode(c.text) {
			t.Errorf("%s: not read", name)
		}
		for n := range c.text {
			if c.decode(c.text[:n]) {
				t.Errorf("%s: read without its last %d bytes", name, len(c.text)-n)
			}
		}
		if c.decode(append(c.text, 0)) {
			t.Errorf("%s: read with a byte more", name)
		}
	}
	for _, bad := range [][]byte{StartedAnswer{PID: 1}.Encode(nil), StartedAnswer{PID: 1 << 30}.Encode(nil)} {
		if _, ok := DecodeStarted(bad); ok {
			t.Errorf("%v is read", bad)
		}
	}
	if _, ok := DecodeExited(ExitedAnswer{Status: 256}.Encode(nil)); ok {
		t.Error("a status of 256 is read")
	}
}

func FuzzLines(f *testing.F) {
	f.Add(AppendLine(AppendLine(nil, nonce, Hello, 1, nonce), nonce, Stdin, 2, []byte("a\nb\\")), 3)
	f.Fuzz(func(t *testing.T, text []byte, size int) {
		size = 1 + max(0, size)%64
		if diff := cmp.Diff(read(text, len(text)+1), read(text, size)); diff != "" {
			t.Errorf("in pieces of %d: %s", size, diff)
		}
		// After a hello what came before is forgotten, up to the end of its line.
		text = append(text, '\n')
		text = AppendLine(text, nonce, Hello, 1, nonce)
		text = AppendLine(text, nonce, Stdin, 2, []byte("body"))
		all := read(text, size)
		if n := len(all); n < 2 || all[n-2].Kind != Hello || string(all[n-1].Body) != "body" {
			t.Errorf("got %v", all)
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add((&StartRequest{Args: []string{"a"}, Env: []string{"b"}}).Encode(nil))
	f.Add(AppendRecord(nil, []byte("a"), nil))
	f.Add((&AtExitRequest{1, []Request{{List, 2, nil}, {Look, 3, []byte("a")}}}).Encode(nil))
	f.Fuzz(func(t *testing.T, text []byte) {
		if s, ok := DecodeStart(text); ok {
			if again, ok := DecodeStart(s.Encode(nil)); !ok || cmp.Diff(s, again) != "" {
				t.Errorf("%v is read as %v", s, again)
			}
		}
		if texts, ok := DecodeRecord(text); ok {
			var b [][]byte
			for _, s := range texts {
				b = append(b, []byte(s))
			}
			if !bytes.Equal(AppendRecord(nil, b...), text) {
				t.Errorf("%q is read as %q", text, texts)
			}
		}
		if a, ok := DecodeAtExit(text); ok {
			if again, ok := DecodeAtExit(a.Encode(nil)); !ok || cmp.Diff(a, again) != "" {
				t.Errorf("%v is read as %v", a, again)
			}
		}
		DecodeRefusal(text)
		DecodeSignal(text)
		if len(text) >= Header {
			DecodeHeader(text[:Header])
		}
	})
}

// Data is read as it was, in few lines, and in no more bytes than a frame may have.
func TestData(t *testing.T) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	for name, c := range map[string]struct {
		text  []byte
		lines int // at most
	}{
		"nothing":     {nil, 0},
		"a line":      {[]byte("hello\n"), 1},
		"short lines": {bytes.Repeat([]byte("y\n"), MaxData/2), 1},
		"newlines":    {bytes.Repeat([]byte("\n"), MaxData), 1},
		"one long":    {bytes.Repeat([]byte("y"), MaxData), 0},
		"every byte":  {bytes.Repeat(every, MaxData/256), MaxData / 256},
		"no byte 0":   {bytes.Repeat(append(bytes.Repeat([]byte("\n"), 9), every[1:]...), 9), 2},
		"most often":  {bytes.Repeat(append(bytes.Repeat([]byte("\n"), 9), every...), 9), 11},
	} {
		t.Run(name, func(t *testing.T) {
			b := make([]byte, Header+MaxFrame)
			frame := PutData(b, Stdout, 7, copy(b[DataAt:], c.text), true)
			if n := bytes.Count(frame[Header:], []byte("\n")); n > c.lines {
				t.Errorf("%d lines", n)
			}
			kind, id, size, ok := DecodeHeader(frame[:Header])
			if kind != Stdout || id != 7 || size != len(frame)-Header || !ok {
				t.Fatal(kind, id, size, ok)
			}
			if got, ok := Data(frame[Header:]); !ok || !bytes.Equal(got, c.text) {
				t.Errorf("%d bytes of %d: %v", len(got), len(c.text), ok)
			}
			frame = PutData(b, Stdout, 7, copy(b[DataAt:], c.text), false)
			if got, ok := Data(frame[Header:]); !ok || !bytes.Equal(got, c.text) || bytes.Count(frame[Header:], []byte("\n")) != bytes.Count(c.text, []byte("\n")) {
				t.Errorf("not logged: %d bytes of %d: %v", len(got), len(c.text), ok)
			}
		})
	}
}

func FuzzData(f *testing.F) {
	f.Add([]byte("a\n\n\nb"), []byte("\x01a\n"))
	f.Fuzz(func(t *testing.T, text, body []byte) {
		text = text[:min(len(text), MaxData)]
		b := make([]byte, Header+MaxFrame)
		frame := PutData(b, Stderr, 1, copy(b[DataAt:], text), true)
		if got, ok := Data(frame[Header:]); !ok || !bytes.Equal(got, text) {
			t.Errorf("%q is read as %q", text, got)
		}
		if got, ok := Data(body); ok && len(got) > MaxData && len(body) <= MaxFrame {
			t.Errorf("%d bytes", len(got))
		}
	})
}
