package docker

import (
	"bytes"
	"fmt"
	"io"
	"sync/atomic"
	"testing"

	"github.com/docker/docker/pkg/stdcopy"
)

// The engine's stream taken apart, as running.copy does.
func BenchmarkDemux(b *testing.B) {
	for _, size := range []int{64, 32 << 10} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			var stream bytes.Buffer
			chunk := make([]byte, size)
			for i := range 64 {
				stdcopy.NewStdWriter(&stream, []stdcopy.StdType{stdcopy.Stdout, stdcopy.Stderr}[i%2]).Write(chunk)
			}
			var writes atomic.Int64
			b.SetBytes(64 * int64(size))
			b.ReportAllocs()
			for b.Loop() {
				n, err := stdcopy.StdCopy(countWriter{io.Discard, &writes}, countWriter{io.Discard, &writes}, bytes.NewReader(stream.Bytes()))
				if err != nil || n != 64*int64(size) {
					b.Fatal(n, err)
				}
			}
		})
	}
}
