package boxinit

import (
	"syscall"
	"time"
	"unsafe"
)

// awayPause is how long a terminal is left alone that no process has open.
const awayPause = 100 * time.Millisecond

// leaves reports whether reading failed only as no process has the terminal open now. While the first one runs it is still its own, and may be
// opened again, as /dev/tty. To close it would hang it up, which ends the process. Until it is opened poll(2) does not wait.
func (p *proc) leaves(err error) bool {
	if !p.terminal || p.ended || errnoOf(err) != syscall.EIO {
		return false
	}
	p.away = time.Now().Add(awayPause)
	return true
}

// isAway reports whether it is too early to look at the terminal again.
func (p *proc) isAway() bool {
	if !p.away.IsZero() && !time.Now().Before(p.away) {
		p.away = time.Time{}
	}
	return !p.away.IsZero()
}

// soonest calls sooner with how long that is.
func (p *proc) soonest(sooner func(time.Duration)) {
	if !p.away.IsZero() {
		sooner(time.Until(p.away))
	}
}

// tellResized signals a change of size where the kernel does not: gVisor's, which does not say either which group
// is in the foreground. So all of the terminal's session get the signal; most programs ignore it.
func (p *proc) tellResized() {
	var foreground int32
	if ioctl(p.streams[0].fd, syscall.TIOCGPGRP, unsafe.Pointer(&foreground)) == 0 {
		return
	}
	all, _ := pids()
	for _, pid := range all {
		if s, ok := readStat(pid); ok && s.session == p.pid {
			syscall.Kill(pid, syscall.SIGWINCH)
		}
	}
}
