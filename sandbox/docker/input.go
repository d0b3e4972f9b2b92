package docker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"belljar/sandbox"

	"golang.org/x/sys/unix"
)

// WaitsForInput reports whether one of the listed processes is blocked reading its stdin,
// and that comes from outside the container. It is false where this is not known for sure:
// it takes the kernel of this host, and root's right to look at other processes.
func (b *box) WaitsForInput(list []sandbox.Process) bool {
	h, ok := b.inspector.(*hostInspector)
	if !ok {
		return false
	}
	for _, p := range list {
		if stdin := readsStdin(p.HostPID); stdin != "" && h.comesFromOutside(stdin) {
			now, err := readStat(p.HostPID)
			return err == nil && now.startTicks == p.StartTicks
		}
	}
	return false
}

// readsStdin is what the process's stdin is, such as "pipe:[1234]", if its first thread is
// blocked in read(2) of it; else it is empty.
func readsStdin(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", pid)) // number, arguments, stack and instruction
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 4 || fields[0] != strconv.Itoa(unix.SYS_READ) || fields[1] != "0x0" {
		return ""
	}
	stdin, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/0", pid))
	return stdin
}

// maxLinks bounds the open files that are looked at.
const maxLinks = 16 << 10

// comesFromOutside reports whether no process of the container can write to a pipe or, for
// a terminal, has the other end of one. A reader that is blocked has a writer: outside.
func (h *hostInspector) comesFromOutside(stdin string) bool {
	terminal := strings.HasPrefix(stdin, "/dev/pts/")
	if !terminal && !strings.HasPrefix(stdin, "pipe:[") {
		return false
	}
	pids, err := h.group.pids()
	left := maxLinks
	for _, pid := range pids {
		dir := fmt.Sprintf("/proc/%d/fd", pid)
		files, failed := os.ReadDir(dir)
		if left -= len(files); left < 0 || failed != nil && !isGone(failed) {
			return false
		}
		for _, file := range files {
			link, failed := os.Readlink(dir + "/" + file.Name())
			switch {
			case failed != nil && !isGone(failed):
				return false
			case terminal && strings.HasSuffix(link, "/ptmx"), link == stdin && !terminal && !onlyReads(pid, file.Name()):
				return false
			}
		}
	}
	return err == nil
}

func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) }

// onlyReads reports whether the process has opened the file for reading only (proc_pid_fdinfo(5)).
func onlyReads(pid int, fd string) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%s", pid, fd))
	_, rest, _ := strings.Cut(string(text), "flags:")
	line, _, _ := strings.Cut(rest, "\n")
	flags, wrong := strconv.ParseUint(strings.TrimSpace(line), 8, 64)
	return err == nil && wrong == nil && flags&unix.O_ACCMODE == unix.O_RDONLY
}
