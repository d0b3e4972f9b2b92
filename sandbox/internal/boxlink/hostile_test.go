package boxlink

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"belljar/internal/boxinit/wire"
)

// fake is a link whose init says text after its hello, and a process that was asked for then.
func fake(t testing.TB, text []byte) (l *Link, p *Process, err error) {
	t.Helper()
	return fakeTo(t, io.Discard, text)
}

// fakeTo is fake where the process's output goes there.
func fakeTo(t testing.TB, out io.Writer, text []byte) (l *Link, p *Process, err error) {
	t.Helper()
	s := script("", out, out)
	s.Stdin = bytes.NewReader(nil)
	return fakeStart(t, s, text)
}

// fakeStart is fake with that process.
func fakeStart(t testing.TB, s Start, text []byte) (l *Link, p *Process, err error) {
	t.Helper()
	ours, theirs := net.Pipe()
	l = Frames(ours)
	asked := make(chan struct{}, 2)
	go func() {
		defer close(asked)
		for request := make([]byte, wire.MaxFrame); ; {
			if _, err := theirs.Read(request); err != nil {
				return
			}
			select {
			case asked <- struct{}{}:
			default: // not one of the first two
			}
		}
	}()
	go func() {
		defer theirs.Close()
		<-asked // an answer before is refused
		theirs.Write(append([]byte("stale \x00belljar-init"), wire.Marker...))
		theirs.Write(l.nonce)
		theirs.Write(wire.AppendFrame(nil, wire.Welcome, 1, wire.AppendUint32(nil, wire.Version)))
		<-asked
		theirs.Write(text)
	}()
	if err := l.Hello(within(t)); err != nil {
		return l, nil, err
	}
	p, err = l.Start(within(t), s)
	return l, p, err
}

func started(text ...[]byte) []byte {
	all := wire.AppendFrame(nil, wire.Started, 2, wire.StartedAnswer{PID: 5, StartTicks: 1}.Encode(nil))
	return append(all, bytes.Join(text, nil)...)
}

func frame(kind wire.Kind, id uint32, body ...byte) []byte {
	return wire.AppendFrame(nil, kind, id, body)
}

// An init that breaks the protocol breaks the link, and nothing else.
func TestHostile(t *testing.T) {
	exit := wire.ExitedAnswer{Status: 3}.Encode(nil)
	much := bytes.Repeat(frame(wire.Stdout, 2, make([]byte, 1+wire.MaxData)...), 1+wire.Window/wire.MaxData)
	for name, c := range map[string]struct {
		text   []byte
		fails  bool
		either bool // if all was written meanwhile
	}{
		"well":                {started(frame(wire.Stdout, 2, 0, 'a'), frame(wire.Exited, 2, exit...), frame(wire.Ended, 2, byte(wire.Stdout)), frame(wire.Ended, 2, byte(wire.Stderr)), frame(wire.Rested, 2)), false, false},
		"late":                {started(frame(wire.Exited, 2, exit...), frame(wire.Ended, 2, byte(wire.Stdout)), frame(wire.Ended, 2, byte(wire.Stderr)), frame(wire.Allowed, 2, 0, 0, 0, 1)), false, false},
		"an unknown ID":       {started(frame(wire.Stdout, 9, 0, 'a')), true, false},
		"no ID":               {started(frame(wire.Stdout, 0, 0, 'a')), true, false},
		"an unknown kind":     {started(frame('?', 2)), true, false},
		"started twice":       {started(started()), true, false},
		"refused then":        {started(wire.AppendFrame(nil, wire.NotStarted, 2, wire.Refusal{}.Encode(nil))), true, false},
		"output before":       {frame(wire.Stdout, 2, 0, 'a'), true, false},
		"PID 1":               {wire.AppendFrame(nil, wire.Started, 2, wire.StartedAnswer{PID: 1}.Encode(nil)), true, false},
		"exited twice":        {started(frame(wire.Exited, 2, exit...), frame(wire.Exited, 2, exit...)), true, false},
		"a status of 256":     {started(frame(wire.Exited, 2, wire.ExitedAnswer{Status: 256}.Encode(nil)...)), true, false},
		"ended twice":         {started(frame(wire.Ended, 2, byte(wire.Stdout)), frame(wire.Ended, 2, byte(wire.Stdout))), true, false},
		"output after end":    {started(frame(wire.Ended, 2, byte(wire.Stdout)), frame(wire.Stdout, 2, 0, 'a')), true, false},
		"rested twice":        {started(frame(wire.Rested, 2), frame(wire.Rested, 2)), true, false},
		"stdin not sent":      {started(frame(wire.Allowed, 2, 0, 1, 0, 0)), true, false},
		"an unknown stream":   {started(frame(wire.Ended, 2, '?')), true, false},
		"too much at once":    {[]byte("1\x00\x00\x00\x02\xff\xff\xff\xff"), true, false},
		"an answer unasked":   {started(frame(wire.Done, 2, 0, 0, 0, 0)), true, false},
		"welcome again":       {started(frame(wire.Welcome, 1, 0, 0, 0, 1)), true, false},
		"garbled":             {started(frame(wire.Garbled, 0)), true, false},
		"half a frame":        {started([]byte("1\x00\x00")), false, false},
		"more than allowed":   {append(started(), much...), true, true},
		"frames without text": {append(started(), bytes.Repeat(frame(wire.Stdout, 2, 0), 3000)...), true, true},
		"data without a mask": {started(frame(wire.Stdout, 2)), true, false},
		"a mask without data": {started(frame(wire.Stdout, 2, 1)), true, false},
		"masked, and no end":  {started(frame(wire.Stdout, 2, 1, 'a')), true, false},
		"longer than data is": {started(frame(wire.Stdout, 2, make([]byte, wire.MaxFrame)...)), true, false},
	} {
		t.Run(name, func(t *testing.T) {
			l, p, err := fake(t, c.text)
			t.Cleanup(func() {
				if p != nil {
					p.Close()
				}
				l.Close()
			})
			if p == nil && err == nil {
				t.Error("no process and no error")
			}
			<-l.Done()
			broken := !errors.Is(l.Err(), io.EOF) && !errors.Is(l.Err(), io.ErrUnexpectedEOF)
			if broken != c.fails && !c.either {
				t.Errorf("the link ended with %v", l.Err())
			}
		})
	}
}

