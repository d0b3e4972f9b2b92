package sandbox

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func BenchmarkDelivery(b *testing.B) {
	line := "echo 'it''s' \"$HOME\"; printf '%s\\n' x\n"
	for _, size := range []int{1 << 10, 64 << 10} {
		c := Command{Dir: "/work", Script: strings.Repeat(line, size/len(line)), Env: []string{"LANG=C.UTF-8", "PATH=/usr/local/bin:/usr/bin:/bin"}}
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			b.SetBytes(int64(len(c.Script)))
			b.ReportAllocs()
			for b.Loop() {
				if _, ok := delivery(c, maxDelivery); !ok {
					b.Fatal("goes cold")
				}
			}
		})
	}
}

// What each chunk of output costs the idle timeout.
func BenchmarkIdleTouch(b *testing.B) {
	w := newWatchdog(time.Hour)
	defer w.hold()
	for b.Loop() {
		w.touch()
	}
}
