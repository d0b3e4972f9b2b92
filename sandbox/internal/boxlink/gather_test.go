package boxlink

import (
	"bytes"
	"io"
	"os"
	"sync/atomic"
	"testing"

	"belljar/internal/boxinit"
	"belljar/internal/boxinit/boxinittest"
	"belljar/internal/boxinit/wire"

	"golang.org/x/sys/unix"
)

// messages counts what an init writes: each write is a message of a socket.
type messages struct {
	*os.File
	n    atomic.Int64
	rest []byte
	room [wire.MaxFrame + 1<<10]byte
}

func (m *messages) Read(p []byte) (int, error) {
	if len(m.rest) == 0 {
		n, err := m.File.Read(m.room[:])
		if n <= 0 {
			return n, err
		}
		m.n.Add(1)
		m.rest = m.room[:n]
	}
	n := copy(p, m.rest)
	m.rest = m.rest[n:]
	return n, nil
}

// Who is far away is told all of a short process in one message: that it started, what it wrote, how it ended, and what was left.
func TestShortProcessIsToldAtOnce(t *testing.T) {
	cmd := boxinittest.Command(t, boxinit.Config{Carrier: boxinit.Frames, UID: initUID})
	in, out := stdio(t, cmd)
	out.Close()
	cmd.Stdout.(*os.File).Close()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	read, theirs := &messages{File: os.NewFile(uintptr(fds[0]), "messages")}, os.NewFile(uintptr(fds[1]), "messages")
	cmd.Stdout = theirs
	l := Frames(duplex{read, in, read})
	begin(t, cmd, l)
	least := map[bool]int64{}
	for range 200 { // some take long
		for _, far := range []bool{false, true} {
			var text bytes.Buffer
			s := script("echo said", &text, io.Discard)
			if far {
				s.Around = &Around{Before: true, Texts: []string{"/proc/uptime"}, Spaces: []string{"/proc"}}
			}
			before := read.n.Load()
			p := start(t, l, s)
			<-p.Exited()
			<-p.Ended()
			if far {
				if list, ok := p.ProcessesAtExit(within(t), -1); !ok || len(list) > 0 {
					t.Errorf("%+v, %v", list, ok)
				}
				if _, _, ok := p.LookAtExit(within(t)); !ok {
					t.Error("nothing was looked at")
				}
			}
			p.Close()
			if text.String() != "said\n" {
				t.Errorf("%q", text.String())
			}
			if n := read.n.Load() - before; least[far] == 0 || n < least[far] {
				least[far] = n
			}
		}
	}
	if least[true] != 1 || least[false] < 2 {
		t.Errorf("%d messages, %d where it is near", least[true], least[false])
	}
}
