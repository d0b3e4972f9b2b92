package local

import (
	"testing"
	"testing/synctest"
	"time"
)

// What waits for the reader paused the idle timer, and ends that: output that comes meanwhile, and waits behind it, does not.
func TestPausedWhileOutputComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newActivity()
		a.begin(time.Second)
		a.idle.pause()
		a.heard()
		time.Sleep(time.Hour)
		select {
		case <-a.idle.C:
			t.Error("the idle timer fired while the reader held the command")
		default:
		}
		a.idle.restart()
		a.heard()
		if fired := <-a.idle.C; time.Since(fired) > 0 {
			t.Error("it fired long ago")
		}
	})
}