// A hello that is not answered, or drowned, ends with its context.
func TestNoHello(t *testing.T) {
	for name, say := range map[string]func(w io.Writer){
		"silence": func(io.Writer) {},
		"a flood": func(w io.Writer) {
			for block := make([]byte, 64<<10); ; {
				if _, err := w.Write(block); err != nil {
					return
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			defer theirs.Close()
			l := Frames(ours)
			go io.Copy(io.Discard, theirs)
			go say(theirs)
			ctx, cancel := context.WithTimeout(within(t), 30*time.Millisecond)
			defer cancel()
			if err := l.Hello(ctx); err == nil {
				t.Error("it is answered")
			}
			l.Close()
		})
	}
}

// A hello whose answer is lost, or comes late, is said again.
func TestHelloAgain(t *testing.T) {
	for name, lost := range map[string]bool{"lost": true, "late": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ours, theirs := net.Pipe()
			defer theirs.Close()
			l := Frames(ours)
			defer l.Close()
			go func() {
				request := make([]byte, wire.MaxFrame)
				answer := func(id uint32) {
					theirs.Write(append([]byte(wire.Marker), l.nonce...))
					theirs.Write(wire.AppendFrame(nil, wire.Welcome, id, wire.AppendUint32(nil, wire.Version)))
				}
				theirs.Read(request)
				theirs.Read(request)
				if !lost {
					answer(1)
				}
				answer(2)
				theirs.Read(request)
				theirs.Write(frame(wire.Done, 3, 0, 0, 0, 0))
			}()
			if err := l.Hello(within(t)); err != nil {
				t.Fatal(err)
			}
			if !l.Answers(within(t)) {
				t.Errorf("it does not answer: %v", l.Err())
			}
		})
	}
}

func TestVersion(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	l := Frames(ours)
	defer l.Close()
	go io.Copy(io.Discard, theirs)
	go func() {
		theirs.Write(append([]byte(wire.Marker), l.nonce...))
		theirs.Write(frame(wire.Welcome, 1, 0, 0, 0, wire.Version+1))
	}()
	if err := l.Hello(within(t)); !errors.Is(err, ErrVersion) {
		t.Errorf("got %v", err)
	}
}

// A start whose answer came began, also where the link broke right after it, and what came of its output is passed on. Where none
// came nobody knows.
func TestLinkBreaksAtTheStart(t *testing.T) {
	for range 100 {
		var out bytes.Buffer
		l, p, err := fakeTo(t, &out, started(frame(wire.Stdout, 2, 0, 'h', 'i')))
		if err != nil {
			t.Fatalf("it was answered: %v", err)
		}
		<-p.Ended()
		p.Close()
		l.Close()
		if out.String() != "hi" || p.Complete() {
			t.Fatalf("%q, complete: %v", &out, p.Complete())
		}
		l, _, err = fakeTo(t, &out, nil)
		if !errors.Is(err, ErrUnknown) {
			t.Fatalf("it was not answered: %v", err)
		}
		l.Close()
	}
}

func FuzzAnswers(f *testing.F) {
	f.Add(started(frame(wire.Stdout, 2, 0, 'a'), frame(wire.Exited, 2, wire.ExitedAnswer{}.Encode(nil)...), frame(wire.Ended, 2, '1'), frame(wire.Ended, 2, '2')))
	f.Add(wire.AppendFrame(nil, wire.NotStarted, 2, wire.Refusal{Step: "x"}.Encode(nil)))
	f.Add(frame(wire.Listed, 1, 'x'))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, p, err := fake(t, text)
		if p == nil && err == nil {
			t.Error("no process and no error")
		}
		<-l.Done()
		if p != nil {
			<-p.Ended()
			p.Close()
		}
		l.Close()
	})
}
