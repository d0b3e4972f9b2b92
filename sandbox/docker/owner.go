package docker

import (
	"fmt"
	"os"
	"strings"
)

// owner names a process so that another one can find out whether it still runs:
// the boot, the PID namespace, the PID and the time it started, which a
// recycled PID does not share.
type owner struct {
	host    string // boot ID and PID namespace: within one, PIDs can be compared
	process string // PID and start time
	name    string // user and host name: the owner of sessions, also after a restart
}

func thisProcess() owner {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	hostname, _ := os.Hostname()
	namespace, _ := os.Readlink("/proc/self/ns/pid")
	return owner{
		host:    strings.TrimSpace(string(boot)) + "/" + strings.Trim(namespace, "pid:[]"),
		process: processName(os.Getpid()),
		name:    fmt.Sprintf("%d@%s", os.Getuid(), hostname),
	}
}

// processName is "" for a process that is gone, or dead and not yet reaped.
func processName(pid int) string {
	p, err := readStat(pid)
	if err != nil || !p.runs() {
		return ""
	}
	return fmt.Sprintf("%d@%d", pid, p.startTicks)
}

// gone reports whether the process that wrote these labels has certainly ended. Nothing is
// known of processes on another host.
func (o owner) gone(host, process string) bool {
	var pid int
	if host != o.host {
		return false
	}
	if _, err := fmt.Sscanf(process, "%d@", &pid); err != nil {
		return false
	}
	return processName(pid) != process
}
