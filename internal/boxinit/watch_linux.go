package boxinit

import (
	"syscall"
	"time"
)

// lookAfter is how long a start may take before it is looked whether the new process
// was stopped.
const lookAfter = 200 * time.Millisecond

// watch kills a process that was stopped before it ran its program. Processes of the
// same user can do that once it is of their user, as `kill -STOP -1` does. The main
// thread would wait for ever.
func (l *loop) watch() {
	if !l.busy || !l.starting || time.Since(l.since) < lookAfter {
		return
	}
	own, ok := readStat(1)
	if !ok {
		return
	}
	all, _ := pids()
	for _, pid := range all {
		if l.procs[pid] != nil || pid == 1 {
			continue
		}
		// It shares our name until then. A process with a forged name is killed, too: it
		// has what it asked for.
		s, ok := readStat(pid)
		if ok && s.ppid == 1 && s.state == 'T' && s.comm == own.comm {
			l.stuck = append(l.stuck, pid)
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	l.since = time.Now()
}
