package boxinit

import (
	"syscall"
	"time"

	"belljar/internal/boxinit/wire"
)

// reap tells what ended. While the worker starts a process it may be any that is not known
// yet: then only known ones are reaped.
func (l *loop) reap() {
	if !l.unreaped {
		return
	}
	if l.busy {
		for pid, p := range l.procs {
			var status syscall.WaitStatus
			if got, _ := syscall.Wait4(pid, &status, syscall.WNOHANG, nil); got == pid {
				l.exited(p, status)
			}
		}
		return
	}
	l.unreaped, l.more = false, false
	for range mostReaped {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if p, ok := l.procs[pid]; ok {
			l.exited(p, status)
		}
	}
	l.unreaped, l.more = true, true
}

// mostReaped bounds how many are reaped in a turn: others may end as fast.
const mostReaped = 64

// killPause is how long after everything was killed it is looked whether it is gone.
const killPause = 5 * time.Millisecond

// kill kills everything but this program.
func (l *loop) kill(w waiter) {
	l.killers = append(l.killers, w)
	syscall.Kill(-1, syscall.SIGKILL)
}

// finishKill answers once only the init is left.
func (l *loop) finishKill() {
	if len(l.killers) == 0 || l.busy {
		return
	}
	l.unreaped = true
	l.reap()
	if err := syscall.Kill(-1, syscall.SIGKILL); err != syscall.ESRCH {
		return
	}
	if l.config.reached() {
		withstand() // drops the signals that they left waiting, which count as their user's
	}
	for _, w := range l.killers {
		w.send(wire.Done, w.id, errnoBody(0))
	}
	l.killers = nil
	l.gathered()
	if l.ends {
		l.exit()
	}
}

// exit ends this program, once what is known is told.
func (l *loop) exit() {
	l.gathered()
	l.flush()
	syscall.Exit(0)
}
