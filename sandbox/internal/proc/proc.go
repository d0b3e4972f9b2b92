// Package proc reads what this host's kernel knows about processes, above all those of
// a container: which run, without missing one, what they used, and whether one waits for
// input. It signals exactly the processes that were listed.
package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/internal/cgroup"

	"golang.org/x/sys/unix"
)

// clockTicks is USER_HZ, the unit of times in /proc, 100 on every Linux
// architecture that Go runs on (proc(5)).
const clockTicks = 100

// maxArgs bounds what is shown of a process's arguments. They end with cut then.
const (
	maxArgs = 4096
	cut     = "…"
)

// Stat is what is needed of /proc/PID/stat, with the reader's PIDs.
type Stat struct {
	PID, PPID, PGRP int
	SID             int
	Comm, State     string
	Flags, Threads  int64
	StartTicks      int64
	RSSPages        int64
}

// ReadStat reads that of a process of this host.
func ReadStat(pid int) (Stat, error) {
	text, err := cgroup.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if IsGone(err) && pid > 0 && !IsGone(unix.Kill(pid, 0)) {
		return Stat{}, fmt.Errorf("process %d: %w", pid, errHidden)
	}
	if err != nil {
		return Stat{}, err
	}
	return ParseStat(text)
}

// ParseStat reads the text of such a file.
func ParseStat(text []byte) (Stat, error) {
	// The name is in parentheses and may contain some itself: the last
	// closing one ends it.
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return Stat{}, errStat
	}
	fields := strings.Fields(string(text[end+1:]))
	pid, err := strconv.Atoi(strings.TrimSpace(string(text[:open])))
	if err != nil || len(fields) < 22 {
		return Stat{}, errStat
	}
	number := func(i int) int64 { n, _ := strconv.ParseInt(fields[i], 10, 64); return n }
	return Stat{
		PID: pid, Comm: string(text[open+1 : end]), State: fields[0],
		PPID: int(number(1)), PGRP: int(number(2)), SID: int(number(3)), Flags: number(6), Threads: number(17), StartTicks: number(19), RSSPages: number(21),
	}, nil
}

var errStat = errors.New("/proc/PID/stat has an unknown format")

// errHidden is of a process that runs, and of which a /proc that is mounted with hidepid says as little as of none.
var errHidden = errors.New("/proc hides it")

// Runs is false for a process that ended and only waits to be reaped. One whose
// first thread ended looks dead, but has other threads.
func (s Stat) Runs() bool { return s.State != "X" && (s.State != "Z" || s.Threads > 1) }

// Exiting reports whether the process has begun to end. The first process of a PID
// namespace has begun by the time the kernel kills the others for it.
func (s Stat) Exiting() bool { return s.Flags&pfExiting != 0 }

// pfExiting is PF_EXITING of the kernel's include/linux/sched.h.
const pfExiting = 4

// Process fills in what does not depend on the PID namespace.
func (s Stat) Process(up time.Duration, uid int, args []byte) sandbox.Process {
	return sandbox.Process{
		UID: uid, User: userName(uid), State: s.State, StartTicks: s.StartTicks,
		ElapsedSeconds: int64(up.Seconds()) - s.StartTicks/clockTicks,
		RSSBytes:       s.RSSPages * int64(os.Getpagesize()),
		Command:        commandLine(args, s.Comm),
	}
}

// ParseInside reads what a container's own /proc says of a process: PIDs are inside ones. Without a
// PID, it ended while it was read; one that does not run ended and was not waited for.
func ParseInside(stat, status, args string, up time.Duration) (p sandbox.Process, runs bool) {
	s, err := ParseStat([]byte(stat))
	if err != nil || status == "" {
		return p, false
	}
	p = s.Process(up, ParseStatus(status).UID, []byte(args))
	p.PID, p.PPID, p.PGID, p.SID = s.PID, s.PPID, s.PGRP, s.SID
	ends := s.Exiting() && s.Threads <= 1 // to give large memory back takes a while
	return p, s.Runs() && !ends
}

