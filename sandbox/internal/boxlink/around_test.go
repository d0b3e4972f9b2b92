package boxlink

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"belljar/internal/boxinit/wire"
)

// What ran, and what files had in them, when a process ended is told without another question.
func TestAround(t *testing.T) {
	each(t, func(t *testing.T, l *Link) {
		for range 3 {
			const executed = `until read name </proc/$!/comm && [ "$name" = sleep ]; do :; done` // until then it is a second sh
			s := script("sleep 300 >/dev/null & "+executed, io.Discard, io.Discard)
			s.Around = &Around{Before: true, Texts: []string{"/proc/uptime", "/none"}, Spaces: []string{"/proc"}}
			p := start(t, l, s)
			<-p.Exited()
			list, ok := p.ProcessesAtExit(within(t), -1)
			if !ok || len(list) == 0 || list[len(list)-1].Command != "sleep 300" {
				t.Errorf("%+v, %v", list, ok)
			}
			texts, spaces, ok := p.LookAtExit(within(t))
			if !ok || len(texts) != 2 || !strings.Contains(texts[0], ".") || texts[1] != "" || len(spaces) != 1 || spaces[0].Type == 0 {
				t.Errorf("%q %v %v", texts, spaces, ok)
			}
			if texts, ok := p.TextsBefore(within(t)); !ok || !strings.Contains(texts[0], ".") {
				t.Errorf("before: %q %v", texts, ok)
			}
			refused := s
			refused.Dir = "/none"
			var why *StartError
			if _, err := l.Start(within(t), refused); !errors.As(err, &why) || why.Reason != NoDir {
				t.Errorf("got %v", err)
			}
		}
		if err := l.KillAll(within(t)); err != nil {
			t.Fatal(err)
		}
		if len(l.calls) > 0 {
			t.Errorf("%d questions are open", len(l.calls))
		}
	})
}

// An init of an earlier version does not know the question: it is asked later, as before.
func TestAroundOfAnEarlierInit(t *testing.T) {
	var out bytes.Buffer
	exit := wire.ExitedAnswer{Status: 3}.Encode(nil)
	for _, text := range [][]byte{
		started(frame(wire.Exited, 2, exit...), frame(wire.Ended, 2, byte(wire.Stdout)), frame(wire.Ended, 2, byte(wire.Stderr))),
		wire.AppendFrame(nil, wire.NotStarted, 2, wire.Refusal{Reason: NoDir}.Encode(nil)),
	} {
		s := script("", &out, &out)
		s.Around = &Around{Texts: []string{"/proc/uptime"}}
		l, p, err := fakeStart(t, s, text)
		if p != nil {
			<-p.Exited()
			if _, ok := p.ProcessesAtExit(within(t), -1); ok {
				t.Error("a list of nothing")
			}
			if _, _, ok := p.LookAtExit(within(t)); ok {
				t.Error("a look at nothing")
			}
			p.Close()
		} else if err == nil {
			t.Error("no process and no error")
		}
		l.Close()
		if len(l.calls) > 0 {
			t.Errorf("%d questions are open", len(l.calls))
		}
	}
}
