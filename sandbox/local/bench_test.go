package local

import (
	"testing"
	"time"
)

// What each chunk of output costs the idle timeout.
func BenchmarkIdleTouch(b *testing.B) {
	w := newWatchdog(time.Hour)
	defer w.pause()
	for b.Loop() {
		w.restart()
	}
}
