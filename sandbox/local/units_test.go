package local

import (
	"testing"
	"time"
)

func TestUnits(t *testing.T) {
	for n, want := range map[int64]string{0: "0 bytes", 100: "100 bytes", 1 << 10: "1 KiB", 1536: "1.5 KiB", 64 << 20: "64 MiB", 2 << 30: "2 GiB"} {
		if got := size(n); got != want {
			t.Errorf("size(%d) is %q, want %q", n, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		30 * time.Second: "30s", 10 * time.Minute: "10m", time.Hour: "1h", 90 * time.Minute: "1h30m", 100 * time.Minute: "1h40m",
		time.Minute + 10*time.Second: "1m10s", 10 * time.Hour: "10h", time.Hour + time.Second: "1h0m1s", 200 * time.Millisecond: "200ms", 0: "0s",
	} {
		if got := duration(d); got != want {
			t.Errorf("duration(%v) is %q, want %q", d, got, want)
		}
	}
}
