package gate

import (
	"fmt"
	"strings"
	"testing"

	"belljar/sandbox"
)

func BenchmarkDelivery(b *testing.B) {
	line := "echo 'it''s' \"$HOME\"; printf '%s\\n' x\n"
	for _, size := range []int{1 << 10, 64 << 10} {
		c := sandbox.Command{Dir: "/work", Script: strings.Repeat(line, size/len(line)), Env: []string{"LANG=C.UTF-8", "PATH=/usr/local/bin:/usr/bin:/bin"}}
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			b.SetBytes(int64(len(c.Script)))
			b.ReportAllocs()
			for b.Loop() {
				if _, ok := Line(c, MaxShort); !ok {
					b.Fatal("goes cold")
				}
			}
		})
	}
}
