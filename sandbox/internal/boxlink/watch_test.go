package boxlink

import (
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"belljar/internal/boxinit/wire"
)

// Once a bug: an init whose node was lost kept its link, and a link on which nothing was said for hours was ended by who carried it.
func TestWatch(t *testing.T) {
	for name, c := range map[string]struct {
		deaf []uint32 // the questions without an answer, the last one for good
		ends time.Duration
	}{
		"from the first on": {[]uint32{1}, 90 * time.Second},
		"one is lost":       {[]uint32{2, 5}, 7 * 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ours, theirs := net.Pipe()
				defer theirs.Close()
				l, asked, began := Frames(ours), uint32(0), time.Now()
				go func() {
					theirs.Write(append([]byte(wire.Marker), l.nonce...))
					for request := make([]byte, wire.MaxFrame); ; {
						if _, err := theirs.Read(request); err != nil {
							return
						}
						if asked++; asked < c.deaf[len(c.deaf)-1] && !slices.Contains(c.deaf, asked) {
							theirs.Write(frame(wire.Done, asked, 0, 0, 0, 0))
						}
					}
				}()
				l.Watch(30 * time.Second)
				<-l.Done()
				if took := time.Since(began); took != c.ends || !errors.Is(l.Err(), ErrUnanswered) {
					t.Errorf("it ended after %v, and not %v, with %v", took, c.ends, l.Err())
				}
				l.Close()
			})
		})
	}
}

// Who closes a link does not wait for the next question.
func TestWatchEndsWithItsLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		l, began := Frames(ours), time.Now()
		l.Watch(time.Hour)
		l.Close()
		l.Watch(time.Hour)
		if took := time.Since(began); took != 0 || !errors.Is(l.Err(), ErrClosed) {
			t.Errorf("closed after %v, with %v", took, l.Err())
		}
	})
}

// Answers that come later than the next question are behind output: a link on which something comes is not silent.
func TestWatchOfAFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		l, began := Frames(ours), time.Now()
		go func() {
			for request := make([]byte, wire.MaxFrame); ; {
				if _, err := theirs.Read(request); err != nil {
					return
				}
			}
		}()
		l.mu.Lock()
		p := l.newCall() // what its frames are of is forgotten
		l.mu.Unlock()
		go func() {
			theirs.Write(append([]byte(wire.Marker), l.nonce...))
			for time.Since(began) < time.Hour {
				theirs.Write(frame(wire.Stdout, p.id, 0, 'y'))
				time.Sleep(10 * time.Second)
			}
		}()
		l.Watch(30 * time.Second)
		<-l.Done()
		if took := time.Since(began); took < time.Hour || took > time.Hour+2*time.Minute || !errors.Is(l.Err(), ErrUnanswered) {
			t.Errorf("it ended after %v, with %v", took, l.Err())
		}
		l.Close()
	})
}

// Output comes at a link's pace, and all of it.
func TestPace(t *testing.T) {
	const burst, perSecond, seconds = 4 * wire.Window, wire.Window / 2, 20
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		l := Frames(ours)
		l.Pace(burst, perSecond)
		allowed := make(chan int, 100)
		began := make(chan struct{})
		go func() {
			defer close(allowed)
			var lines wire.Lines
			for request := make([]byte, wire.MaxFrame); ; {
				n, err := theirs.Read(request)
				if err != nil {
					return
				}
				for text := request[:n]; len(text) > 0; {
					r, rest, ok := lines.Feed(text)
					if text = rest; !ok {
						break
					}
					switch r.Kind {
					case wire.Hello:
						go theirs.Write(append(append([]byte(wire.Marker), l.nonce...), frame(wire.Welcome, 1, wire.AppendUint32(nil, wire.Version)...)...))
					case wire.Start:
						close(began)
					case wire.Allow:
						more, _ := wire.Uint32(r.Body[1:])
						allowed <- int(more)
					}
				}
			}
		}()
		go func() {
			defer theirs.Close()
			<-began
			theirs.Write(started())
			for left, may := burst+seconds*perSecond, wire.Window; left > 0; {
				for may < min(left, wire.MaxData) {
					may += <-allowed
				}
				n := min(left, wire.MaxData)
				theirs.Write(frame(wire.Stdout, 2, make([]byte, 1+n)...))
				left, may = left-n, may-n
			}
		}()
		if err := l.Hello(t.Context()); err != nil {
			t.Fatal(err)
		}
		at, out := time.Now(), 0
		p, err := l.Start(t.Context(), script("", counting(&out), io.Discard))
		if err != nil {
			t.Fatal(err)
		}
		<-p.Ended()
		took := time.Since(at)
		if out != burst+seconds*perSecond || took < (seconds-2)*time.Second || took > (seconds+1)*time.Second {
			t.Errorf("%d bytes in %v", out, took)
		}
		p.Close()
		l.Close()
	})
}

// counting counts what is written.
type counter int

func counting(n *int) *counter { return (*counter)(n) }

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// What was read before a link failed, and is taken after that, is no whole output.
func TestTakenTooLate(t *testing.T) {
	l, p, err := fake(t, started())
	if err != nil {
		t.Fatal(err)
	}
	<-l.Done()
	for _, stream := range []wire.Kind{wire.Stdout, wire.Stderr} {
		if l.take(wire.Ended, p.id, []byte{byte(stream)}) {
			t.Errorf("the end of %q", stream)
		}
	}
	if p.Complete() {
		t.Error("it is complete")
	}
	p.Close()
	l.Close()
}
