package docker

import (
	"bytes"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// What a process wrote is read once it has ended, whether or not anyone takes it; before,
// it waits.
func TestBacklog(t *testing.T) {
	for _, test := range []struct {
		name      string
		size      int
		endsAfter time.Duration // of the process, as the engine tells it
		told      time.Duration // how long the engine takes to say so
		cut       bool
	}{
		{name: "ends at once", size: 4 << 20},
		{name: "ends later", size: 4 << 20, endsAfter: time.Minute},
		{name: "told too late", size: 4 << 20, told: 2 * time.Second, cut: true},
		{name: "others write on", size: lateMost + 1<<20, cut: true},
		{name: "fits", size: aheadMost / 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				written, to := io.Pipe()
				var passed atomic.Int64
				go func() {
					for left := test.size; left > 0; left -= 1000 {
						n, _ := to.Write(make([]byte, min(left, 1000)))
						passed.Add(int64(n))
					}
					to.Close()
				}()
				var cut atomic.Bool
				ended := func() bool {
					time.Sleep(test.told)
					return time.Since(begun) >= test.endsAfter
				}
				b, stop := readAhead(written, ended, func(string) { cut.Store(true) })
				defer stop()
				time.Sleep(test.endsAfter - time.Second)
				if got := passed.Load(); test.endsAfter > 0 && got > aheadMost+64<<10 {
					t.Errorf("%d bytes of a running process wait", got)
				}
				time.Sleep(10 * time.Second)
				if got := passed.Load(); !test.cut && int(got) != test.size {
					t.Errorf("%d bytes of %d were read after the end", got, test.size)
				}
				got, err := io.Copy(io.Discard, b)
				if err != nil || int(got) != test.size || cut.Load() != test.cut {
					t.Errorf("%d bytes of %d, error %v, cut %v", got, test.size, err, cut.Load())
				}
			})
		})
	}
}

// Nobody who leaves makes the engine's stream wait.
func TestBacklogIsLeft(t *testing.T) {
	synctest.Test(t, func(*testing.T) {
		_, stop := readAhead(bytes.NewReader(make([]byte, 4<<20)), func() bool { return false }, func(string) {})
		time.Sleep(time.Second)
		stop()
	})
}
