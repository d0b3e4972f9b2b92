package boxlink

import (
	"errors"
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
