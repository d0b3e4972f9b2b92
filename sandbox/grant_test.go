package sandbox

import "testing"

func TestSize(t *testing.T) {
	for bytes, want := range map[int64]string{
		1: "1B", 1023: "1023B", 4 << 10: "4KiB", 64 << 20: "64MiB", 3 << 29: "1.5GiB", 1<<20 + 1: "1MiB", 1000 << 20: "1000MiB", 1<<63 - 1: "8EiB",
	} {
		if got := size(bytes); got != want {
			t.Errorf("%d is %s, want %s", bytes, got, want)
		}
	}
}
