package httpapi_test

import (
	"testing"

	"belljar/sandbox"
	"belljar/sandbox/client"
	"belljar/sandbox/sandboxtest"
)

// What HTTP adds to a command, without an engine: compare the two.
func BenchmarkRun(b *testing.B) {
	for _, way := range []string{"library", "http"} {
		b.Run(way, func(b *testing.B) {
			s := newSidecar(b, func(*sandboxtest.Proc) int { return 0 })
			var r sandbox.Runner = s.l
			if way == "http" {
				c, err := client.New(client.Config{Host: s.URL})
				if err != nil {
					b.Fatal(err)
				}
				defer c.Close()
				r = c
			}
			for b.Loop() {
				if _, err := sandbox.Run(b.Context(), r, sandbox.Command{Script: "true"}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
