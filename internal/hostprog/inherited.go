package hostprog

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// CloseInherited closes the files that this process inherited, such as a shell's locks or
// a pipe whose reader would wait for this process to end. Files that Go opened are
// close-on-exec: they stay open.
func CloseInherited() {
	open, _ := os.ReadDir("/proc/self/fd")
	for _, entry := range open {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil || fd <= 2 {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			unix.Close(fd)
		}
	}
}
