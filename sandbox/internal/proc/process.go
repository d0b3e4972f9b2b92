package proc

import (
	"errors"
	"slices"

	"belljar/sandbox"

	"golang.org/x/sys/unix"
)

// ErrMissed is the error of a list that may be incomplete: a process that starts another
// and ends, again and again, is gone whenever it is read.
var ErrMissed = errors.New("the list may be incomplete: processes started and ended while it was made")

// CountNew counts the elements of now that before lacks.
func CountNew[T comparable](now, before []T) (n int) {
	known := make(map[T]struct{}, len(before))
	for _, x := range before {
		known[x] = struct{}{}
	}
	for _, x := range now {
		if _, is := known[x]; !is {
			n++
		}
	}
	return n
}

// listProcesses lists all but those of the keeper's user, which are own: the keeper
// and the engine's init. Where that user is taken, see Lister, it is those of the first process's session: the init, and what
// it starts until that has a session. It reports whether any of them is loading a program.
func listProcesses(pids []int, keeperUID int, taken bool) (list []sandbox.Process, own []int, loading bool) {
	up, inside, session := uptime(), map[int]int{}, -1
	if taken {
		session = firstSession(pids)
	}
	for _, pid := range pids {
		p, uid, loads, ok := readProcess(pid, up)
		if !ok {
			continue
		}
		inside[pid], loading = p.PID, loading || loads
		if taken && p.SID == session || !taken && uid == keeperUID {
			own = append(own, pid)
			continue
		}
		list = append(list, p)
	}
	for i := range list {
		list[i].PPID = inside[list[i].PPID] // 0 where the parent is outside
	}
	slices.SortFunc(list, ByPID)
	return list, own, loading
}

// firstSession is the session of the first process of a PID namespace, in that.
func firstSession(pids []int) int {
	for _, pid := range pids {
		if s, err := ReadStatus(pid); err == nil && s.PID == 1 {
			return s.SID
		}
	}
	return -1
}

// MapUsers gives processes their users inside the container, whose user namespace has them that much higher than the host.
func MapUsers(list []sandbox.Process, by int) {
	if by == 0 {
		return
	}
	for i := range list {
		list[i].UID += by
		list[i].User = userName(list[i].UID)
	}
}

// ByPID sorts processes.
func ByPID(a, b sandbox.Process) int { return a.PID - b.PID }

// Signal sends a signal to a process of this host, and reports whether the process
// has it or is gone. Another process may have got the PID since it was listed: its start
// time shows that, and from then on the descriptor refers to one process only.
func Signal(p sandbox.Process, number unix.Signal) bool {
	fd, err := unix.PidfdOpen(p.HostPID, 0)
	if err != nil {
		return errors.Is(err, unix.ESRCH)
	}
	defer unix.Close(fd)
	now, err := ReadStat(p.HostPID)
	if err != nil || now.StartTicks != p.StartTicks {
		return err == nil || IsGone(err)
	}
	err = unix.PidfdSendSignal(fd, number, nil, 0)
	return err == nil || errors.Is(err, unix.ESRCH)
}
