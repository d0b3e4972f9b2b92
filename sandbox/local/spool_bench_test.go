package local

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/internal/spool"
)

// What each chunk of output costs: kept, counted, hashed and passed on.
func BenchmarkOutput(b *testing.B) {
	for _, size := range []int{100, 16 << 10, 32 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			c := sandbox.Command{Limits: sandbox.Limits{Output: 16 << 20}, OnOutputLimit: sandbox.OutputTruncate}
			o := newOutput(request{command: c}, "", nil)
			if err := o.recorder.spool.Open(filepath.Join(b.TempDir(), "ID"), sandbox.LogInfo{ID: "ID"}); err != nil {
				b.Fatal(err)
			}
			defer o.recorder.spool.Remove()
			o.begin(time.Hour, nil)
			done := make(chan struct{})
			go func() {
				for range o.events.out {
				}
				close(done)
			}()
			chunk := make([]byte, size)
			for i := range chunk {
				chunk[i] = "text that is as text is\n"[i%24]
			}
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				o.write(spool.Stdout, chunk)
			}
			close(o.events.out)
			<-done
			o.activity.idle.pause()
		})
	}
}
