package boxinit

import (
	"runtime"
	_ "unsafe" // for go:linkname
)

// setGCPercent is runtime/debug.SetGCPercent without that package, which imports fmt: Go initialises
// 150 packages of belljar before fmt, and so before this one, which costs more than all that an init does.
//
//go:linkname setGCPercent runtime/debug.setGCPercent
func setGCPercent(percent int32) (before int32)

// freeOSMemory is runtime/debug.FreeOSMemory: with the collector off, Go returns nothing by itself.
//
//go:linkname freeOSMemory runtime/debug.freeOSMemory
func freeOSMemory()

const (
	// collectAfter is how much garbage is left lying, and returnAfter how much more makes
	// it worth returning memory to the kernel.
	collectAfter, returnAfter = 1 << 20, 8 << 20
	// perTurn and perStart are more than the garbage of a turn of the loop, and of a start
	// besides its request.
	perTurn, perStart = 256, 8 << 10
)

// collect collects garbage, which would never end while a process that is being started is stopped.
func (l *loop) collect() {
	for _, c := range l.conns {
		l.garbage += c.garbage
		c.garbage = 0
	}
	switch {
	case l.busy || l.garbage < collectAfter:
		return
	case l.garbage < returnAfter:
		runtime.GC()
	default:
		freeOSMemory()
	}
	l.garbage = 0
}
