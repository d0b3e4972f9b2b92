package boxinit

import (
	"bytes"
	"strconv"
	"syscall"
)

// readFile reads the beginning of a file of /proc.
func readFile(path string, most int) ([]byte, error) {
	text := make([]byte, most)
	n, err := readInto(path, text)
	return text[:n], err
}

// readInto is readFile into that memory. It returns how much there is.
func readInto(path string, text []byte) (have int, err error) {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer syscall.Close(fd)
	for have < len(text) {
		n, err := syscall.Read(fd, text[have:])
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return 0, err
		}
		if n == 0 {
			break
		}
		have += n
	}
	return have, nil
}

// stat is what is needed of /proc/PID/stat.
type stat struct {
	comm    string
	state   byte
	ppid    int
	session int
	forked  bool   // and not yet in execve(2): it has its parent's arguments
	ticks   uint64 // when it started
}

const forkNoExec = 0x40 // PF_FORKNOEXEC of the kernel's flags

// statSize is more than a stat takes.
const statSize = 1024

func readStat(pid int) (s stat, ok bool) {
	text, err := readFile("/proc/"+strconv.Itoa(pid)+"/stat", statSize)
	if err != nil {
		return s, false
	}
	return parseStat(text)
}

// parseStat reads proc_pid_stat(5). The name may have parentheses of its own.
func parseStat(text []byte) (s stat, ok bool) {
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return s, false
	}
	fields := bytes.Fields(text[end+1:])
	if len(fields) < 20 || len(fields[0]) != 1 {
		return s, false
	}
	ppid, err := strconv.Atoi(string(fields[1]))
	session, _ := strconv.Atoi(string(fields[3]))
	flags, _ := strconv.ParseUint(string(fields[6]), 10, 64)
	ticks, alsoErr := strconv.ParseUint(string(fields[19]), 10, 64)
	return stat{comm: string(text[open+1 : end]), state: fields[0][0], ppid: ppid, session: session, forked: flags&forkNoExec != 0, ticks: ticks}, err == nil && alsoErr == nil
}

func startTicks(pid int) (uint64, bool) {
	s, ok := readStat(pid)
	return s.ticks, ok
}

// pids are all processes of the container.
func pids() (list []int, err error) {
	fd, err := syscall.Open("/proc", syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer syscall.Close(fd)
	block := make([]byte, 16<<10)
	for {
		n, err := syscall.ReadDirent(fd, block)
		if err != nil || n <= 0 {
			return list, err
		}
		_, _, names := syscall.ParseDirent(block[:n], -1, nil)
		for _, name := range names {
			if pid, err := strconv.Atoi(name); err == nil && pid > 0 {
				list = append(list, pid)
			}
		}
	}
}
