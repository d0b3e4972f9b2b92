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
			o := newOutput(sandbox.Command{Limits: sandbox.Limits{Output: 16 << 20}}, "")
			o.spool = spool.New(16<<20, sandbox.OutputTruncate)
			if err := o.spool.Open(filepath.Join(b.TempDir(), "ID"), sandbox.LogInfo{ID: "ID"}); err != nil {
				b.Fatal(err)
			}
			defer o.spool.Remove()
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
				o.write(spool.Stdout, chunk)
			}
			close(o.events)
			<-done
			o.idle.hold()
		})
	}
}
