package sandbox

import (
	"testing"
	"time"
)

func TestFormatSize(t *testing.T) {
	for bytes, want := range map[int64]string{
		0: "0 bytes", 1: "1 byte", 1023: "1023 bytes", 1024: "1 KiB", 1536: "1.5 KiB", 64 << 20: "64 MiB", 100_000_000: "95.37 MiB", 2 << 30: "2 GiB", 1 << 62: "4 EiB",
	} {
		if got := FormatSize(bytes); got != want {
			t.Errorf("%d bytes: %q, want %q", bytes, got, want)
		}
	}
}

func TestFormatDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", time.Second: "1s", 10 * time.Second: "10s", 90 * time.Second: "1m30s", 10 * time.Minute: "10m", time.Hour: "1h", 90 * time.Minute: "1h30m",
		20 * time.Hour: "20h", time.Hour + 10*time.Second: "1h0m10s", 1500 * time.Millisecond: "1.5s",
	} {
		if got := FormatDuration(d); got != want {
			t.Errorf("%d ns: %q, want %q", d, got, want)
		}
	}
}