// Status is what is needed of /proc/PID/status: the IDs inside the process's
// own PID namespace.
type Status struct {
	UID            int
	PID, PGID, SID int
	Killed         bool // a SIGKILL is pending
}

// Children are the children of a process of this host.
func Children(pid int) (list []int, err error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		for field := range strings.FieldsSeq(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				list = append(list, child)
			}
		}
	}
	return list, err
}

// ReadStatus reads that of a process of this host.
func ReadStatus(pid int) (Status, error) {
	text, err := cgroup.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Status{}, err
	}
	return ParseStatus(string(text)), nil
}

// ParseStatus reads the text of such a file.
func ParseStatus(text string) Status {
	var s Status
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		fields := strings.Fields(value)
		if len(fields) == 0 {
			continue
		}
		switch key {
		case "Uid":
			s.UID, _ = strconv.Atoi(fields[0])
		case "SigPnd", "ShdPnd":
			pending, _ := strconv.ParseUint(fields[0], 16, 64)
			s.Killed = s.Killed || pending&(1<<(unix.SIGKILL-1)) != 0
		case "NSpid": // the innermost namespace comes last
			s.PID, _ = strconv.Atoi(fields[len(fields)-1])
		case "NSpgid":
			s.PGID, _ = strconv.Atoi(fields[len(fields)-1])
		case "NSsid":
			s.SID, _ = strconv.Atoi(fields[len(fields)-1])
		}
	}
	return s
}

// commandLine reads /proc/PID/cmdline, which is empty for a process without memory of its
// own.
func commandLine(text []byte, comm string) string {
	if len(text) > maxArgs {
		text = append(text[:maxArgs-len(cut):maxArgs-len(cut)], cut...)
	}
	text = bytes.TrimRight(text, "\x00")
	if len(text) == 0 {
		return "[" + comm + "]"
	}
	return strings.ToValidUTF8(string(bytes.ReplaceAll(text, []byte{0}, []byte{' '})), "\uFFFD")
}

// uptime is on the same clock as processes' start times.
func uptime() time.Duration {
	text, _ := cgroup.ReadFile("/proc/uptime")
	return ParseUptime(string(text))
}

func userName(uid int) string {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return u.Username
	}
	return strconv.Itoa(uid)
}

// threads is how many threads the processes have together; one that is gone has none.
func threads(pids []int) (n int64) {
	for _, pid := range pids {
		s, _ := ReadStat(pid)
		n += s.Threads
	}
	return n
}

// zombies are the children of these processes that ended and were not waited for.
func zombies(pids []int) (dead []int) {
	for _, pid := range pids {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
		for _, file := range files {
			text, _ := os.ReadFile(file)
			for field := range strings.FieldsSeq(string(text)) {
				child, err := strconv.Atoi(field)
				if s, gone := ReadStat(child); err == nil && gone == nil && !s.Runs() {
					dead = append(dead, child)
				}
			}
		}
	}
	return dead
}

// readProcess describes the process with that PID on this host. One that is
// gone, or only waits to be reaped, does not count. One that loads a program has no arguments yet.
func readProcess(pid int, up time.Duration) (p sandbox.Process, uid int, loads, ok bool) {
	stat, err := ReadStat(pid)
	if err != nil || !stat.Runs() {
		return p, 0, false, false
	}
	inside, err := ReadStatus(pid)
	if err != nil {
		return p, 0, false, false
	}
	args, err := cgroup.ReadStart(fmt.Sprintf("/proc/%d/cmdline", pid), maxArgs+1)
	p = stat.Process(up, inside.UID, args)
	p.PID, p.PPID, p.PGID, p.SID, p.HostPID = inside.PID, stat.PPID, inside.PGID, inside.SID, pid
	return p, inside.UID, err == nil && len(args) == 0 && !stat.Exiting(), true
}

// ParseUptime reads the text of /proc/uptime.
func ParseUptime(text string) time.Duration {
	first, _, _ := strings.Cut(text, " ")
	seconds, _ := strconv.ParseFloat(first, 64)
	return time.Duration(seconds * float64(time.Second))
}
