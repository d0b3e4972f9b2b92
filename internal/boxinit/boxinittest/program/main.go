// Command program is a container's init, for tests. Under any other name it does nothing, or with the number of a signal
// sends that to the init of its container and to each of the init's threads, for ever:
// once these queue, it says so.
package main

import (
	"os"
	"strconv"
	"syscall"

	_ "belljar/internal/boxinit"
)

func main() {
	if len(os.Args) != 2 {
		return
	}
	number, err := strconv.Atoi(os.Args[1])
	threads, alsoErr := os.ReadDir("/proc/1/task")
	if err != nil || alsoErr != nil {
		return
	}
	for turns := 1; ; turns++ {
		syscall.Kill(1, syscall.Signal(number))
		for _, thread := range threads {
			id, _ := strconv.Atoi(thread.Name())
			syscall.RawSyscall(syscall.SYS_TGKILL, 1, uintptr(id), uintptr(number))
		}
		if turns == 10_000 {
			os.Stdout.WriteString("flooding\n")
		}
	}
}
