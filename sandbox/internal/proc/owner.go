package proc

import (
	"fmt"
	"os"
	"strings"
)

// Owner names a process so that another one can find out whether it still runs:
// the boot, the PID namespace, the PID and the time it started, which a
// recycled PID does not share.
type Owner struct {
	Host    string // boot ID and PID namespace: within one, PIDs can be compared
	Process string // PID and start time
	Name    string // user and host name: the owner of sessions, also after a restart
}

// ThisProcess is this process.
func ThisProcess() Owner {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	hostname, _ := os.Hostname()
	namespace, _ := os.Readlink("/proc/self/ns/pid")
	return Owner{
		Host:    strings.TrimSpace(string(boot)) + "/" + strings.Trim(namespace, "pid:[]"),
		Process: processName(os.Getpid()),
		Name:    fmt.Sprintf("%d@%s", os.Getuid(), hostname),
	}
}

// processName is "" for a process that is gone, or dead and not yet reaped.
func processName(pid int) string {
	p, err := ReadStat(pid)
	if err != nil || !p.Runs() {
		return ""
	}
	return fmt.Sprintf("%d@%d", pid, p.StartTicks)
}

// Runs reports whether the process of that host and name certainly runs.
func (o Owner) Runs(host, process string) bool {
	var pid int
	_, err := fmt.Sscanf(process, "%d@", &pid)
	return err == nil && host == o.Host && processName(pid) == process
}

// Gone reports whether the process of that host and name has certainly ended. Nothing is
// known of processes on another host.
func (o Owner) Gone(host, process string) bool {
	var pid int
	if host != o.Host {
		return false
	}
	if _, err := fmt.Sscanf(process, "%d@", &pid); err != nil {
		return false
	}
	return processName(pid) != process
}
