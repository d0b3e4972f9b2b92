package docker

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

	"golang.org/x/sys/unix"
)

// clockTicks is USER_HZ, the unit of times in /proc, 100 on every Linux
// architecture that Go runs on (proc(5)).
const clockTicks = 100

// maxArgs bounds what is shown of a process's arguments.
const maxArgs = 4096

// stat is what is needed of /proc/PID/stat, with the reader's PIDs.
type stat struct {
	pid, ppid, pgrp int
	sid             int
	comm, state     string
	flags, threads  int64
	startTicks      int64
	rssPages        int64
}

func readStat(pid int) (stat, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, err
	}
	return parseStat(text)
}

func parseStat(text []byte) (stat, error) {
	// The name is in parentheses and may contain some itself: the last
	// closing one ends it.
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return stat{}, errStat
	}
	fields := strings.Fields(string(text[end+1:]))
	pid, err := strconv.Atoi(strings.TrimSpace(string(text[:open])))
	if err != nil || len(fields) < 22 {
		return stat{}, errStat
	}
	number := func(i int) int64 { n, _ := strconv.ParseInt(fields[i], 10, 64); return n }
	return stat{
		pid: pid, comm: string(text[open+1 : end]), state: fields[0],
		ppid: int(number(1)), pgrp: int(number(2)), sid: int(number(3)), flags: number(6), threads: number(17), startTicks: number(19), rssPages: number(21),
	}, nil
}

var errStat = errors.New("/proc/PID/stat has an unknown format")

// runs is false for a process that ended and only waits to be reaped. One whose
// first thread ended looks dead, but has other threads.
func (s stat) runs() bool { return s.state != "X" && (s.state != "Z" || s.threads > 1) }

// exiting reports whether the process has begun to end. The first process of a PID
// namespace has begun by the time the kernel kills the others for it.
func (s stat) exiting() bool { return s.flags&pfExiting != 0 }

// pfExiting is PF_EXITING of the kernel's include/linux/sched.h.
const pfExiting = 4

// process fills in what does not depend on the PID namespace.
func (s stat) process(up time.Duration, uid int, args []byte) sandbox.Process {
	return sandbox.Process{
		UID: uid, User: userName(uid), State: s.state, StartTicks: s.startTicks,
		ElapsedSeconds: int64(up.Seconds()) - s.startTicks/clockTicks,
		RSSBytes:       s.rssPages * int64(os.Getpagesize()),
		Command:        commandLine(args, s.comm),
	}
}

// status is what is needed of /proc/PID/status: the IDs inside the process's
// own PID namespace.
type status struct {
	uid            int
	pid, pgid, sid int
	killed         bool // a SIGKILL is pending
}

func readStatus(pid int) (status, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return status{}, err
	}
	return parseStatus(string(text)), nil
}

func parseStatus(text string) status {
	var s status
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		fields := strings.Fields(value)
		if len(fields) == 0 {
			continue
		}
		switch key {
		case "Uid":
			s.uid, _ = strconv.Atoi(fields[0])
		case "SigPnd", "ShdPnd":
			pending, _ := strconv.ParseUint(fields[0], 16, 64)
			s.killed = s.killed || pending&(1<<(unix.SIGKILL-1)) != 0
		case "NSpid": // the innermost namespace comes last
			s.pid, _ = strconv.Atoi(fields[len(fields)-1])
		case "NSpgid":
			s.pgid, _ = strconv.Atoi(fields[len(fields)-1])
		case "NSsid":
			s.sid, _ = strconv.Atoi(fields[len(fields)-1])
		}
	}
	return s
}

// commandLine reads /proc/PID/cmdline, which is empty for a process without memory of its
// own.
func commandLine(text []byte, comm string) string {
	text = bytes.TrimRight(text[:min(len(text), maxArgs)], "\x00")
	if len(text) == 0 {
		return "[" + comm + "]"
	}
	return strings.ToValidUTF8(string(bytes.ReplaceAll(text, []byte{0}, []byte{' '})), "\uFFFD")
}

// uptime is on the same clock as processes' start times.
func uptime() time.Duration {
	text, _ := os.ReadFile("/proc/uptime")
	return parseUptime(string(text))
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
		s, _ := readStat(pid)
		n += s.threads
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
				if s, gone := readStat(child); err == nil && gone == nil && !s.runs() {
					dead = append(dead, child)
				}
			}
		}
	}
	return dead
}

// readProcess describes the process with that PID on this host. One that is
// gone, or only waits to be reaped, does not count.
func readProcess(pid int, up time.Duration) (p sandbox.Process, uid int, ok bool) {
	stat, err := readStat(pid)
	if err != nil || !stat.runs() {
		return p, 0, false
	}
	inside, err := readStatus(pid)
	if err != nil {
		return p, 0, false
	}
	args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	p = stat.process(up, inside.uid, args)
	p.PID, p.PPID, p.PGID, p.SID, p.HostPID = inside.pid, stat.ppid, inside.pgid, inside.sid, pid
	return p, inside.uid, true
}
