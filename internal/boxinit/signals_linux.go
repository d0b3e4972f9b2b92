package boxinit

import (
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"unsafe"
)

// reached reports whether commands can send signals to the init.
func (c Config) reached() bool { return c.Root || c.Alone }

// notify has signals ring the bell, those of children first of all. A signal that Go handles
// gets its default in the programs it starts: SIGHUP and SIGINT are the ones that a parent may
// ignore. All of them take 4 ms of processor, so that is for where root can send them.
func notify(ring func(), all bool) {
	signals := make(chan os.Signal, 1)
	if all {
		signal.Notify(signals)
	} else {
		signal.Notify(signals, syscall.SIGCHLD, syscall.SIGHUP, syscall.SIGINT)
	}
	go func() {
		for range signals {
			ring()
		}
	}()
}

// action is the kernel's struct of rt_sigaction(2), which begins with the handler, or more than that.
type action [8]uint64

const (
	ignore  = 1
	setSize = 8 // bytes of a set of signals
	// lastSignal is the last one, SIGRTMAX.
	lastSignal = 64
)

// heed undoes that the process which started the container ignores a signal: a program that init starts would do so, too.
// The kernel keeps a signal without a handler from a container's first process all the same.
func heed() {
	for s := syscall.Signal(1); s <= lastSignal; s++ {
		var now action
		_, _, errno := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(s), 0, uintptr(unsafe.Pointer(&now)), setSize, 0, 0)
		if errno == 0 && now[0] == ignore {
			sigaction(s, &action{})
		}
	}
}

// withstand makes this program take any signal that a command may send: the kernel drops all but SIGCHLD where they are sent. Real-time
// ones queue, and would be handled back to back while others send them, without a turn for anything else. Go ends a program at some of
// the others where they are not its own, or look so: sigqueue(3) sends such. The kernel keeps those without a handler from a container's
// first process, but not where its main thread blocks them for a moment, as it does to start a process. Go does without SIGURG: nothing
// here runs for long between two calls. In the programs that it starts all have their default again, as notify takes them, but 32 and
// 34, which Go leaves to C libraries: they stay ignored.
func withstand() syscall.Errno {
	for s := syscall.Signal(1); s <= lastSignal; s++ {
		if s == syscall.SIGKILL || s == syscall.SIGSTOP || s == syscall.SIGCHLD {
			continue
		}
		if errno := sigaction(s, &action{ignore}); errno != 0 {
			return errno
		}
	}
	return 0
}

// block gives the goroutine a thread of its own that no signal interrupts: those that are sent while the main thread blocks them
// are not dropped, and there is no end to SIGCHLD. Programs are started by another thread.
func block() {
	runtime.LockOSThread()
	all, setMask := ^uint64(0), uintptr(2)
	syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, setMask, uintptr(unsafe.Pointer(&all)), 0, setSize, 0, 0)
}

func sigaction(s syscall.Signal, to *action) syscall.Errno {
	_, _, errno := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(to)), 0, setSize, 0, 0)
	return errno
}
