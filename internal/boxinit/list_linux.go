package boxinit

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"belljar/internal/boxinit/wire"
)

const (
	// settleTime is how long stopped processes may take until they are seen to be.
	settleTime = 200 * time.Millisecond
	// settlePause is how long it takes until they are looked at again.
	settlePause = time.Millisecond
	// execTime is how long a process may take from fork(2) to the end of execve(2), until which it has none of its own arguments.
	execTime = 10 * time.Millisecond
	// perPID is more than what is allocated to list a PID, in bytes.
	perPID = 128
	// maxPIDs bounds a record of PIDs, in bytes.
	maxPIDs = 32 << 10

	// maxArgs bounds what is told of a process's arguments. It is shortArgs once those of all are maxAllArgs.
	maxArgs, shortArgs, maxAllArgs = 4096, 64, 1 << 20
	// cut marks arguments that are not told whole.
	cut = "…"
)

// listProcesses is what /proc says of each process but this one: its stat, the beginning of its status and
// its arguments. One that went meanwhile is left out. The first record is the uptime, the
// last ones are the PIDs as they are afterwards. It tells how many bytes it allocated, about.
//
// Processes that were stopped have the signal at once, but those that run take it a
// moment later, and a fork(2) that had begun is finished first. With settle these are read again
// until they have.
func listProcesses(settle bool) (records [][]byte, allocated int, errno syscall.Errno) {
	l := listing{found: map[int]process{}, young: youngTicks()}
	found := l.found
	all, err := others()
	for began := time.Now(); err == nil; time.Sleep(settlePause) {
		moving, starting := l.read(all, settle)
		if all, err = others(); err != nil {
			break
		}
		l.allocated += perPID * len(all)
		l.keep(all)
		took, unsettled := time.Since(began), settle && (moving || len(found) != len(all) && !l.full)
		if (!starting || took >= execTime) && (!unsettled || took >= settleTime) {
			break
		}
	}
	if err != nil {
		return nil, l.allocated, errnoOf(err)
	}
	up, _ := readFile("/proc/uptime", 128)
	records = append(records, wire.AppendRecord(nil, up))
	for _, p := range found {
		records = append(records, p.record)
	}
	var text []byte
	for _, pid := range all {
		text = append(strconv.AppendInt(text, int64(pid), 10), ' ')
		if len(text) > maxPIDs {
			records, text = append(records, wire.AppendRecord(nil, text)), nil
		}
	}
	return append(records, wire.AppendRecord(nil, text)), l.allocated, 0
}

// youngTicks is a moment ago, as processes' starts are told: in hundredths of a second.
func youngTicks() uint64 {
	text, _ := readFile("/proc/uptime", 128)
	up, _, _ := strings.Cut(string(text), " ")
	seconds, err := strconv.ParseFloat(up, 64)
	if err != nil || seconds < 1 {
		return 0
	}
	return uint64(seconds*100) - 2
}

// others are all processes but this one.
func others() ([]int, error) {
	list, err := pids()
	return slices.DeleteFunc(list, func(pid int) bool { return pid == 1 }), err
}

// listing is what was read, within its bounds: a container's memory is the init's, too.
type listing struct {
	found      map[int]process
	size, args int // of what was found, in bytes
	allocated  int
	full       bool   // one did not fit
	young      uint64 // a process that began since then, in ticks, may be about to start a program
	room       [maxArgs + 1]byte
}

// keep drops those that are gone.
func (l *listing) keep(all []int) {
	runs := make(map[int]struct{}, len(all))
	for _, pid := range all {
		runs[pid] = struct{}{}
	}
	for pid := range l.found {
		if _, ok := runs[pid]; !ok {
			l.drop(pid)
		}
	}
}

func (l *listing) drop(pid int) {
	p := l.found[pid]
	l.size, l.args = l.size-len(p.record), l.args-p.args
	delete(l.found, pid)
}

// read reads those processes of the list that have not been read, or were starting a program then or, with settle, moved. It
// reports whether any does.
func (l *listing) read(list []int, settle bool) (moving, starting bool) {
	l.full = false
	for _, pid := range list {
		p, known := l.found[pid]
		if known && !p.starts && (!settle || !p.moves) || !known && l.full {
			continue
		}
		l.drop(pid)
		p, ok := l.readProcess(pid)
		l.allocated += len(p.record)
		if !ok {
			continue
		}
		if l.size+len(p.record) > wire.MaxListing {
			l.full = true
			continue
		}
		l.found[pid] = p
		l.size, l.args = l.size+len(p.record), l.args+p.args
		moving, starting = moving || p.moves, starting || p.starts
	}
	return moving, starting
}

// process is one of /proc.
type process struct {
	record []byte
	args   int  // the length of its arguments there
	moves  bool // it can do things, and is not just stopped
	starts bool // it is in execve(2), it seems: it has no arguments
}

// readProcess is not ok for a process that is gone.
func (l *listing) readProcess(pid int) (p process, ok bool) {
	dir := "/proc/" + strconv.Itoa(pid)
	var about [1024]byte
	n, err := readInto(dir+"/stat", about[:])
	if err != nil {
		return p, false
	}
	stat := about[:n]
	if n, err = readInto(dir+"/status", l.room[:]); err != nil {
		return p, false
	}
	record := wire.AppendRecord(nil, stat, upToUser(l.room[:n]))
	s, _ := parseStat(stat)
	args := l.readArgs(dir, s.comm)
	// One in state D waits, for a stopped child of vfork(2) or a disk: it will not do anything soon. Without arguments it
	// waits in execve(2), as for the pages of the program, and has those of the program in a moment.
	starts := (len(args) == 0 || s.forked && s.ticks >= l.young) && bytes.IndexByte([]byte("TtZX"), s.state) < 0
	return process{wire.AppendRecord(record, args), len(args), starts || bytes.IndexByte([]byte("TtZXD"), s.state) < 0, starts}, true
}

// readArgs reads a process's arguments. Where they are cut, it is between two, as a part of one could be a secret's that
// is to be masked whole; or it is the first one.
func (l *listing) readArgs(dir, name string) []byte {
	most := maxArgs
	if l.args >= maxAllArgs {
		most = shortArgs
	}
	n, _ := readInto(dir+"/cmdline", l.room[:most+1])
	if n <= most {
		return l.room[:n]
	}
	n = bytes.LastIndexByte(l.room[:most-len(cut)], 0) + 1
	switch {
	case n > 0:
	case most == maxArgs:
		n = most - len(cut)
	default:
		n = copy(l.room[:], name)
	}
	return append(l.room[:n], cut...)
}

// upToUser is the beginning of a status, up to the line of its user, or all without one.
func upToUser(status []byte) []byte {
	if i := bytes.Index(status, []byte("\nUid:")); i >= 0 {
		if n := bytes.IndexByte(status[i+1:], '\n'); n >= 0 {
			return status[:i+1+n+1]
		}
	}
	return status
}
