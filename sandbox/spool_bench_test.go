package sandbox

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"
)

// What each chunk of output costs: kept, counted, hashed and passed on.
func BenchmarkOutput(b *testing.B) {
	for _, size := range []int{100, 16 << 10, 32 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			o := newOutput(Command{Limits: Limits{Output: 16 << 20}}, "")
			o.spool = newSpool(16<<20, OutputTruncate)
			if err := o.spool.open(filepath.Join(b.TempDir(), "ID"), LogInfo{ID: "ID"}); err != nil {
				b.Fatal(err)
			}
			defer o.spool.remove()
			o.begin(time.Hour)
			done := make(chan struct{})
			go func() {
				for range o.events {
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
				o.write(stdout, chunk)
			}
			close(o.events)
			<-done
			o.idle.hold()
		})
	}
}
